// Launcher and agent, and the requests of those that watch or steer a run.
#pragma once

#include <cstdint>
#include <string>

#include "cluster/protocol/frame.h"

namespace perigee {

struct Start {
  static constexpr MessageType kType = MessageType::start;
  std::string version;
  std::string job_name;
  std::string coordinator;  // where the workers are to go
  std::string key;          // the job's own key, hex: workers of one job cannot join another
  uint32_t workers = 0;     // 0: as many as the agent thinks right
  uint32_t threads = 0;     // of each; 0: cores / workers
  uint64_t generation = 0;  // of the coordinator: one whose standby has taken over owns the workers no more
  bool works = true;        // this agent is to start workers...
  bool stands_by = false;   // ...and this one the standby
  template <class F>
  void fields(F& f) {
    f(version), f(job_name), f(coordinator), f(key), f(workers), f(threads), f(generation), f(works), f(stands_by);
  }
};

// Also from the launcher to an agent: the worker of this name has trained since it was started.
struct Started {
  static constexpr MessageType kType = MessageType::started;
  std::string name;
  uint32_t workers = 0;
  std::string error;  // why not; empty: they are started
  template <class F>
  void fields(F& f) {
    f(name), f(workers), f(error);
  }
};

struct Exited {
  static constexpr MessageType kType = MessageType::exited;
  std::string name;  // of the worker
  uint32_t pid = 0;
  int32_t code = 0, signal = 0;
  bool respawned = false;
  bool standby = false;  // not a worker
  std::string tail;      // the end of what it wrote to standard error
  std::string next;      // what the agent does about it, for people
  template <class F>
  void fields(F& f) {
    f(name), f(pid), f(code), f(signal), f(respawned), f(standby), f(tail), f(next);
  }
};

struct Status {
  static constexpr MessageType kType = MessageType::status;
  std::string version;
  template <class F>
  void fields(F& f) {
    f(version);
  }
};

struct Report {
  static constexpr MessageType kType = MessageType::report;
  std::string json;
  template <class F>
  void fields(F& f) {
    f.long_text(json);
  }
};

// A non-member's request to a run: one command as JSON (steer.h). The answer is a Report with "answers": request, and, if it
// was not done, "refused": kind, what, got, expected, hint.
struct Steer {
  static constexpr MessageType kType = MessageType::steer;
  std::string version;
  uint64_t request = 0;  // the asker's number for it
  std::string json;      // at most kMaxText bytes
  template <class F>
  void fields(F& f) {
    f(version), f(request), f(json);
  }
};

#define PERIGEE_AGENT_MESSAGES(X) X(Start) X(Started) X(Exited) X(Status) X(Report) X(Steer)

}  // namespace perigee
