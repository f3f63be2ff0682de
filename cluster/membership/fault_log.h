// One fault, one line. The coordinator sees a connection break; a moment later the agent tells that the process was killed, and by what.
// This puts the two together: "worker host/1 on host: killed by signal 9; its work was given to the others; started again".
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "src/core/json.h"

namespace perigee {

// How a worker's process ended, as an agent tells it.
struct ProcessEnd {
  std::string worker, agent;
  uint32_t pid = 0;  // 0: it was never started
  int code = 0, signal = 0;
  bool restarted = false;
  bool standby = false;  // not a worker
  std::string tail;      // of its standard error
  std::string next;      // what its agent does about it
};

// "killed by signal 9", "ended with code 3: mnist/train-images: this file is damaged".
std::string cause_of(const ProcessEnd& end);

class FaultLog {
 public:
  using Sink = std::function<void(const Json& event)>;
  explicit FaultLog(Sink sink) : sink_(std::move(sink)) {}

  // An event of the coordinator; "worker_lost" waits up to kWaitSeconds for the end of the process, but not where the worker was silent.
  void event(const Json& event, double now_s);
  void ended(const ProcessEnd& end, double now_s);
  void tick(double now_s);
  void flush();  // tells what still waits

 private:
  static constexpr double kWaitSeconds = 1;
  struct Waiting {
    Json event;
    double since_s;
  };
  struct Ended {
    ProcessEnd end;
    double since_s;
  };
  void tell(Json event, const ProcessEnd& end);
  void tell(const ProcessEnd& end);

  Sink sink_;
  std::map<std::string, Waiting> lost_;  // by worker; one each, so bounded by the number of workers
  std::map<std::string, Ended> ended_;
};

}  // namespace perigee
