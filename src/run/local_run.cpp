#include "src/run/local_run.h"

#include <filesystem>
#include <thread>
#include <utility>

#include "src/io/file.h"
#include "src/run/run_folder.h"

namespace perigee {
namespace {

constexpr auto kLogGlance = std::chrono::milliseconds(50);
constexpr auto kProgress = std::chrono::seconds(2);  // to answer for it: the training thread has no part in it
constexpr size_t kMostEvents = 20000;                // that wait to be taken

}  // namespace

LocalRun::LocalRun(std::string folder) : folder_(std::move(folder)), log_(folder_), connection_(connect_in(folder_)) {
  if (!file_exists(folder_ + "/log.jsonl"))
    throw Error(ErrorKind::usage,
                {folder_, "there is no run in this folder", "", "a folder with log.jsonl, or HOST:PORT of a coordinator"});
  follow();
}

// Whether a process is there is asked first: its last words are then among those that are read.
void LocalRun::follow() {
  const bool over_before = state_ != "training";
  const bool alive = run_is_alive(folder_);
  log_.more([this](Json event) {
    const Json* kind = event.find("event");
    if (kind && *kind == Json("start")) state_ = "training", error_.clear();
    if (kind && *kind == Json("step")) last_step_ = event;
    if (const std::string end = end_of_run(event); !end.empty()) state_ = end;
    if (const Json* text = event.find("text"); text && text->is_string() && state_ == "failed") error_ = text->as_string();
    keep(std::move(event));
  });
  if (state_ == "training" && !alive) {
    state_ = "lost";
    error_ = "the process that trained it is gone; " + way_on(folder_);
  }
  if (state_ == "training" || told_over_ || over_before) return;
  told_over_ = true;
  events_.push_back(Json(Json::Object{{"event", "over"}, {"state", state_}}));
}

// A log may be longer than what is worth to be kept: steps are then left out evenly, so that a curve has all its length.
void LocalRun::keep(Json event) {
  const auto is_step = [](const Json& each) { return *each.find("event") == Json("step"); };
  if (!event.find("event")) return;
  if (is_step(event) && ++steps_ % every_ != 0) return;
  events_.push_back(std::move(event));
  if (events_.size() < kMostEvents) return;
  every_ *= 2;
  std::vector<Json> kept;
  size_t steps = 0;
  for (Json& each : events_)
    if (!is_step(each) || ++steps % 2 == 0) kept.push_back(std::move(each));
  if (kept.size() > kMostEvents / 4 * 3) kept.erase(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(kMostEvents / 2));
  events_.swap(kept);
}

// The line that answers `line`.
std::string LocalRun::exchange(const std::string& line, Cancel cancel, std::chrono::milliseconds most) {
  // A connection that was open before may have had to make room (RunServer): then there is another one.
  for (bool again = connection_.is_open();; again = false) {
    if (!connection_.is_open()) connection_ = LineConnection(connect_in(folder_));
    const bool sent = connection_.send(line, cancel);
    if (sent)
      if (const std::optional<std::string> answer = connection_.receive(cancel, most)) return *answer;
    if (again && !connection_.is_open() && !(cancel && *cancel)) continue;
    connection_.close();  // its answer, if it comes, belongs to no question any more
    if (cancel && *cancel) throw Error(ErrorKind::usage, {.what = "interrupted"});
    if (sent)
      throw Error(ErrorKind::usage, {.where = folder_,
                                     .what = "the run ended before it answered",
                                     .hint = "its log says how far it came: `perigee watch " + folder_ + "`"});
    follow();
    throw Error(ErrorKind::usage,
                {.where = folder_,
                 .what = state_ == "training" ? "the process that trains this run does not answer" : "the run is over: " + state_,
                 .hint = "`perigee train --resume " + folder_ + "` goes on with it"});
  }
}

Json LocalRun::ask(const Json& request, Cancel cancel, std::chrono::milliseconds most) {
  const Json told = Json::parse(exchange(request.dump(), cancel, most), folder_);
  if (const Json* error = told.find("error")) throw error_of(*error, "run");
  const Json* found = told.find("answer");
  return found ? *found : Json();
}

Json LocalRun::logged_progress() const {
  Json told = Json(Json::Object{{"state", state_}, {"step", 0}, {"epoch", 0}, {"examples", 0}, {"folder", folder_}});
  if (!error_.empty()) told.set("error", error_);
  if (!last_step_.is_object()) return told;
  for (const char* name : {"step", "loss", "accuracy", "learning_rate", "examples_per_s", "seconds", "progress"})
    if (const Json* value = last_step_.find(name)) told.set(name, *value);
  if (const Json* epochs = last_step_.find("epochs_done"); epochs && epochs->is_number())
    told.set("epoch", static_cast<int64_t>(epochs->as_number()));
  return told;
}

Json LocalRun::progress_report(Cancel cancel) {
  if (state_ == "training") {
    try {
      Json told = ask(Json(Json::Object{{"ask", "progress"}}), cancel, kProgress);
      told.set("folder", folder_);
      return told;
    } catch (const Error&) {
      if (cancel && *cancel) throw;
    }
  }
  follow();
  return logged_progress();
}

Json LocalRun::workers_report(const std::string& what, Cancel) {
  throw Error(ErrorKind::usage, {.what = what + ": this run is one process; `perigee train SCRIPT --workers 4` has several"});
}

Json LocalRun::options_report(Cancel cancel) { return ask(Json(Json::Object{{"ask", "options"}}), cancel); }
Json LocalRun::steer(const Json& command, Cancel cancel) { return ask(Json(Json::Object{{"steer", command}}), cancel); }
Json LocalRun::evaluate(const std::string& part, Cancel cancel) { return ask(Json(Json::Object{{"evaluate", part}}), cancel); }

void LocalRun::save(const std::string& path, Cancel cancel) {
  ask(Json(Json::Object{{"save", std::filesystem::absolute(path).string()}}), cancel);
}

std::vector<Json> LocalRun::take_events() {
  follow();
  every_ = 1;
  return std::exchange(events_, {});
}

void LocalRun::wait_for_events(std::chrono::milliseconds most, Cancel cancel) {
  const auto end = std::chrono::steady_clock::now() + most;
  for (;;) {
    follow();
    if (!events_.empty() || state_ != "training" || (cancel && *cancel) || std::chrono::steady_clock::now() >= end) return;
    std::this_thread::sleep_for(kLogGlance);
  }
}

void LocalRun::with_session(const std::string& what, const std::function<void(Session&)>&, Cancel) {
  throw Error(ErrorKind::usage,
              {.where = what,
               .what = "the parameters are in another process",
               .hint = "run:save \"now.safetensors\" writes them, and pg.load_model \"now.safetensors\" reads them here"});
}

}  // namespace perigee
