// Runs of several workers beside their watcher: `perigee attach`, or the prompt that started one. What the watcher asks for is carried to
// the thread on which the run's coordinator, or the connection to it, lives; the answer comes within 5 s.
//
// Public functions are the watcher's thread's; protected ones the run's.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/launch/launcher.h"
#include "cluster/launch/secret.h"
#include "src/core/error.h"
#include "src/core/json.h"
#include "src/run/run.h"

namespace perigee {

class SteeredRun : public Run {
 public:
  // `wake` is called on the run's thread when there are events to take; it must not block.
  explicit SteeredRun(std::function<void()> wake) : wake_(std::move(wake)) {}

  bool has_workers() const override { return true; }
  Json progress_report(Cancel cancel) override;
  // With "error" of a run that failed or was lost. When the run is over, as it was last.
  Json workers_report(const std::string& what, Cancel cancel) override;
  Json options_report(Cancel cancel) override;
  // A command of steer.h. Error: as the coordinator refuses it, or it does not answer.
  Json steer(const Json& command, Cancel cancel) override;
  Json evaluate(const std::string& part, Cancel cancel) override;  // always an Error, as these two
  void save(const std::string& path, Cancel cancel) override;
  std::vector<Json> take_events() override;
  void wait_for_events(std::chrono::milliseconds most, Cancel cancel) override;
  void with_session(const std::string& what, const std::function<void(Session&)>& work, Cancel cancel) override;

 protected:
  struct Question {
    Json command;  // null: only a report is wanted
    std::optional<Error> refused;
    bool answered = false;
    std::atomic<bool> given_up{false};  // the watcher no longer waits: it is not asked
  };
  using SharedQuestion = std::shared_ptr<Question>;
  // Hands it to the run's thread; false: no coordinator is there yet, or no more. The watcher's thread, without the lock.
  virtual bool hand_over(const SharedQuestion& question) = 0;

  void answer(Question& question, const std::optional<Error>& refused);
  void keep_report(Json report);
  void keep_event(const Json& event);
  void set_state(const std::string& state, const std::string& error = "", ErrorKind kind = ErrorKind::cluster);
  bool over() const;       // for good
  void wait_until_open();  // or Error

 private:
  Json report(Cancel cancel);
  void ask(Json command, Cancel cancel);

  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  RunEvents events_;
  Json report_ = Json::object();
  std::string state_ = "opening", error_;
  ErrorKind kind_ = ErrorKind::cluster;
};

// A run whose coordinator and workers this process hosts.
class HostedRun final : public SteeredRun {
 public:
  // Returns at once: the job is opened on the run's thread.
  HostedRun(const Job& job, LaunchOptions options, std::function<void()> wake);
  ~HostedRun() override;  // stops the run, with a checkpoint, and waits

 private:
  bool hand_over(const SharedQuestion& question) override;
  void thread_main(const Job& job, LaunchOptions options);

  std::atomic<bool> stop_{false};
  std::mutex launcher_mutex_;
  Launcher* launcher_ = nullptr;  // while it runs
  std::thread thread_;
};

// A run of another process, over a connection that is made again when it breaks.
class RemoteRun final : public SteeredRun {
 public:
  // Waits for the first report. Error(cluster), Error(authentication), Error(usage) when that is no coordinator.
  RemoteRun(const std::string& address, const Secret& secret, std::function<void()> wake);
  ~RemoteRun() override;

 private:
  struct Connection;
  bool hand_over(const SharedQuestion& question) override;
  void hear(const Json& report);

  std::unique_ptr<UvLoop> loop_;
  std::unique_ptr<Connection> connection_;  // the loop's thread's
  int64_t heard_event_ = -1, heard_round_ = -1, heard_epoch_ = -1;
  std::thread thread_;
};

}  // namespace perigee
