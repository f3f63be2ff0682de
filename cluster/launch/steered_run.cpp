#include "cluster/launch/steered_run.h"

#include <algorithm>

namespace perigee {
namespace {

constexpr size_t kMaxEvents = 4096;
constexpr auto kGlance = std::chrono::milliseconds(20);  // how soon a watcher that waits notices that it was told to give up
constexpr auto kAnswer = std::chrono::seconds(5);

bool is_final(const std::string& state) { return state == "finished" || state == "stopped" || state == "failed" || state == "lost"; }

}  // namespace

Json SteeredRun::report(const std::atomic<bool>* cancel) {
  std::unique_lock lock(mutex_);
  const bool ask_for_it = !is_final(state_) && state_ != "opening";
  lock.unlock();
  std::optional<Error> silent;
  if (ask_for_it) {
    try {
      ask(Json(), cancel);
    } catch (const Error& error) {
      silent = error;  // what is known is told, and that it is old
    }
  }
  lock.lock();
  Json told = report_;
  told.set("state", state_);
  if (!error_.empty()) told.set("error", error_);
  else if (silent && !is_final(state_)) told.set("error", silent->what());
  return told;
}

void SteeredRun::steer(const Json& command, const std::atomic<bool>* cancel) { ask(command, cancel); }

void SteeredRun::ask(Json command, const std::atomic<bool>* cancel) {
  const auto question = std::make_shared<Question>();
  question->command = std::move(command);
  const auto end = std::chrono::steady_clock::now() + kAnswer;
  const bool handed = hand_over(question);
  std::unique_lock lock(mutex_);
  if (!handed)
    throw Error(ErrorKind::cluster,
                {.where = "run", .what = is_final(state_) ? "it is over: " + state_ : "its coordinator is not there now", .got = error_});
  while (!question->answered) {
    if (cancel && *cancel) {
      question->given_up = true;
      throw Error(ErrorKind::usage, {.what = "interrupted"});
    }
    if (is_final(state_)) throw Error(ErrorKind::cluster, {.where = "run", .what = "it is over: " + state_, .got = error_});
    question->given_up = std::chrono::steady_clock::now() > end;
    if (question->given_up)
      throw Error(ErrorKind::cluster, {.where = "run", .what = "its coordinator does not answer", .expected = "an answer within 5 s"});
    changed_.wait_for(lock, kGlance);
  }
  if (question->refused) throw Error(*question->refused);
}

void SteeredRun::answer(Question& question, const std::optional<Error>& refused) {
  const std::lock_guard lock(mutex_);
  question.refused = refused;
  question.answered = true;
  changed_.notify_all();
}

void SteeredRun::keep_report(Json report) {
  const Json* phase = report.find("phase");
  const std::string text = phase && phase->is_string() ? phase->as_string() : "unknown";
  const bool pausing = report.find("pause") != nullptr && text == "running";
  const std::lock_guard lock(mutex_);
  report_ = std::move(report);
  if (!is_final(state_)) state_ = pausing ? "pausing" : text == "running" ? "training" : text == "finished" ? "ending" : text;
  changed_.notify_all();
}

void SteeredRun::set_state(const std::string& state, const std::string& error, ErrorKind kind) {
  {
    const std::lock_guard lock(mutex_);
    if (is_final(state_)) return;
    state_ = state;
    error_ = error;
    kind_ = kind;
  }
  changed_.notify_all();
  if (is_final(state)) keep_event(Json(Json::Object{{"event", "over"}, {"state", state}}));
  else wake_();
}

void SteeredRun::wait_until_open() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return state_ != "opening"; });
  if (is_final(state_) && !error_.empty()) throw Error(kind_, {.what = error_});
}

bool SteeredRun::over() const {
  const std::lock_guard lock(mutex_);
  return is_final(state_);
}

void SteeredRun::keep_event(const Json& event) {
  {
    const std::lock_guard lock(mutex_);
    if (events_.size() >= kMaxEvents) {
      const auto is_step = [](const Json& e) { return *e.find("event") == Json("step"); };
      const auto oldest = std::find_if(events_.begin(), events_.end(), is_step);
      events_.erase(oldest == events_.end() ? events_.begin() : oldest);
    }
    events_.push_back(event);
  }
  changed_.notify_all();
  wake_();
}

std::vector<Json> SteeredRun::take_events() {
  const std::lock_guard lock(mutex_);
  std::vector<Json> taken(std::make_move_iterator(events_.begin()), std::make_move_iterator(events_.end()));
  events_.clear();
  return taken;
}

void SteeredRun::wait_for_events(std::chrono::milliseconds most, const std::atomic<bool>* cancel) {
  const auto end = std::chrono::steady_clock::now() + most;
  std::unique_lock lock(mutex_);
  while (events_.empty() && !is_final(state_) && !(cancel && *cancel) && std::chrono::steady_clock::now() < end)
    changed_.wait_for(lock, kGlance);
}

// ---- a run that this process hosts ----

HostedRun::HostedRun(const Job& job, LaunchOptions options, std::function<void()> wake)
    : SteeredRun(std::move(wake)), thread_([this, job, launch = std::move(options)]() mutable { thread_main(job, std::move(launch)); }) {}

HostedRun::~HostedRun() {
  stop_ = true;
  thread_.join();
}

void HostedRun::thread_main(const Job& job, LaunchOptions options) {
  std::string end = "failed", problem;
  try {
    Launcher launcher(job, std::move(options), stop_);
    launcher.session().add_sink([this](const Json& event) { keep_event(event); });
    launcher.post([this](Coordinator& coordinator) { keep_report(coordinator.status()); });
    {
      const std::lock_guard lock(launcher_mutex_);
      launcher_ = &launcher;
    }
    struct Forget {
      HostedRun& run;
      ~Forget() {
        const std::lock_guard lock(run.launcher_mutex_);
        run.launcher_ = nullptr;
      }
    } forget{*this};
    const Json last = launcher.run();
    const Json* stopped = last.find("stopped");
    end = stopped && *stopped == Json("interrupted") ? "stopped" : "finished";
  } catch (const std::exception& error) {
    problem = error.what();
  }
  set_state(end, problem);
}

bool HostedRun::hand_over(const SharedQuestion& question) {
  const std::lock_guard lock(launcher_mutex_);
  if (launcher_ == nullptr) return false;
  return launcher_->post([this, question](Coordinator& coordinator) {
    std::optional<Error> refused;
    try {
      if (!question->command.is_null() && !question->given_up) coordinator.steer(question->command);
    } catch (const Error& error) {
      refused = error;
    }
    keep_report(coordinator.status());
    answer(*question, refused);
  });
}

}  // namespace perigee
