// Coordinator and standby.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/protocol/frame.h"
#include "cluster/protocol/records.h"

namespace perigee {

// The standby's first word.
struct Follow {
  static constexpr MessageType kType = MessageType::follow;
  std::string version, name, host;
  std::string address;    // where workers find it, should it take over
  bool prepared = false;  // false: it only asks what the job is
  uint64_t bytes = 0;     // of the ledger, that it has already ...
  uint64_t hash = 0;      // ... and their XXH3
  template <class F>
  void fields(F& f) {
    f(version), f(name), f(host), f(address), f(prepared), f(bytes), f(hash);
  }
};

// The answer to one that is not prepared: what it needs to go on with the run.
struct Inherit {
  static constexpr MessageType kType = MessageType::inherit;
  std::string job, folder, tuning;  // as in Welcome
  std::string launch;               // JSON: what the launcher was told
  template <class F>
  void fields(F& f) {
    f.long_text(job), f(folder), f.long_text(tuning), f.long_text(launch);
  }
};

// Bytes of the ledger, which follow the struct, from `offset` on; and, with or without them, that the coordinator is alive.
struct Replicate {
  static constexpr MessageType kType = MessageType::replicate;
  uint64_t offset = 0;
  Membership membership;   // generation 0: none yet, or nothing new
  bool consent = false;    // the coordinator has no majority for `membership`: does the standby agree?
  bool working = true;     // false: the coordinator lacks workers; those who do not reach it may reach the standby
  uint64_t image = 0;      // Image frames with this request number follow: the newest checkpoint
  std::string session;     // JSON: what the run's log and judge remember; empty: nothing new
  std::string steering;    // JSON: what was asked of the run while it trained; empty: nothing new
  std::vector<Named> who;  // the workers of `membership`, for people
  template <class F>
  void fields(F& f) {
    f(offset), f(membership), f(consent), f(working), f(image), f.long_text(session), f.long_text(steering), f(who);
  }
};

struct Replicated {
  static constexpr MessageType kType = MessageType::replicated;
  uint64_t bytes = 0;    // of the ledger, that it has
  uint64_t consent = 0;  // the newest generation that it agreed to
  template <class F>
  void fields(F& f) {
    f(bytes), f(consent);
  }
};

// To the coordinator that was: header.generation is in force.
struct TakenOver {
  static constexpr MessageType kType = MessageType::taken_over;
  std::string address;  // where the run goes on
  template <class F>
  void fields(F& f) {
    f(address);
  }
};

#define PERIGEE_STANDBY_MESSAGES(X) X(Follow) X(Inherit) X(Replicate) X(Replicated) X(TakenOver)

}  // namespace perigee
