// A run on a thread of its own, beside its watcher: a prompt, an application.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "src/run/run_server.h"
#include "src/run/watched_run.h"

namespace perigee {

class LiveRun final : public WatchedRun {
 public:
  // Returns at once: data are opened and the model is built on the run's thread.
  LiveRun(const Job& job, SessionOptions options, std::function<void()> wake);
  // Stops the run and waits for its thread: a step and, where the run keeps checkpoints, one checkpoint.
  ~LiveRun() override;

 private:
  void thread_main(const Job& job);

  SessionOptions options_;
  std::unique_ptr<Session> session_;   // of the run's thread
  std::unique_ptr<RunServer> server_;  // null: the run has no folder
  std::thread thread_;                 // last: it uses all of the above
};

}  // namespace perigee
