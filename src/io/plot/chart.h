// Line charts of training curves: as stand-alone SVG (no script, no font file, readable in light and dark), and as PNG.
#pragma once

#include <cstddef>
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
  bool fitted = false;     // AxisScale::fitted; the title says where it is not linear, or values lie outside
};

// The charts below each other. More than 1000 points of a curve are thinned out: the least and the greatest of each group stay.
std::string svg_charts(const std::string& title, const std::vector<Chart>& charts);
// The bytes of a PNG file. Letters beyond ASCII are shown as '?'. Error(resources).
std::string png_charts(const std::string& title, const std::vector<Chart>& charts);

// The canvas of charts. Coordinates are pixels of an SVG image, y downwards.
class ChartCanvas {
 public:
  enum class Anchor { start, middle, end };
  using Points = std::vector<std::pair<double, double>>;
  static constexpr size_t kColours = 7;

  virtual ~ChartCanvas() = default;
  virtual void text(double x, double y, Anchor anchor, const std::string& text) = 0;  // y: of the base line
  virtual void grid_line(double x0, double y0, double x1, double y1) = 0;             // horizontal or vertical
  virtual void curve(const Points& points, size_t colour) = 0;                        // NaN: a gap
};

// Okabe and Ito's palette, which colour-blind readers can tell apart: 0xRRGGBB.
unsigned chart_colour(size_t i);
double charts_width();
double charts_height(size_t count);
void draw_charts(const std::string& title, const std::vector<Chart>& charts, ChartCanvas& canvas);

}  // namespace perigee
