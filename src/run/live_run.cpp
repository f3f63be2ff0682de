#include "src/run/live_run.h"

#include <algorithm>
#include <cassert>

#include "src/core/stopwatch.h"

namespace perigee {
namespace {

// How soon a watcher that waits notices that it was told to give up.
constexpr auto kGlance = std::chrono::milliseconds(20);

bool is_over(LiveRun::State state) {
  return state == LiveRun::State::finished || state == LiveRun::State::stopped || state == LiveRun::State::failed;
}

}  // namespace

const char* to_string(LiveRun::State state) {
  static constexpr std::array<const char*, 6> kNames = {"opening", "training", "paused", "finished", "stopped", "failed"};
  return kNames[static_cast<size_t>(state)];
}

LiveRun::LiveRun(const Job& job, SessionOptions options, std::function<void()> wake)
    : options_(std::move(options)), wake_(std::move(wake)), thread_([this, job] { thread_main(job); }) {}

LiveRun::~LiveRun() {
  stop_ = true;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LiveRun::thread_main(const Job& job) {
  State end = State::failed;
  std::string error;
  try {
    options_.hook = this;
    auto session = std::make_unique<Session>(job, options_);
    session->add_sink([this](const Json& event) { keep_event(event); });
    {
      const std::lock_guard lock(mutex_);
      session_ = std::move(session);
      progress_.planned = session_->trainer().planned_examples();
      progress_.folder = session_->folder();
      progress_.learning_rate = session_->trainer().next_learning_rate();
    }
    change_state(State::training);
    const Json last = session_->run(stop_);
    const Json* stopped = last.find("stopped");
    end = stopped && *stopped == Json("interrupted") ? State::stopped : State::finished;
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  std::unique_lock lock(mutex_);
  progress_.state = end;
  progress_.error = error;
  lock.unlock();
  keep_event(Json(Json::Object{{"event", "over"}, {"state", to_string(end)}}));
  lock.lock();
  for (;;) {
    serve(lock);
    if (closing_) return;
    changed_.wait(lock);
  }
}

void LiveRun::on_step(Trainer& trainer, const StepReport& report) {
  std::unique_lock lock(mutex_);
  progress_.step = report.step;
  progress_.examples = trainer.position().examples;
  progress_.epoch = static_cast<int64_t>(trainer.position().epoch);
  progress_.loss = report.loss;
  progress_.accuracy = report.accuracy;
  progress_.learning_rate = report.learning_rate;
  if (!pause_asked_ && !request_) return;
  const Stopwatch aside;
  if (pause_asked_) {
    progress_.state = State::paused;
    changed_.notify_all();
  }
  serve(lock);
  while (pause_asked_ && !closing_ && !stop_) {
    changed_.wait(lock);
    serve(lock);
  }
  progress_.state = State::training;
  session_->set_aside(aside.seconds());
}

// Does the work that the watcher waits for. The lock is not held meanwhile: progress stays readable.
void LiveRun::serve(std::unique_lock<std::mutex>& lock) {
  while (request_ && request_->state == Request::waiting) {
    Request& request = *request_;
    request.state = session_ ? Request::begun : Request::refused;
    if (session_) {
      lock.unlock();
      try {
        (*request.work)(*session_);
      } catch (const std::exception&) {
        request.error = std::current_exception();
      }
      lock.lock();
      request.state = Request::done;
    }
    changed_.notify_all();
  }
}

bool LiveRun::between_steps(const std::function<void(Session&)>& work, const std::atomic<bool>* cancel) {
  Request request{.work = &work};
  std::unique_lock lock(mutex_);
  assert(!request_);
  request_ = &request;
  changed_.notify_all();
  while (request.state == Request::waiting || request.state == Request::begun) {
    if (request.state == Request::waiting && cancel && *cancel) {
      request_ = nullptr;
      return false;
    }
    changed_.wait_for(lock, kGlance);
  }
  request_ = nullptr;
  if (request.error) std::rethrow_exception(request.error);
  if (request.state == Request::refused) throw Error(ErrorKind::model, {.where = "run", .what = "it failed: " + progress_.error});
  return true;
}

LiveRun::Progress LiveRun::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

bool LiveRun::over() const { return is_over(progress().state); }

void LiveRun::change_state(State state) {
  {
    const std::lock_guard lock(mutex_);
    progress_.state = state;
  }
  wake_();
}

void LiveRun::keep_event(const Json& event) {
  {
    const std::lock_guard lock(mutex_);
    if (const Json* rate = event.find("examples_per_s"); rate && rate->is_number()) progress_.examples_per_s = rate->as_number();
    if (const Json* seconds = event.find("seconds"); seconds && seconds->is_number()) progress_.seconds = seconds->as_number();
    events_.keep(event);
  }
  changed_.notify_all();
  wake_();
}

void LiveRun::wait_for_events(std::chrono::milliseconds most, Cancel cancel) {
  const auto end = std::chrono::steady_clock::now() + most;
  std::unique_lock lock(mutex_);
  while (events_.empty() && !is_over(progress_.state) && !(cancel && *cancel) && std::chrono::steady_clock::now() < end)
    changed_.wait_for(lock, kGlance);
}

std::vector<Json> LiveRun::take_events() {
  const std::lock_guard lock(mutex_);
  return events_.take();
}

Json LiveRun::progress_report(Cancel) {
  const Progress at = progress();
  Json told = Json(Json::Object{{"state", to_string(at.state)},
                                {"step", at.step},
                                {"epoch", at.epoch},
                                {"examples", at.examples},
                                {"learning_rate", at.learning_rate}});
  if (!at.folder.empty()) told.set("folder", at.folder);
  if (!at.error.empty()) told.set("error", at.error);
  if (at.planned > 0) {
    told.set("planned", at.planned);
    told.set("progress", std::min(1.0, static_cast<double>(at.examples) / static_cast<double>(at.planned)));
  }
  if (at.step > 0) {
    told.set("loss", at.loss);
    if (at.accuracy >= 0) told.set("accuracy", at.accuracy);
    told.set("examples_per_s", at.examples_per_s);
    told.set("seconds", at.seconds);
  }
  return told;
}

Json LiveRun::workers_report(const std::string& what, Cancel) {
  throw Error(ErrorKind::usage, {.what = what + ": this run is one process; pg.start(script, { workers = 4 }) has several"});
}

Json LiveRun::steer(const Json& command, Cancel cancel) {
  assert(command.is_object() && command.as_object().size() == 1);
  const auto& [name, value] = *command.as_object().begin();
  Json told = Json::object();
  if (name == "pause" && value.is_bool()) {
    if (value.as_bool()) pause();
    else resume();
  } else if (name == "stop") {
    stop();
  } else if (name == "lr") {
    with_session(
        "run.lr", [&](Session& session) { session.set_learning_rate(value); }, cancel);
  } else if (name == "checkpoint") {
    with_session(
        "run:checkpoint", [&](Session& session) { told.set("file", session.checkpoint()); }, cancel);
  } else {
    throw Error(ErrorKind::usage,
                {.where = "run", .what = "one process cannot be told '" + name + "'", .expected = "pause, stop, lr or checkpoint"});
  }
  return told;
}

void LiveRun::with_session(const std::string&, const std::function<void(Session&)>& work, Cancel cancel) {
  if (!between_steps(work, cancel)) throw Error(ErrorKind::usage, {.what = "interrupted"});
}

void LiveRun::pause() {
  const std::lock_guard lock(mutex_);
  pause_asked_ = true;
}

void LiveRun::resume() {
  {
    const std::lock_guard lock(mutex_);
    pause_asked_ = false;
  }
  changed_.notify_all();
}

void LiveRun::stop() {
  stop_ = true;
  resume();
}

}  // namespace perigee
