#include "src/report/curves.h"

#include <algorithm>
#include <cmath>

#include "src/report/html.h"

namespace perigee {

Series curve_of(const RunFiles& run, const std::string& part, const std::string& figure) {
  Series series{.name = part.empty() ? "train" : part, .points = {}};
  for (const Json& event : run.events) {
    if (!is_event(event, part.empty() ? "step" : "epoch")) continue;
    const double at = number_in(event, {"epochs_done"});
    const double value = part.empty() ? number_in(event, {figure}) : number_in(event, {part, figure});
    if (!std::isfinite(at) || !std::isfinite(value)) continue;
    // A run that was continued from a checkpoint does some steps again: the later ones count.
    while (!series.points.empty() && series.points.back().first >= at) series.points.pop_back();
    series.points.emplace_back(at, value);
  }
  return series;
}

std::string described(const std::vector<Series>& series) {
  std::string text;
  for (const Series& each : series) {
    if (each.points.empty()) continue;
    const auto by_value = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto least = std::min_element(each.points.begin(), each.points.end(), by_value);
    const auto greatest = std::max_element(each.points.begin(), each.points.end(), by_value);
    text += (text.empty() ? "" : "; ") + each.name + " goes from " + plain_number(each.points.front().second) + " to " +
            plain_number(each.points.back().second) + ", least " + plain_number(least->second) + " at " + plain_number(least->first) +
            ", greatest " + plain_number(greatest->second) + " at " + plain_number(greatest->first);
  }
  return text;
}

}  // namespace perigee
