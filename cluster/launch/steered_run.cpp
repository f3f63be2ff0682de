#include "cluster/launch/steered_run.h"

#include <algorithm>
#include <cmath>

namespace perigee {
namespace {

constexpr auto kGlance = std::chrono::milliseconds(20);  // how soon a watcher that waits notices that it was told to give up
constexpr auto kAnswer = std::chrono::seconds(5);

bool is_final(const std::string& state) { return state == "finished" || state == "stopped" || state == "failed" || state == "lost"; }

std::optional<double> number(const Json& json, const char* name) {
  const Json* value = json.is_object() ? json.find(name) : nullptr;
  return value && value->is_number() ? std::optional(value->as_number()) : std::nullopt;
}

}  // namespace

Json SteeredRun::report(Cancel cancel) {
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

Json SteeredRun::workers_report(const std::string&, Cancel cancel) {
  Json told = report(cancel);
  const Json* error = told.find("error");
  if (error && !told.find("workers")) throw Error(kind_, {.what = error->as_string()});
  return told;
}

Json SteeredRun::progress_report(Cancel cancel) {
  const Json told = report(cancel);
  double speed = 0;
  int64_t training = 0;
  if (const Json* workers = told.find("workers"); workers && workers->is_array()) {
    for (const Json& worker : workers->as_array()) {
      speed += number(worker, "examples_per_s").value_or(0);
      const Json *state = worker.find("state"), *server = worker.find("server");
      training += state && *state == Json("training") && !(server && *server == Json(true));
    }
  }
  const double examples = number(told, "examples_done").value_or(0), planned = number(told, "planned").value_or(0);
  const double epoch = number(told, "epoch_examples").value_or(0);
  Json at = Json(Json::Object{{"state", *told.find("state")},
                              {"workers", training},
                              {"step", static_cast<int64_t>(number(told, "round").value_or(-1)) + 1},
                              {"epoch", epoch > 0 ? static_cast<int64_t>(std::floor(examples / epoch)) : 0},
                              {"examples", examples},
                              {"examples_per_s", speed}});
  if (const Json* error = told.find("error")) at.set("error", *error);
  if (planned > 0) at.set("planned", planned), at.set("progress", std::min(1.0, examples / planned));
  if (const Json* last = told.find("last"))
    for (const char* name : {"loss", "accuracy", "learning_rate"})
      if (const auto value = number(*last, name)) at.set(name, *value);
  if (const Json* run = told.find("run"))
    if (const Json* folder = run->find("folder")) at.set("folder", *folder);
  return at;
}

Json SteeredRun::options_report(Cancel cancel) {
  const Json told = workers_report("run", cancel);
  const Json* options = told.find("options");
  return options ? *options : Json::object();
}

Json SteeredRun::evaluate(const std::string&, Cancel cancel) {
  with_session("run:eval", {}, cancel);
  return {};
}

void SteeredRun::save(const std::string&, Cancel cancel) { with_session("run:save", {}, cancel); }

Json SteeredRun::steer(const Json& command, Cancel cancel) {
  ask(command, cancel);
  Json told = Json::object();
  if (!command.find("checkpoint")) return told;
  const Json at = progress_report(cancel);
  const Json* folder = at.find("folder");
  told.set("file", (folder ? folder->as_string() : "the run's folder") + "/checkpoints");
  return told;
}

// The parameters are in the workers; a coordinator never holds any.
void SteeredRun::with_session(const std::string& what, const std::function<void(Session&)>&, Cancel) {
  throw Error(ErrorKind::usage, {.what = what + " needs the parameters, which are in the workers: run:checkpoint() writes them, "
                                                "pg.start(...) without workers has them here"});
}

void SteeredRun::ask(Json command, Cancel cancel) {
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
      throw Error(ErrorKind::cluster, {.where = "run",
                                       .what = "its coordinator does not answer",
                                       .expected = "an answer within 5 s",
                                       .hint = "ask again; `perigee status` says whether it is there"});
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
    events_.keep(event);
  }
  changed_.notify_all();
  wake_();
}

std::vector<Json> SteeredRun::take_events() {
  const std::lock_guard lock(mutex_);
  return events_.take();
}

void SteeredRun::wait_for_events(std::chrono::milliseconds most, Cancel cancel) {
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
