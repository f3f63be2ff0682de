// A run on a thread of its own, beside its watcher: a prompt, an application. The watcher never touches the trainer: what it asks for is
// done on the run's thread, between two steps or after the last one, and until then it waits.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "src/run/run.h"
#include "src/run/session.h"

namespace perigee {

class LiveRun final : public Run, private Hook {
 public:
  enum class State { opening, training, paused, finished, stopped, failed };

  struct Progress {
    State state = State::opening;
    int64_t step = 0, epoch = 0;        // epoch: whole ones that are done
    int64_t examples = 0, planned = 0;  // planned 0: endless
    double loss = 0, accuracy = -1;     // of the last step; accuracy -1: there are no classes
    double learning_rate = 0;
    double examples_per_s = 0, seconds = 0;
    std::string folder;
    std::string error;  // of a run that failed
  };

  // Returns at once: data are opened and the model is built on the run's thread. `wake` is called there when events are there to be taken;
  // it must not block.
  LiveRun(const Job& job, SessionOptions options, std::function<void()> wake);
  // Stops the run and waits for its thread: a step and, where the run keeps checkpoints, one checkpoint.
  ~LiveRun() override;

  Progress progress() const;
  bool over() const;  // finished, stopped or failed

  bool has_workers() const override { return false; }
  Json progress_report(Cancel cancel) override;
  Json workers_report(const std::string& what, Cancel cancel) override;
  Json steer(const Json& command, Cancel cancel) override;
  std::vector<Json> take_events() override;
  void wait_for_events(std::chrono::milliseconds most, Cancel cancel) override;
  void with_session(const std::string& what, const std::function<void(Session&)>& work, Cancel cancel) override;

  void pause();  // after the step that is being made
  void resume();
  void stop();  // as Ctrl-C does in `perigee train`: a checkpoint is written

  // Does `work` on the run's thread between two steps, or at once when it is paused or over, and waits for it. What `work` throws is thrown here.
  // False: `cancel` became true before `work` began. Error(model) when the run failed before there was a trainer.
  bool between_steps(const std::function<void(Session&)>& work, const std::atomic<bool>* cancel);

 private:
  struct Request {
    const std::function<void(Session&)>* work = nullptr;
    enum { waiting, begun, done, refused } state = waiting;
    std::exception_ptr error;
  };

  void thread_main(const Job& job);
  void on_step(Trainer& trainer, const StepReport& report) override;
  void serve(std::unique_lock<std::mutex>& lock);
  void keep_event(const Json& event);
  void change_state(State state);

  SessionOptions options_;
  const std::function<void()> wake_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Progress progress_;
  RunEvents events_;
  Request* request_ = nullptr;  // of the one watcher
  bool pause_asked_ = false, closing_ = false;
  std::atomic<bool> stop_{false};
  std::unique_ptr<Session> session_;  // of the run's thread
  std::thread thread_;                // last: it uses all of the above
};

const char* to_string(LiveRun::State state);

}  // namespace perigee
