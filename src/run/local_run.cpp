#include "src/run/local_run.h"

#include <filesystem>
#include <thread>

#include "src/io/file.h"

namespace perigee {
namespace {

constexpr auto kLogGlance = std::chrono::milliseconds(50);

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
  for (Json& event : log_.more()) {
    const Json* kind = event.find("event");
    if (kind && *kind == Json("start")) state_ = "training", error_.clear();
    if (kind && *kind == Json("step")) last_step_ = event;
    if (const std::string end = end_of_run(event); !end.empty()) state_ = end;
    if (const Json* text = event.find("text"); text && text->is_string() && state_ == "failed") error_ = text->as_string();
    events_.push_back(std::move(event));
  }
  if (state_ == "training" && !alive) {
    state_ = "lost";
    error_ = "the process that trained it is gone; `perigee train --resume " + folder_ + "` goes on from its last checkpoint";
  }
  if (state_ == "training" || told_over_ || over_before) return;
  told_over_ = true;
  events_.push_back(Json(Json::Object{{"event", "over"}, {"state", state_}}));
}

Json LocalRun::ask(Json request, Cancel cancel) {
  if (!connection_.is_open()) connection_ = LineConnection(connect_in(folder_));
  const std::string line = request.dump();
  if (!connection_.send(line)) {
    follow();
    throw Error(ErrorKind::usage,
                {.where = folder_,
                 .what = state_ == "training" ? "the process that trains this run does not answer" : "the run is over: " + state_,
                 .hint = "`perigee train --resume " + folder_ + "` goes on with it"});
  }
  const std::optional<std::string> answer = connection_.receive(cancel);
  if (!answer) {
    const bool gave_up = cancel && *cancel;
    connection_.close();  // its answer, if it comes, belongs to no question any more
    if (gave_up) throw Error(ErrorKind::usage, {.what = "interrupted"});
    throw Error(ErrorKind::usage, {.where = folder_, .what = "the run ended before it answered"});
  }
  const Json told = Json::parse(*answer, folder_);
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
      Json told = ask(Json(Json::Object{{"ask", "progress"}}), cancel);
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
  std::vector<Json> taken(std::make_move_iterator(events_.begin()), std::make_move_iterator(events_.end()));
  events_.clear();
  return taken;
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
