#include "repl/display/display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "repl/display/display_cluster.h"
#include "repl/display/display_repeats.h"
#include "repl/signals.h"
#include "src/core/error.h"

namespace perigee {
namespace {

double display_number(const Json& event, const char* key, double fallback = NAN) {
  const Json* value = event.find(key);
  return value && value->is_number() ? value->as_number() : fallback;
}

std::string display_text_of(const Json& event, const char* key) {
  const Json* value = event.find(key);
  return value && value->is_string() ? value->as_string() : "";
}

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// "loss 0.0512  accuracy 98.43 %": the figures that people look at first, then the others up to `most`.
std::string figures(const Json& object, size_t most = 2) {
  std::string text;
  size_t count = 0;
  for (const char* name : {"loss", "accuracy", "rmse", "auc"}) {
    const double value = display_number(object, name);
    if (std::isnan(value) || count == most) continue;
    text += (text.empty() ? "" : "  ") + std::string(name) + " " +
            (std::strcmp(name, "accuracy") == 0 ? formatted("%.2f %%", 100 * value) : formatted("%.4g", value));
    ++count;
  }
  return text;
}

// "kind loss 0.03  accuracy 99.33 %; radius loss 0.35  rmse 0.59": of each of several outputs, whose figures are "kind.loss" and so on.
std::string outputs_text(const Json& object) {
  constexpr std::string_view kLoss = ".loss";
  std::string text;
  for (const auto& [key, value] : object.as_object()) {
    if (!std::string_view(key).ends_with(kLoss)) continue;
    const std::string name(key.begin(), key.end() - kLoss.size());
    Json own = Json::object();
    for (const char* figure : {"loss", "accuracy", "rmse"})
      if (const Json* found = object.find(name + "." + figure)) own.set(figure, *found);
    text += (text.empty() ? "" : "; ") + name + " " + figures(own, 3);
  }
  return text;
}

std::string start_line(const Json& event) {
  std::string text = display_text_of(event, "name") + ": " + display_text_of(event, "data") + "; " +
                     grouped(static_cast<int64_t>(display_number(event, "parameters", 0))) + " parameters; batch " +
                     formatted("%.0f", display_number(event, "batch", 0)) + ", ";
  if (const std::string device = display_text_of(event, "device"); !device.empty()) text += device;
  else text += formatted("%.0f", display_number(event, "threads", 1)) + (display_number(event, "threads", 1) == 1 ? " thread" : " threads");
  if (const Json* averaging = event.find("averaging")) text += "; averaging " + display_text_of(*averaging, "type");
  if (const std::string from = display_text_of(event, "resumed_from"); !from.empty())
    text += "\ncontinues at step " + formatted("%.0f", display_number(event, "step", 0)) + " from " + from;
  if (const std::string folder = display_text_of(event, "folder"); !folder.empty()) text += "\nrun folder " + folder;
  return text;
}

// Tells of reduce_on_plateau; empty for a rate that was set by hand, which its setter knows of.
std::string set_line(const Json& event) {
  const double factor = display_number(event, "rate_factor");
  return std::isnan(factor) ? "" : "the learning rate falls to " + formatted("%.4g", factor) + " of what the job says: no improvement";
}

std::string epoch_line(const Json& event) {
  std::string text = "epoch " + formatted("%.0f", display_number(event, "epoch", 0)) + ": train " + figures(event);
  for (const char* part : {"validation", "test"})
    if (const Json* result = event.find(part)) text += "; " + std::string(part) + " " + figures(*result);
  return text + "  (" + duration_text(display_number(event, "seconds", 0)) + ")";
}

// Where the time went: {"load_s": 0.1, "compute_s": 12.5, ...} as a table with a column for each phase.
std::string time_table(const Json& time, const std::string& of) {
  if (!time.is_object()) return "";
  double sum = 0;
  for (const auto& [key, value] : time.as_object()) sum += value.is_number() ? value.as_number() : 0;
  std::string names = of, seconds(of.size(), ' '), shares(of.size(), ' ');
  for (const auto& [key, value] : time.as_object()) {
    const std::string name = key.substr(0, key.rfind("_s"));
    const double spent = value.is_number() ? value.as_number() : 0;
    const int width = static_cast<int>(std::max<size_t>(name.size(), 7)) + 2;
    char text[96];
    std::snprintf(text, sizeof text, "%*.64s", width, name.c_str());
    names += text;
    std::snprintf(text, sizeof text, spent < 99.95 ? "%*.2f s" : "%*.0f s", width - 2, spent);
    seconds += text;
    std::snprintf(text, sizeof text, "%*.0f %%", width - 2, 100 * spent / std::fmax(sum, 1e-9));
    shares += text;
  }
  return names + "\n" + seconds + "\n" + shares;
}

std::string end_lines(const Json& event) {
  const std::string stopped = display_text_of(event, "stopped");
  std::string text;
  if (stopped == "interrupted") {
    text = "stopped after step " + formatted("%.0f", display_number(event, "steps", 0));
    if (const std::string checkpoint = display_text_of(event, "checkpoint"); !checkpoint.empty()) text += "; checkpoint " + checkpoint;
    if (const std::string command = display_text_of(event, "resume"); !command.empty()) text += "\ncontinue with: " + command;
    return text;
  }
  if (!stopped.empty()) text = "stopped early: " + stopped + "\n";
  const double workers = display_number(event, "workers", 0);
  text += "trained " + formatted("%.0f", display_number(event, "steps", 0)) + " steps in " +
          duration_text(display_number(event, "seconds", 0)) + ", " +
          grouped(static_cast<int64_t>(display_number(event, "examples_per_s", 0))) + " examples/s";
  if (workers > 0) text += formatted(" with %.0f", workers) + (workers == 1 ? " worker" : " workers");
  if (const Json* time = event.find("time")) text += "\n" + time_table(*time, workers > 0 ? "workers' time" : "time");
  if (const std::string trace = display_text_of(event, "trace"); !trace.empty())
    text += "\ntrace " + trace + " (open it with ui.perfetto.dev)";
  if (const double skipped = display_number(event, "skipped_steps", 0); skipped > 0)
    text += "\n" + grouped(static_cast<int64_t>(skipped)) + (skipped == 1 ? " step" : " steps") +
            " changed nothing but the loss scale, for gradients that overflowed";
  if (const Json* test = event.find("test")) text += "\ntest " + figures(*test, 4) + "  on " + display_text_of(event, "test_data");
  if (const Json* test = event.find("test"); test && test->is_object())
    if (const std::string outputs = outputs_text(*test); !outputs.empty()) text += "\nof it " + outputs;
  if (const std::string model = display_text_of(event, "model"); !model.empty()) {
    text += "\nmodel " + model;
    if (const std::string of = display_text_of(event, "model_of"); !of.empty()) text += " (of " + of + ", the best)";
  }
  return text;
}

// Which epochs of a long run have a line where lines stay, as in a file or a pipe: the first ones, one in so many of the others, each after some seconds of
// silence, and at the end the best and the last one. log.jsonl has all.
class EpochLines {
 public:
  void start(const Json& event) {
    *this = EpochLines();
    folder_ = display_text_of(event, "folder");
    planned_ = display_number(event, "epochs_planned", 0);
  }

  // The lines that this epoch makes; empty: none.
  std::string add(const Json& event) {
    const auto epoch = static_cast<int64_t>(display_number(event, "epoch", 0));
    const auto now = std::chrono::steady_clock::now();
    const int64_t every = std::max<int64_t>(planned_ > 0 ? static_cast<int64_t>(planned_ / kShown) : kFirst, 1);
    if (++seen_ > kFirst && epoch % every != 0 && now - last_ < kSilence) {
      held_ = event;
      note_best(event, false);
      if (std::exchange(told_, true)) return "";
      return "(from here on not every epoch has a line" + (folder_.empty() ? ")" : "; " + folder_ + "/log.jsonl has all)");
    }
    last_ = now;
    held_ = {};
    note_best(event, true);
    return epoch_line(event);
  }

  // Those that are due at the end, each with its line's end.
  std::string end() {
    std::string text;
    const auto epoch_of = [](const Json& event) { return display_number(event, "epoch", 0); };
    if (best_.is_object() && !(held_.is_object() && epoch_of(held_) == epoch_of(best_)))
      text += "least " + best_name_ + ": " + epoch_line(best_) + "\n";
    if (held_.is_object()) text += epoch_line(held_) + "\n";
    best_ = held_ = {};
    return text;
  }

 private:
  static constexpr int64_t kFirst = 10;  // epochs that have a line each
  static constexpr double kShown = 20;   // of a run's planned ones
  static constexpr auto kSilence = std::chrono::seconds(2);

  // Keeps the epoch of the least loss on unseen data, where it has no line yet.
  void note_best(const Json& event, bool shown) {
    for (const char* part : {"validation", "test"}) {
      const Json* figures = event.find(part);
      const double loss = figures ? display_number(*figures, "loss") : std::nan("");
      if (std::isnan(loss)) continue;
      if (loss >= least_) return;
      least_ = loss;
      best_name_ = std::string(part) + " loss";
      best_ = shown ? Json() : event;
      return;
    }
  }

  std::string folder_, best_name_;
  double planned_ = 0, least_ = HUGE_VAL;
  int64_t seen_ = 0;
  bool told_ = false;
  Json held_, best_;  // epochs without a line: the latest one, the best one
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

class PlainDisplay : public Display {
 public:
  void event(const Json& event) override {
    const std::string kind = display_text_of(event, "event");
    if (kind == "start") line(start_line(event)), epochs_.start(event);
    if (kind == "epoch") {
      if (const std::string text = epochs_.add(event); !text.empty()) line(text);
    } else if (kind == "set" && !set_line(event).empty()) {
      line(set_line(event));
    }
    if (kind == "end" || kind == "error") std::fputs(epochs_.end().c_str(), stdout);
    if (kind == "end") line(end_lines(event));
    if (const std::string text = cluster_event_line(event); !text.empty()) line(text);
    if (const std::string text = repeats_text(event); !text.empty()) line(text);
    if (kind == "workers") workers(event);
    if (kind != "step") return;
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::seconds(5)) return;
    last_ = now;
    line("epoch " + formatted("%.0f", display_number(event, "epoch", 0)) + " step " + formatted("%.0f", display_number(event, "step", 0)) +
         ": " + figures(event) + "  " + grouped(static_cast<int64_t>(display_number(event, "examples_per_s", 0))) + " examples/s, about " +
         duration_text(display_number(event, "eta_s", -1)) + " left");
  }
  void warning(const std::string& text) override { std::fprintf(stderr, "warning: %s\n", text.c_str()); }

 private:
  static void line(const std::string& text) {
    std::fprintf(stdout, "%s\n", text.c_str());
    std::fflush(stdout);
  }
  void workers(const Json& event) {
    const auto now = std::chrono::steady_clock::now();
    const Json* list = event.find("workers");
    if (!list || !list->is_array() || now - last_workers_ < std::chrono::seconds(15)) return;
    last_workers_ = now;
    const std::string averaging = averaging_line(event);
    line(workers_line(list->as_array()) + (averaging.empty() ? "" : "; " + averaging));
  }
  EpochLines epochs_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now(), last_workers_ = last_;
};

class JsonDisplay : public Display {
 public:
  void event(const Json& event) override {
    std::fprintf(stdout, "%s\n", event.dump().c_str());
    std::fflush(stdout);
  }
  void warning(const std::string& text) override {
    event(Json(Json::Object{{"event", "warning"}, {"text", text}}));
    std::fprintf(stderr, "warning: %s\n", text.c_str());
  }
};

// Finished epochs scroll; the last lines (the workers, then the run) are redrawn in place, at most ten times a second.
class LiveDisplay : public Display {
 public:
  // A signal handler's message between two frames would move the cursor: the display writes it instead.
  LiveDisplay(bool color, bool watches) : color_(color), stop_told_(watches) { acknowledge_with(""); }
  ~LiveDisplay() override { clear(); }

  void event(const Json& event) override {
    const std::string kind = display_text_of(event, "event");
    if (stop_requested() && !stop_told_) {
      stop_told_ = true;
      clear();
      std::fputs("\r\033[J", stdout);  // the terminal has written ^C
      line("stopping at the next step; once more to quit at once");
    }
    if (kind == "start") {
      epochs_ = display_number(event, "epochs_planned", 0);
      line(start_line(event));
    }
    if (kind == "epoch") line(epoch_line(event));
    else if (kind == "set" && !set_line(event).empty()) line(set_line(event));
    if (kind == "end") line(end_lines(event));
    if (const std::string text = cluster_event_line(event); !text.empty()) line(text);
    if (const std::string text = repeats_text(event); !text.empty()) line(text);
    if (kind == "workers") {
      if (const Json* list = event.find("workers"); list && list->is_array()) {
        workers_ = workers_table(list->as_array(), kWorkersShown);
        if (const std::string averaging = averaging_line(event); !averaging.empty()) workers_ += averaging + "\n";
      }
      if (!status_.empty()) redraw();
    }
    if (kind == "step") draw(event);
  }
  void warning(const std::string& text) override { line((color_ ? "\033[33mwarning:\033[0m " : "warning: ") + text); }

 private:
  void draw(const Json& event) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    const double progress = display_number(event, "progress", 0);
    std::string text = "epoch " + formatted("%.0f", display_number(event, "epoch", 0));
    if (epochs_ > 0) text += "/" + formatted("%.0f", std::ceil(epochs_));
    text += " " + bar(progress) + formatted(" %3.0f %%  ", 100 * progress) + "step " + formatted("%.0f", display_number(event, "step", 0)) +
            "  " + grouped(static_cast<int64_t>(display_number(event, "examples_per_s", 0))) + "/s  " + figures(event);
    if (const double left = display_number(event, "eta_s", -1); left >= 0) text += "  " + duration_text(left) + " left";
    status_ = text;
    redraw();
  }

  void redraw() {
    winsize size = {};
    const size_t width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col - 1u : 100;
    std::string all = workers_;
    if (size.ws_row > 1)  // what is above the screen cannot be wiped any more
      for (auto lines = std::count(all.begin(), all.end(), '\n'); lines + 2 > size.ws_row && lines > 0; --lines)
        all.erase(lines > 1 ? all.rfind('\n', all.size() - 2) + 1 : 0);
    all += status_;
    std::string frame = up() + "\r";
    rows_ = 0;
    for (size_t begin = 0; begin <= all.size();) {
      const size_t end = std::min(all.find('\n', begin), all.size());
      frame += all.substr(begin, std::min(end - begin, width)) + "\033[K";
      if (end < all.size()) frame += "\n", ++rows_;
      begin = end + 1;
    }
    std::fputs((frame + "\033[J").c_str(), stdout);
    std::fflush(stdout);
    drawn_ = true;
  }

  std::string up() const { return rows_ > 0 ? "\033[" + std::to_string(rows_) + "A" : ""; }

  static std::string bar(double progress) {
    constexpr int kWidth = 20;
    const int full = static_cast<int>(std::lround(std::fmin(1, std::fmax(0, progress)) * kWidth));
    return "[" + std::string(static_cast<size_t>(full), '=') + std::string(static_cast<size_t>(kWidth - full), ' ') + "]";
  }

  void clear() {
    if (drawn_) std::fputs((up() + "\r\033[J").c_str(), stdout);
    drawn_ = false;
    rows_ = 0;
  }

  void line(const std::string& text) {
    clear();
    std::fprintf(stdout, "%s\n", text.c_str());
    std::fflush(stdout);
  }

  static constexpr size_t kWorkersShown = 16;
  bool color_, drawn_ = false, stop_told_ = false;
  int rows_ = 0;                  // above the cursor's, of what is drawn
  std::string workers_, status_;  // as drawn
  double epochs_ = 0;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace

std::string duration_text(double seconds) {
  if (!(seconds >= 0)) return "?";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  char text[40];
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", static_cast<long long>(whole / 3600), static_cast<long long>(whole / 60 % 60),
                  static_cast<long long>(whole % 60));
  else if (seconds < 9.95) std::snprintf(text, sizeof text, "%.1f s", seconds);
  else std::snprintf(text, sizeof text, "%lld:%02lld", static_cast<long long>(whole / 60), static_cast<long long>(whole % 60));
  return text;
}

std::string grouped(int64_t value) {
  std::string text = std::to_string(value);
  for (size_t i = text.size(); i > 3 + (value < 0); i -= 3) text.insert(i - 3, ",");
  return text;
}

DisplayKind display_kind(const std::string& log) {
  if (log == "pretty") return DisplayKind::automatic;
  if (log == "plain") return DisplayKind::plain;
  if (log == "json") return DisplayKind::json;
  throw Error(ErrorKind::usage,
              {"--log", "there is no such log", "'" + log + "'", "pretty, plain or json", nearest_hint(log, {"pretty", "plain", "json"})});
}

std::unique_ptr<Display> make_display(DisplayKind kind, bool watches) {
  const char* term = std::getenv("TERM");
  const bool terminal = isatty(STDOUT_FILENO) && (!term || std::strcmp(term, "dumb") != 0);
  if (kind == DisplayKind::automatic) kind = terminal ? DisplayKind::pretty : DisplayKind::plain;
  if (kind == DisplayKind::json) return std::make_unique<JsonDisplay>();
  if (kind == DisplayKind::pretty && terminal) return std::make_unique<LiveDisplay>(std::getenv("NO_COLOR") == nullptr, watches);
  return std::make_unique<PlainDisplay>();
}

}  // namespace perigee
