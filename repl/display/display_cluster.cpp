#include "repl/display/display_cluster.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "repl/display/display.h"

namespace perigee {
namespace {

double display_cluster_number(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value && value->is_number() ? value->as_number() : 0;
}

std::string display_cluster_text_of(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value && value->is_string() ? value->as_string() : "";
}

std::string bytes_text(double bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit < 4) bytes /= 1000, ++unit;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 || bytes >= 99.5 ? "%.0f %s" : "%.1f %s", bytes, kUnits[unit]);
  return text;
}

// Names of events whose words say little to people.
constexpr std::pair<const char*, const char*> kWordsOfEvents[] = {{"hash_mismatch", "other parameters than the rest"},
                                                                  {"rounds_voided", "rounds are taken back"},
                                                                  {"coordinator_recovered", "the coordinator is back"},
                                                                  {"began_afresh", "begins again"},
                                                                  {"too_stale", "came too late"},
                                                                  {"inexact", "uneven shares"},
                                                                  {"replicas_apart", "the workers drift apart"},
                                                                  {"pushes_forgotten", "changes are no longer kept"},
                                                                  {"redo_failed", "what was lost cannot be made again"},
                                                                  {"every", "steps between averages"},
                                                                  {"pace", "steps between averages"}};

std::string spaced(const std::string& name) {
  for (const auto& [event, words] : kWordsOfEvents)
    if (name == event) return words;
  std::string text = name;
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

}  // namespace

std::string workers_table(const Json::Array& workers, size_t most) {
  if (workers.empty()) return "no workers yet\n";
  size_t width = 6;
  for (const Json& worker : workers) width = std::max(width, std::min<size_t>(32, display_cluster_text_of(worker, "name").size()));
  const int w = static_cast<int>(width);
  char line[512];
  std::snprintf(line, sizeof line, "%-*s  %12s %6s %10s %9s %9s %6s  %s\n", w, "worker", "examples/s", "share", "round trip", "sent",
                "received", "stale", "state");
  std::string text = line;
  for (size_t i = 0; i < workers.size() && i < most; ++i) {
    const Json& worker = workers[i];
    const std::string waits = display_cluster_text_of(worker, "waits_for");
    std::snprintf(
        line, sizeof line, "%-*.32s  %12s %4.0f %% %7.1f ms %9s %9s %6.0f  %s%s\n", w, display_cluster_text_of(worker, "name").c_str(),
        grouped(std::llround(display_cluster_number(worker, "examples_per_s"))).c_str(), 100 * display_cluster_number(worker, "share"),
        display_cluster_number(worker, "round_trip_ms"), bytes_text(display_cluster_number(worker, "bytes_up")).c_str(),
        bytes_text(display_cluster_number(worker, "bytes_down")).c_str(), display_cluster_number(worker, "staleness"),
        display_cluster_text_of(worker, "state").c_str(), waits.empty() ? "" : (", waits for " + waits.substr(0, 100)).c_str());
    text += line;
  }
  if (workers.size() > most) text += "... and " + std::to_string(workers.size() - most) + " more\n";
  return text;
}

std::string averaging_line(const Json& event) {
  const Json* averaging = event.find("averaging");
  if (!averaging || !averaging->is_object()) return "";
  std::string text;
  const auto add = [&](const char* key, const char* format, double scale) {
    const Json* value = averaging->find(key);
    if (!value || !value->is_number() || (std::string(key) == "outliers" && value->as_number() == 0)) return;
    char part[64];
    std::snprintf(part, sizeof part, format, scale * value->as_number());
    text += (text.empty() ? "" : ", ") + std::string(part);
  };
  add("every", "averages every %.0f steps", 1);
  add("utilisation", "%.0f %% of the time training", 100);
  add("divergence", "replicas %.2f apart", 1);
  add("outliers", "%.0f contributions left out", 1);
  return text;
}

std::string workers_line(const Json::Array& workers) {
  constexpr size_t kMost = 8;
  std::string text = std::to_string(workers.size()) + (workers.size() == 1 ? " worker: " : " workers: ");
  for (size_t i = 0; i < workers.size() && i < kMost; ++i)
    text += (i > 0 ? ", " : "") + display_cluster_text_of(workers[i], "name") + " " +
            grouped(std::llround(display_cluster_number(workers[i], "examples_per_s"))) + "/s";
  return workers.size() > kMost ? text + ", ..." : text;
}

namespace {

// A run of one process tells so of `perigee attach`.
std::string steered_line(const Json& event) {
  const std::string kind = display_cluster_text_of(event, "event");
  const Json *step = event.find("step"), *value = event.find("value");
  if (!step) return "";
  const std::string at = step->dump();
  if (kind == "paused") return "paused after step " + at;
  if (kind == "resumed") return "goes on after step " + at;
  return kind == "set" && value ? display_cluster_text_of(event, "option") + " = " + value->dump() + " after step " + at : "";
}

// A run of several phases enters one.
std::string phase_line(const Json& event) {
  const Json *phase = event.find("phase"), *of = event.find("of");
  const std::string name = display_cluster_text_of(event, "name"), before = display_cluster_text_of(event, "before");
  if (!phase || !of) return "";
  const std::string number = "phase " + phase->dump();
  return number + " of " + of->dump() + (name.empty() || name == number ? "" : ": " + name) +
         (before.empty() ? "" : "; the one before ended: " + before);
}

}  // namespace

std::string cluster_event_line(const Json& event) {
  const std::string kind = display_cluster_text_of(event, "event");
  for (const char* known : {"start", "step", "epoch", "end", "error", "workers", "warning", "repeats", "repeat", "repeat_end", "summary"})
    if (kind == known) return "";
  if (kind == "phase") return phase_line(event);
  if (kind == "set" && event.find("rate_factor")) return "";  // reduce_on_plateau, which has a line of its own
  if (!event.find("cause"))
    if (const std::string text = steered_line(event); !text.empty()) return text;
  const std::string worker = display_cluster_text_of(event, "worker"), host = display_cluster_text_of(event, "host"),
                    agent = display_cluster_text_of(event, "agent");
  std::string text;
  if (!worker.empty()) {
    text = "worker " + worker;
    // "host/1" says it already.
    if (!host.empty() && !worker.starts_with(host + "/")) text += " on " + host;
    text += kind.starts_with("worker_") ? " " + spaced(kind.substr(7)) : ": " + spaced(kind);
  } else if (const std::string standby = display_cluster_text_of(event, "standby"); !standby.empty()) {
    text = "standby " + standby + (kind.starts_with("standby_") ? " " + spaced(kind.substr(8)) : ": " + spaced(kind));
  } else if (!agent.empty()) {
    text = "agent " + agent + (kind.starts_with("agent_") ? " " + spaced(kind.substr(6)) : ": " + spaced(kind));
  } else {
    text = spaced(kind);
  }
  constexpr std::pair<const char*, const char*> kParts[] = {
      {"cause", ": "}, {"got", "; got "}, {"expected", ", expected "}, {"done", "; "}, {"advice", "; "}};
  for (const auto& [part, before] : kParts)
    if (const std::string said = display_cluster_text_of(event, part); !said.empty()) text += before + said;
  return text;
}

}  // namespace perigee
