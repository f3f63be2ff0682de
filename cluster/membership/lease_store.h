// Who holds a run. Before a change of membership takes effect its coordinator claims the run for the new generation; at most one of two
// coordinators gets it. The one here asks the workers and the standby. A store outside (etcd, ZooKeeper) would keep a key with a time to
// live and the generation as its fencing token: it looks at no votes, answers `pending` until its round trip is over, and lets renew()
// fail when the key is another's. Called on the loop thread; none may wait.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cluster/membership/votes.h"

namespace perigee {

struct LeaseClaim {
  uint64_t generation = 0;
  std::string address;                   // of who claims
  bool first = false;                    // the run was never held
  bool is_standby = false;               // who claims took over as the standby
  std::span<const WorkerId> followers;   // who answered to the generation; they obey no older one any more
  std::span<const Membership> in_force;  // what may be in force elsewhere, as far as this coordinator and its followers know
  enum class Consent : uint8_t { absent, possible, given } standby = Consent::absent;  // its word on this very membership
};

class LeaseStore {
 public:
  enum class Answer : uint8_t { granted, pending, refused };
  struct Holder {
    std::string address;
    uint64_t generation = 0;  // 0: no known holder
  };
  virtual ~LeaseStore() = default;
  // Whether acquire() could be granted, were `followers` to answer. Asked before work is interrupted for nothing.
  virtual bool may_be_granted(const LeaseClaim& claim) const = 0;
  virtual Answer acquire(const LeaseClaim& claim) = 0;  // again and again while it is pending
  virtual Answer renew(uint64_t generation) = 0;        // ten times a second by its holder; refused: another holds it
  virtual Holder holder() const = 0;
};

// More than half of the workers of every membership that may be in force; or the standby's consent, which it gives only while it follows,
// and remembers. The standby itself needs half of them: it has the casting vote.
class VoteOfWorkers final : public LeaseStore {
 public:
  bool may_be_granted(const LeaseClaim& claim) const override;
  Answer acquire(const LeaseClaim& claim) override;
  // A coordinator that lost the lease hears of it from workers with a newer generation; until then it can commit nothing.
  Answer renew(uint64_t) override { return Answer::granted; }
  Holder holder() const override { return holder_; }

 private:
  Holder holder_;
};

}  // namespace perigee
