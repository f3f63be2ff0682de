// The output of `perigee simulate`: a table row by row, a plot, or JSON.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cluster/simulator/forecast.h"

namespace perigee {

// One forecast and what was varied for it.
struct SimulatedPoint {
  std::vector<std::pair<std::string, std::string>> set;  // of --sweep: name and value
  double bits_per_s = 0;
  sim::ForecastInput input;
  sim::Forecast forecast;
  Json evaluations = Json::array();  // of a run that trained: {"part": ..., "at_s": ..., "examples": ..., figures}
  Json figures;                      // of its last evaluation; null: there is none

  std::string label() const;  // "every=5 nodes=8"
  double speedup() const;     // examples per second against one node of median speed
};

void print_heading(const SimulatedPoint& first);
void print_row(const SimulatedPoint& point);
void print_plot(const std::vector<SimulatedPoint>& points);
Json point_json(const SimulatedPoint& point);

}  // namespace perigee
