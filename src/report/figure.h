// A figure of a page: axes and series as SVG, its legend as HTML. Series differ by dashes and marks as well as by colour. The page's style
// (style.cpp) colours it, its script reads values from it (data-x, data-y).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/io/plot/axis.h"

namespace perigee {

struct Series {
  std::string name;
  AxisPoints points;  // x ascending where they are joined by lines
  bool line = true;   // false: marks alone
};

struct Figure {
  std::string title;        // plain text
  std::string description;  // the same in words, for screen readers
  std::string x_label, y_label;
  std::vector<Series> series;
  AxisScale scale = AxisScale::linear;                          // of y
  std::optional<std::pair<double, double>> x_limits, y_limits;  // else by the values
  bool square = false;
  std::string diagonal;  // the name of the line y = x; empty: none
};

// <figure> with caption, drawing and legend. Where the scale is fitted and not plainly linear, a choice shows the other axis.
std::string figure_html(const Figure& figure);

}  // namespace perigee
