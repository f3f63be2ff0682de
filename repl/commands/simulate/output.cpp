#include "repl/commands/simulate/output.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "cluster/policy/policy.h"
#include "repl/commands/quantity.h"
#include "repl/display/display.h"

namespace perigee {
namespace {

constexpr int kPlotCells = 40;

bool terminal_has_blocks() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const char* value = std::getenv(name); value && *value) {
      const std::string locale = value;
      return locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos;
    }
  return false;
}

std::string bar(double share, bool blocks) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * kPlotCells * 8));
  const int cells = blocks ? eighths / 8 : (eighths + 4) / 8;
  std::string text;
  for (int i = 0; i < cells; ++i) text += blocks ? "█" : "#";
  const bool part = blocks && eighths % 8 > 0;
  if (part) text += kEighths[eighths % 8];
  return text + std::string(static_cast<size_t>(kPlotCells - cells - (part ? 1 : 0)), ' ');
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

// A figure of the last evaluation.
std::string figure(const SimulatedPoint& point, const char* name) {
  const Json* value = point.figures.is_object() ? point.figures.find(name) : nullptr;
  if (!value || !value->is_number()) return "-";
  char text[32];
  std::snprintf(text, sizeof text, std::string_view(name) == "loss" ? "%.4f" : "%.2f %%",
                value->as_number() * (std::string_view(name) == "loss" ? 1 : 100));
  return text;
}

Json course_json(const sim::Forecast& forecast) {
  Json rounds = Json::array();
  for (const sim::ForecastRound& r : forecast.course) {
    rounds.push(Json(Json::Object{{"at_s", r.at_s},
                                  {"examples", r.examples_done},
                                  {"steps", r.steps},
                                  {"workers", r.workers},
                                  {"loss", r.loss},
                                  {"computing", r.computing},
                                  {"averaging", r.view.to_json()}}));
  }
  return rounds;
}

int column(const std::string& name) { return static_cast<int>(std::max<size_t>(8, name.size())); }

}  // namespace

std::string SimulatedPoint::label() const {
  std::string text;
  for (const auto& [name, value] : set) text += (text.empty() ? "" : " ") + name + "=" + value;
  return text;
}

double SimulatedPoint::speedup() const {
  return forecast.examples_per_s * input.times.step_ms / 1e3 / static_cast<double>(input.times.batch);
}

void print_heading(const SimulatedPoint& first) {
  for (const auto& [name, value] : first.set) std::printf("%-*s  ", column(name), name.c_str());
  if (first.input.numbers) std::printf("%10s %9s ", "loss", "accuracy");
  std::printf("%10s %12s %9s %10s %8s %12s %24s %9s %10s\n", "wall time", "examples/s", "speed-up", "computing", "rounds", "sent/worker",
              "busiest link", "failures", "lost");
}

void print_row(const SimulatedPoint& point) {
  const sim::Forecast& f = point.forecast;
  for (const auto& [name, value] : point.set) std::printf("%-*s  ", column(name), value.c_str());
  if (point.input.numbers) std::printf("%10s %9s ", figure(point, "loss").c_str(), figure(point, "accuracy").c_str());
  const std::string link =
      f.busiest_link.empty() ? "-" : f.busiest_link + " " + amount_text(f.busiest_link_bytes) + " " + percent(f.busiest_link_use);
  std::printf("%10s %12s %8.2fx %10s %8s %12s %24s %9lld %10s%s\n", span_text(f.wall_s).c_str(),
              grouped(std::llround(f.examples_per_s)).c_str(), point.speedup(), percent(f.computing).c_str(), grouped(f.rounds).c_str(),
              amount_text(f.sent_per_worker).c_str(), link.c_str(), static_cast<long long>(f.failures), grouped(f.lost_examples).c_str(),
              f.share < 1 ? (" (the first " + percent(f.share) + " was simulated)").c_str() : "");
  if (!f.ended.empty()) std::printf("  ended after %s examples: %s\n", grouped(f.examples_done).c_str(), f.ended.c_str());
  if (f.lost_workers > f.failures)
    std::printf("  workers were taken for lost %lld times: the network is too slow for the policy's deadlines\n",
                static_cast<long long>(f.lost_workers));
  std::fflush(stdout);
}

void print_plot(const std::vector<SimulatedPoint>& points) {
  size_t width = 0;
  double most = 0;
  for (const SimulatedPoint& point : points) {
    width = std::max(width, point.label().size());
    most = std::max(most, point.forecast.examples_per_s);
  }
  const bool blocks = terminal_has_blocks();
  std::printf("\nexamples/s\n");
  for (const SimulatedPoint& point : points)
    std::printf("%-*s  %s %s\n", static_cast<int>(width), point.label().c_str(), bar(point.forecast.examples_per_s / most, blocks).c_str(),
                grouped(std::llround(point.forecast.examples_per_s)).c_str());
  std::printf("\nshare of the time computing\n");
  for (const SimulatedPoint& point : points)
    std::printf("%-*s  %s %s\n", static_cast<int>(width), point.label().c_str(), bar(point.forecast.computing, blocks).c_str(),
                percent(point.forecast.computing).c_str());
}

Json point_json(const SimulatedPoint& point) {
  const sim::ForecastInput& in = point.input;
  const sim::Forecast& f = point.forecast;
  Json set = Json::object();
  for (const auto& [name, value] : point.set) set.set(name, value);
  Json events = Json::object();
  for (const auto& [name, count] : f.told) events.set(name, count);
  Json json(Json::Object{{"set", set},
                         {"nodes", in.nodes},
                         {"bandwidth_bit_per_s", std::isinf(point.bits_per_s) ? Json() : Json(point.bits_per_s)},
                         {"latency_ms", in.latency_ms},
                         {"mtbf_s", in.mtbf_s > 0 ? Json(in.mtbf_s) : Json()},
                         {"repair_s", in.repair_s},
                         {"speed_spread", in.speed_spread},
                         {"averaging", read_policy(&in.averaging, "averaging").to_json()},
                         {"wall_s", f.wall_s},
                         {"examples_per_s", f.examples_per_s},
                         {"speedup", point.speedup()},
                         {"computing", f.computing},
                         {"rounds", f.rounds},
                         {"sent_bytes_per_worker", f.sent_per_worker},
                         {"busiest_link", Json(Json::Object{{"of", f.busiest_link.empty() ? Json() : Json(f.busiest_link)},
                                                            {"bytes", f.busiest_link_bytes},
                                                            {"use", f.busiest_link_use}})},
                         {"failures", f.failures},
                         {"workers_lost", f.lost_workers},
                         {"lost_examples", f.lost_examples},
                         {"simulated_share", f.share},
                         {"events", events},
                         {"rounds_in_turn", course_json(f)}});
  if (!in.numbers) return json;
  json.set("evaluations", point.evaluations);
  json.set("figures", point.figures);
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(f.hash));
  json.set("hash", std::string(hash));
  json.set("ended", f.ended.empty() ? Json() : Json(f.ended));
  return json;
}

}  // namespace perigee
