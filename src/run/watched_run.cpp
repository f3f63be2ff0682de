#include "src/run/watched_run.h"

#include <algorithm>
#include <cassert>

#include "src/core/stopwatch.h"
#include "src/run/checkpoint.h"

namespace perigee {
namespace {

// How soon a watcher that waits notices that it was told to give up.
constexpr auto kGlance = std::chrono::milliseconds(20);

bool is_over(WatchedRun::State state) {
  return state == WatchedRun::State::finished || state == WatchedRun::State::stopped || state == WatchedRun::State::failed;
}

}  // namespace

const char* to_string(WatchedRun::State state) {
  static constexpr std::array<const char*, 6> kNames = {"opening", "training", "paused", "finished", "stopped", "failed"};
  return kNames[static_cast<size_t>(state)];
}

void WatchedRun::begin(Session& session) {
  session.add_sink([this](const Json& event) { keep_event(event); });
  {
    const std::lock_guard lock(mutex_);
    session_ = &session;
    progress_.planned = session.planned_examples();
    progress_.folder = session.folder();
    progress_.learning_rate = session.trainer().next_learning_rate();
    progress_.state = State::training;
  }
  if (stop_asked_) session.stop();
  wake_();
}

void WatchedRun::end(State state, const std::string& error) {
  {
    const std::lock_guard lock(mutex_);
    progress_.state = state;
    progress_.error = error;
  }
  keep_event(Json(Json::Object{{"event", "over"}, {"state", to_string(state)}}));
}

void WatchedRun::serve_until_closed() {
  std::unique_lock lock(mutex_);
  while (!closed_) {
    serve(lock);
    changed_.wait(lock, [this] { return closed_ || is_asked(); });
  }
}

bool WatchedRun::is_asked() const {
  return std::ranges::any_of(requests_, [](const Request* each) { return each->state == Request::waiting; });
}

void WatchedRun::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (Request* request : requests_)
      if (request->state == Request::waiting) request->state = Request::refused;
  }
  changed_.notify_all();
}

void WatchedRun::on_step(Trainer& trainer, const StepReport& report) {
  std::unique_lock lock(mutex_);
  progress_.step = report.step;
  progress_.examples = trainer.position().examples;
  progress_.epoch = static_cast<int64_t>(trainer.position().epoch);
  progress_.planned = session_->planned_examples();
  progress_.loss = report.loss;
  progress_.accuracy = report.accuracy;
  progress_.learning_rate = report.learning_rate;
  if (!pause_asked_ && requests_.empty()) return;
  const Stopwatch aside;
  if (pause_asked_) stand_still(lock);
  else serve(lock);
  lock.unlock();
  session_->set_aside(aside.seconds());
}

// A pause: what is asked for is done meanwhile.
void WatchedRun::stand_still(std::unique_lock<std::mutex>& lock) {
  progress_.state = State::paused;
  changed_.notify_all();
  tell_pause(lock, "paused");
  serve(lock);
  while (pause_asked_ && !closed_ && !session_->stop_asked()) {
    changed_.wait_for(lock, kGlance);
    serve(lock);
  }
  progress_.state = State::training;
  tell_pause(lock, "resumed");
}

void WatchedRun::tell_pause(std::unique_lock<std::mutex>& lock, const char* event) {
  const int64_t step = progress_.step;
  lock.unlock();
  session_->tell(Json(Json::Object{{"event", event}, {"step", step}}));
  lock.lock();
}

// Does the work that watchers wait for by now; what they ask meanwhile is for the next time, else two of them could keep the run from its
// steps. The lock is not held meanwhile: progress stays readable.
void WatchedRun::serve(std::unique_lock<std::mutex>& lock) {
  const uint64_t last = asked_;
  for (;;) {
    const auto found =
        std::ranges::find_if(requests_, [&](const Request* each) { return each->state == Request::waiting && each->number <= last; });
    if (found == requests_.end()) return;
    Request& request = **found;
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

bool WatchedRun::between_steps(const std::function<void(Session&)>& work, const std::atomic<bool>* cancel) {
  Request request{.work = &work};
  std::unique_lock lock(mutex_);
  request.number = ++asked_;
  requests_.push_back(&request);
  if (closed_) request.state = Request::refused;
  changed_.notify_all();
  bool cancelled = false;
  while (!cancelled && (request.state == Request::waiting || request.state == Request::begun)) {
    cancelled = request.state == Request::waiting && cancel && *cancel;
    if (!cancelled) changed_.wait_for(lock, kGlance);
  }
  std::erase(requests_, &request);
  if (cancelled) return false;
  if (request.error) std::rethrow_exception(request.error);
  if (request.state == Request::refused) {
    const std::string why = progress_.error.empty() ? std::string("it is over") : "it failed: " + progress_.error;
    throw Error(ErrorKind::model, {.where = "run", .what = why});
  }
  return true;
}

WatchedRun::Progress WatchedRun::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

bool WatchedRun::over() const { return is_over(progress().state); }

void WatchedRun::keep_event(const Json& event) {
  {
    const std::lock_guard lock(mutex_);
    if (const Json* rate = event.find("examples_per_s"); rate && rate->is_number()) progress_.examples_per_s = rate->as_number();
    if (const Json* seconds = event.find("seconds"); seconds && seconds->is_number()) progress_.seconds = seconds->as_number();
    events_.keep(event);
  }
  changed_.notify_all();
  wake_();
}

void WatchedRun::wait_for_events(std::chrono::milliseconds most, Cancel cancel) {
  const auto end = std::chrono::steady_clock::now() + most;
  std::unique_lock lock(mutex_);
  while (events_.empty() && !is_over(progress_.state) && !(cancel && *cancel) && std::chrono::steady_clock::now() < end)
    changed_.wait_for(lock, kGlance);
}

std::vector<Json> WatchedRun::take_events() {
  const std::lock_guard lock(mutex_);
  return events_.take();
}

Json WatchedRun::progress_report(Cancel) {
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

Json WatchedRun::workers_report(const std::string& what, Cancel) {
  throw Error(ErrorKind::usage, {.what = what + ": this run is one process; pg.start(script, { workers = 4 }) has several"});
}

Json WatchedRun::options_report(Cancel cancel) {
  Json list;
  with_session(
      "run", [&](Session& session) { list = session.settings().list(); }, cancel);
  return list;
}

Json WatchedRun::steer(const Json& command, Cancel cancel) {
  assert(command.is_object() && command.as_object().size() == 1);
  const auto& [name, value] = *command.as_object().begin();
  const Json *option = value.find("option"), *number = value.find("value");
  Json told = Json::object();
  if (name == "pause" && value.is_bool()) {
    if (value.as_bool()) pause();
    else resume();
  } else if (name == "stop") {
    stop();
  } else if (name == "set" && option && option->is_string()) {
    with_session(
        "run." + option->as_string(), [&](Session& session) { session.set_option(option->as_string(), number ? *number : Json()); },
        cancel);
  } else if (name == "checkpoint") {
    with_session(
        "run:checkpoint", [&](Session& session) { told.set("file", session.checkpoint()); }, cancel);
  } else {
    throw Error(ErrorKind::usage,
                {.where = "run", .what = "one process cannot be told '" + name + "'", .expected = "pause, stop, set or checkpoint"});
  }
  return told;
}

void WatchedRun::with_session(const std::string&, const std::function<void(Session&)>& work, Cancel cancel) {
  if (!between_steps(work, cancel)) throw Error(ErrorKind::usage, {.what = "interrupted"});
}

Json WatchedRun::evaluate(const std::string& part, Cancel cancel) {
  Json figures;
  with_session(
      "run:eval",
      [&](Session& session) {
        if (!session.trainer().has_part(part))
          throw Error(ErrorKind::usage, {.where = "run:eval", .what = "the job's data have no part '" + part + "'"});
        figures = scalar_figures(session.trainer().evaluate(part, cancel));
      },
      cancel);
  if (cancel && *cancel) throw Error(ErrorKind::usage, {.what = "interrupted"});
  return figures;
}

void WatchedRun::save(const std::string& path, Cancel cancel) {
  with_session(
      "run:save", [&](Session& session) { save_model(session.trainer(), path); }, cancel);
}

void WatchedRun::pause() {
  const std::lock_guard lock(mutex_);
  pause_asked_ = true;
}

void WatchedRun::resume() {
  {
    const std::lock_guard lock(mutex_);
    pause_asked_ = false;
  }
  changed_.notify_all();
}

void WatchedRun::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_asked_ = true;
    if (session_) session_->stop();
    pause_asked_ = false;
  }
  changed_.notify_all();
}

}  // namespace perigee
