// Where the time went, how fast training was, and what happened.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "src/core/utf8.h"
#include "src/report/figure.h"
#include "src/report/html.h"
#include "src/report/section.h"

namespace perigee {
namespace {

constexpr size_t kMostEvents = 60, kMostParts = 20, kMostWorkers = 100, kTimelineLongest = 80;

std::string shares(const RunFiles& run) {
  const Json* end = run.last("end");
  std::vector<std::pair<std::string, double>> parts;
  double all = 0;
  for (const auto& [name, value] : end ? members_in(*end, {"time"}) : Json::Object())
    if (value.is_number() && value.as_number() > 0 && parts.size() < kMostParts)
      parts.emplace_back(name.substr(0, name.rfind('_')), value.as_number()), all += value.as_number();
  if (parts.empty() || all <= 0) return "";
  std::string bar, words;
  double at = 0;
  HtmlTable table("Where the time went", {{"work"}, {"time", true}, {"share", true}, {""}});
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [name, seconds] = parts[i];
    char rect[160];
    std::snprintf(rect, sizeof rect, "<rect class=\"b%zu\" x=\"%.2f\" width=\"%.2f\" height=\"26\"/>", i % 6, at,
                  std::max(.2, 1000 * seconds / all - 1.5));
    bar += rect;
    at += 1000 * seconds / all;
    words += (words.empty() ? "" : ", ") + utf8_prefix(name, kTimelineLongest) + " " + percent(seconds / all, 0);
    const std::string swatch = "<svg class=\"swatch\" viewBox=\"0 0 34 12\" aria-hidden=\"true\"><rect class=\"b" + std::to_string(i % 6) +
                               "\" width=\"34\" height=\"12\"/></svg>";
    table.row({shortened(name, kTimelineLongest), seconds_text(seconds), percent(seconds / all, 1), swatch});
  }
  return "<svg class=\"bar\" viewBox=\"0 0 1000 26\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"" + escaped(words) + "\">" +
         bar + "</svg>\n" + table.html();
}

std::string speed(const RunFiles& run) {
  Figure figure{.title = "Speed of training",
                .description = "",
                .x_label = "seconds",
                .y_label = "examples a second",
                .series = {{"examples a second", {}}},
                .scale = AxisScale::fitted,
                .x_limits = {},
                .y_limits = {}};
  auto& points = figure.series[0].points;
  for (const Json& event : run.events) {
    const double at = number_in(event, {"seconds"}), rate = number_in(event, {"examples_per_s"});
    if (!is_event(event, "step") || !std::isfinite(at) || !std::isfinite(rate)) continue;
    while (!points.empty() && points.back().first >= at) points.pop_back();
    points.emplace_back(at, rate);
  }
  if (points.size() < 2) return "";
  double sum = 0;
  for (const auto& [at, rate] : points) sum += rate;
  figure.description = "mean of the reports " + grouped_number(sum / static_cast<double>(points.size()));
  return figure_html(figure);
}

// The members of an event that say what it is about.
std::string about(const Json& event) {
  std::string text;
  for (const auto& [name, value] : event.as_object()) {
    if (name == "event" || name == "monotonic_s" || name == "time_s" || value.is_array() || value.is_object()) continue;
    text += (text.empty() ? "" : ", ") + name + " " +
            (value.is_string()   ? value.as_string()
             : value.is_number() ? plain_number(value.as_number())
                                 : value.dump());
    if (text.size() > 300) break;
  }
  return shortened(text, 240);
}

std::string happenings(const RunFiles& run) {
  HtmlTable table("Events, the first first", {{"event"}, {"step", true}, {"about"}});
  size_t shown = 0, left_out = run.others_left_out;
  double step = 0;
  for (const Json& event : run.events) {
    if (!event.is_object()) continue;
    if (const double at = number_in(event, {"step"}); std::isfinite(at)) step = at;
    if (is_event(event, "step") || is_event(event, "epoch") || is_event(event, "workers")) continue;
    if (++shown > kMostEvents) ++left_out;
    else table.row({shortened(text_in(event, {"event"}), kTimelineLongest), grouped_number(step), about(event)});
  }
  if (table.empty()) return "";
  return "<h3>Events</h3>\n" + table.html() +
         (left_out > 0 ? "<p class=\"note\">And " + std::to_string(left_out) + " more in log.jsonl.</p>\n" : "");
}

std::string workers(const RunFiles& run) {
  const Json* last = run.last("workers");
  if (!last) return "";
  HtmlTable table("Workers as the log saw them last",
                  {{"worker"}, {"host"}, {"state"}, {"examples a second", true}, {"share", true}, {"sent", true}});
  const auto& list = list_in(*last, {"workers"});
  for (size_t i = 0; i < std::min(list.size(), kMostWorkers); ++i) {
    const auto text = [&](const char* key) { return shortened(text_in(list[i], {key}), kTimelineLongest); };
    table.row({text("name"), text("host"), text("state"), grouped_number(number_in(list[i], {"examples_per_s"})),
               percent(number_in(list[i], {"share"}), 1), bytes_number(number_in(list[i], {"bytes_up"}))});
  }
  return table.empty() ? "" : "<h3>Workers</h3>\n" + table.html() + left_out_note(list.size(), kMostWorkers, "workers", "log.jsonl");
}

SectionText make_timeline(const RunFiles& run) {
  const std::string left = shares(run), right = speed(run);
  std::string html;
  if (!left.empty() || !right.empty())
    html = "<div class=\"figures\">\n" + (left.empty() ? "" : "<div>" + left + "</div>\n") + right + "</div>\n";
  html += workers(run) + happenings(run);
  return {html, "The log tells of no events."};
}

}  // namespace

extern const Section section_timeline;
const Section section_timeline{.id = "timeline", .title = "Timeline", .make = make_timeline};

}  // namespace perigee
