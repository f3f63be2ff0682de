// A training run as its watcher sees it, wherever it trains: on a thread of this process (LiveRun), in worker processes that this one
// hosts (HostedRun), in another process of this machine (LocalRun), elsewhere (RemoteRun). Only the watcher's thread calls these functions.
// Those with `cancel` wait for an answer; they throw Error(usage) "interrupted" when it becomes true.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "src/core/json.h"

namespace perigee {

class Session;

class Run {
 public:
  using Cancel = const std::atomic<bool>*;
  virtual ~Run() = default;

  virtual bool has_workers() const = 0;  // it is several processes

  // "state" ("opening", "training", "paused", ..., "finished", "stopped", "failed", "lost"), "step", "epoch" (whole ones that are done),
  // "examples", and where they are known "folder", "error", "planned", "progress" (from 0 to 1), "loss", "accuracy", "learning_rate",
  // "examples_per_s", "seconds", "workers".
  virtual Json progress_report(Cancel cancel) = 0;
  // Coordinator::status() and the state as above. Error(usage) that names `what` when there are no workers.
  virtual Json workers_report(const std::string& what, Cancel cancel) = 0;

  // The options of the job that can change, by their full names: {"optimizer.lr": {"value", "type", "fallback", "doc"}, ...}.
  virtual Json options_report(Cancel cancel) = 0;

  // A command of one member: {"pause": true}, {"stop": true}, {"set": {"option": "optimizer.lr", "value": 0.01}}, {"checkpoint": true}; with
  // workers also {"every": steps}, {"kick": worker}. The answer to "checkpoint" has the "file", or the folder where it will be.
  virtual Json steer(const Json& command, Cancel cancel) = 0;

  // The run's events since the last call, in order. The oldest "step" events go first when they are not taken.
  virtual std::vector<Json> take_events() = 0;
  // Returns when there are events, the run is over, `cancel` became true or the time is up.
  virtual void wait_for_events(std::chrono::milliseconds most, Cancel cancel) = 0;

  // Figures on a part of the data, and the model in a file, as the network is now. Error(usage) when the parameters are in
  // workers.
  virtual Json evaluate(const std::string& part, Cancel cancel) = 0;
  virtual void save(const std::string& path, Cancel cancel) = 0;
  // Does `work` with the network between two steps, or after the last one. Error(usage) that names `what` when the parameters are in
  // another process.
  virtual void with_session(const std::string& what, const std::function<void(Session&)>& work, Cancel cancel) = 0;
};

// Events that wait until a watcher takes them. Its owner locks it.
class RunEvents {
 public:
  static constexpr size_t kMost = 4096;

  void keep(const Json& event);
  std::vector<Json> take();
  bool empty() const { return events_.empty(); }

 private:
  std::deque<Json> events_;
};

}  // namespace perigee
