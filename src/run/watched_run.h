// A run of this process for every thread but the one that trains: for a prompt, an application, the connections of `perigee attach`. They
// never touch the trainer: a request is done on the training thread, between two steps or after the last one, and its thread waits for it.
// Any number of threads may ask; however much they ask, the run makes a step in between.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "src/run/run.h"
#include "src/run/session.h"

namespace perigee {

class WatchedRun : public Run, private Hook {
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

  // `wake` is called on the training thread when events are there to be taken; it must not block.
  explicit WatchedRun(std::function<void()> wake) : wake_(std::move(wake)) {}

  Progress progress() const;
  bool over() const;  // finished, stopped or failed

  bool has_workers() const override { return false; }
  Json progress_report(Cancel cancel) override;
  Json workers_report(const std::string& what, Cancel cancel) override;
  Json options_report(Cancel cancel) override;
  Json steer(const Json& command, Cancel cancel) override;
  std::vector<Json> take_events() override;
  void wait_for_events(std::chrono::milliseconds most, Cancel cancel) override;
  void with_session(const std::string& what, const std::function<void(Session&)>& work, Cancel cancel) override;
  Json evaluate(const std::string& part, Cancel cancel) override;
  void save(const std::string& path, Cancel cancel) override;

  void pause();  // after the step that is being made
  void resume();
  void stop();  // as Ctrl-C does in `perigee train`: a checkpoint is written

  // Does `work` on the training thread between two steps, or at once when it is paused or over, and waits for it. What `work` throws is thrown
  // here. False: `cancel` became true before `work` began. Error(model) when the run failed before there was a trainer.
  bool between_steps(const std::function<void(Session&)>& work, const std::atomic<bool>* cancel);

  // For the training thread.
  Hook& hook() { return *this; }  // for SessionOptions
  const std::atomic<bool>& stop_flag() const { return stop_asked_; }
  void begin(Session& session);  // before Session::run(); it outlives close()
  void end(State state, const std::string& error = "");
  // Does what is asked for until close() is called by another thread.
  void serve_until_closed();
  void close();  // nothing more is done; requests that wait are refused

 private:
  struct Request {
    const std::function<void(Session&)>* work = nullptr;
    uint64_t number = 0;
    enum { waiting, begun, done, refused } state = waiting;
    std::exception_ptr error;
  };

  void on_step(Trainer& trainer, const StepReport& report) override;
  bool is_asked() const;
  void serve(std::unique_lock<std::mutex>& lock);
  void stand_still(std::unique_lock<std::mutex>& lock);
  void keep_event(const Json& event);
  void tell_pause(std::unique_lock<std::mutex>& lock, const char* event);

  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Progress progress_;
  RunEvents events_;
  std::vector<Request*> requests_;  // in the order in which they came
  uint64_t asked_ = 0;              // requests so far
  bool pause_asked_ = false, closed_ = false;
  std::atomic<bool> stop_asked_{false};
  Session* session_ = nullptr;  // of the training thread
};

const char* to_string(WatchedRun::State state);

}  // namespace perigee
