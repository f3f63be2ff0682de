// `perigee watch RUN`: what `perigee train` shows, of a run that trains in another terminal, or that is over.
#include <CLI/App.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <iterator>
#include <string>
#include <thread>

#include "repl/commands/command.h"
#include "repl/display/display.h"
#include "repl/signals.h"
#include "src/core/error.h"
#include "src/io/file.h"
#include "src/run/run_file.h"
#include "src/run/run_folder.h"

namespace perigee {
namespace {

constexpr auto kGlance = std::chrono::milliseconds(100);
constexpr size_t kMostPast = 20000;  // events from before the watch that are shown
constexpr int kFailed = static_cast<int>(ErrorKind::model), kLost = static_cast<int>(ErrorKind::resources);

struct WatchOptions {
  std::string run, log = "pretty";
} watch_options;

void declare_watch(CLI::App& app) {
  app.add_option("run", watch_options.run, "a run folder of this machine; the default is the newest in runs/");
  app.add_option("--log", watch_options.log, "pretty, plain or json (JSON Lines on standard output)");
  app.footer(
      "It shows the run from its last start and follows it to its end, whichever terminal it trains in. Ctrl-C leaves the run alone.\n"
      "Exit codes of its own: 0 the run finished or was stopped, 4 it failed, 7 its process is gone without an end, 130 Ctrl-C here.");
}

std::string folder_to_watch() {
  const std::string folder = watch_options.run.empty() ? newest_run_folder() : watch_options.run;
  if (folder.empty())
    throw Error(ErrorKind::usage, {"watch", "there is no run in runs/", "", "a run folder", "name it: perigee watch RUN"});
  if (!file_exists(folder + "/log.jsonl"))
    throw Error(ErrorKind::usage, {folder, "there is no run in this folder", "", "a folder with log.jsonl",
                                   folder_exists(folder) ? "" : nearby_hint(folder)});
  return folder;
}

class Watch {
 public:
  Watch(std::string folder, Display& display) : folder_(std::move(folder)), log_(folder_), display_(display) {}

  // The exit code.
  int run() {
    for (;;) {
      // Asked before the log is read: the last words of a process that goes meanwhile are then read the next time.
      const bool alive = run_is_alive(folder_);
      show();
      if (!end_.empty()) return end_ == "failed" ? kFailed : 0;
      if (!alive) return lost();
      if (stop_requested()) return stop_exit_code();
      std::this_thread::sleep_for(kGlance);
    }
  }

 private:
  static bool is(const Json& event, const char* kind) {
    const Json* found = event.find("event");
    return found && *found == Json(kind);
  }

  // Among the events that were there already only those from the last start on count, and of its steps the last one.
  void show() {
    std::deque<Json> past;
    const auto is_step = [](const Json& event) { return is(event, "step"); };
    const bool any = log_.more([&](Json event) {
      if (begun_) return show_event(event);
      if (is(event, "start")) past.clear();
      if (is_step(event))
        if (const auto last = std::find_if(past.rbegin(), past.rend(), is_step); last != past.rend()) past.erase(std::next(last).base());
      if (past.size() == kMostPast) past.erase(past.begin() + 1);  // the start stays
      past.push_back(std::move(event));
    });
    for (const Json& event : past) show_event(event);
    begun_ |= any;
  }

  void show_event(const Json& event) {
    if (is(event, "start")) end_.clear();
    if (is(event, "error")) tell_failure(event);
    display_.event(with_way_on(event));
    if (const std::string end = end_of_run(event); !end.empty()) end_ = end;
  }

  Json with_way_on(const Json& event) const {
    Json shown = event;
    if (end_of_run(event) == "stopped" && can_resume(folder_)) shown.set("resume", "perigee train --resume " + folder_);
    return shown;
  }

  void tell_failure(const Json& event) {
    const Json* text = event.find("text");
    display_.warning("the run failed: " + (text && text->is_string() ? text->as_string() : std::string("no reason was written")));
  }

  int lost() {
    display_.warning("the process that trained this run is gone without an end; " + way_on(folder_));
    return kLost;
  }

  const std::string folder_;
  LogFollower log_;
  Display& display_;
  std::string end_;
  bool begun_ = false;
};

int run_watch() {
  const std::string folder = folder_to_watch();
  watch_signals("");
  const std::unique_ptr<Display> display = make_display(display_kind(watch_options.log), true);
  return Watch(folder, *display).run();
}

}  // namespace

extern const Command command_watch;
const Command command_watch{.name = "watch",
                            .doc = "follow a run that trains in another terminal, or see one that is over",
                            .declare = declare_watch,
                            .run = run_watch};

}  // namespace perigee
