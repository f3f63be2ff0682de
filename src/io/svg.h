// Line charts of training curves as stand-alone SVG: no script, no font file, readable in light and dark.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace perigee {

struct PlotCurve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // (x, y), x ascending; NaN and Inf leave a gap
};

struct Chart {
  std::string title;    // "loss"
  std::string x_label;  // "step"
  std::vector<PlotCurve> curves;
  bool log_scale = false;  // of y; values that are not positive are left out
};

// The charts below each other. More than 1000 points of a curve are thinned out: the least and the greatest of each group stay.
std::string svg_charts(const std::string& title, const std::vector<Chart>& charts);

}  // namespace perigee
