// The lease of a run in etcd: who has the key NAME/lease coordinates. It lives as long as its holder renews it, NAME/fence outlives it and tells
// the newest generation that ever held it. The calls are made on a thread of its own, so that the loop never waits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cluster/membership/lease_store.h"
#include "src/core/json.h"
#include "src/io/store/etcd.h"

namespace perigee {

inline constexpr int64_t kEtcdLeaseSeconds = 4;

class EtcdLease final : public LeaseStore {
 public:
  // With `ask` it asks etcd once, so that a wrong address or a name in use is told at once: Error(usage), Error(resources), Error(authentication).
  // `address`: where workers find this coordinator; `about`: more members for the registry of runs.
  EtcdLease(const std::string& url, uint64_t job, std::string address, Json about, bool ask = true);
  ~EtcdLease() override;  // gives the key back
  EtcdLease(const EtcdLease&) = delete;
  EtcdLease& operator=(const EtcdLease&) = delete;

  bool may_be_granted(const LeaseClaim& claim) const override;
  Answer acquire(const LeaseClaim& claim) override;
  // Pending while etcd has not answered for so long that the key may be another's: nothing may be committed then.
  Answer renew(uint64_t generation) override;
  Holder holder() const override;

 private:
  struct Found {
    Holder holder;
    std::string id, job;
  };
  static Found parse(const EtcdValue& value);
  void run();
  void turn();
  void claim_key();
  void write_generation();
  void keep();
  bool superseded(const Found& last);
  std::string value(uint64_t generation) const;
  bool mine(const Found& found) const { return found.id == id_; }

  EtcdClient etcd_;
  const std::string lease_key_, fence_key_, id_, job_, address_;
  const Json about_;

  // Used by the thread alone:
  int64_t lease_ = 0, created_ = 0;  // etcd's lease; the key's revision, 0: it is not ours
  uint64_t told_ns_ = 0;             // of the last warning

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool quit_ = false;
  uint64_t wanted_ = 0, held_ = 0;  // generations
  uint64_t deadline_ns_ = 0;        // until then the key is ours, whatever happens elsewhere
  bool lost_ = false;               // a newer generation has held it
  Holder holder_;
  std::thread thread_;
};

// The runs below an address: what their coordinators wrote, {"address", "generation", "job", ...}.
Json runs_in_etcd(const std::string& address);
// Where the coordinator of the run at this address is. Error(cluster) when none holds it.
std::string coordinator_in_etcd(const std::string& address);

}  // namespace perigee
