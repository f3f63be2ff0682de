#include "src/io/plot/chart.h"

#include <algorithm>
#include <cmath>

#include "src/io/plot/axis.h"

namespace perigee {
namespace {

using Points = ChartCanvas::Points;
using Anchor = ChartCanvas::Anchor;

constexpr double kWidth = 760, kHeight = 300, kLeft = 70, kRight = 160, kAlone = 24, kTop = 36, kBottom = 44, kHead = 30;
constexpr size_t kMostPoints = 1000;

// One curve that the title names already needs no legend.
bool has_legend(const Chart& chart) {
  return chart.curves.size() > 1 || (chart.curves.size() == 1 && !chart.curves[0].name.empty() && chart.curves[0].name != chart.title);
}

// `above`: what stands over all charts.
void draw(const Chart& chart, const std::string& above, double top, ChartCanvas& canvas) {
  const bool legend = has_legend(chart);
  const double right = kWidth - (legend ? kRight : kAlone), middle = (kLeft + right) / 2;
  Axis x(kLeft, right), y(top + kHeight - kBottom, top + kTop);
  std::vector<double> xs, ys;
  for (const auto& curve : chart.curves)
    for (const auto& [px, py] : curve.points)
      if (std::isfinite(px) && std::isfinite(py) && (!chart.log_scale || py > 0)) xs.push_back(px), ys.push_back(py);
  x.fit(xs, AxisScale::linear);
  y.fit(ys, chart.log_scale ? AxisScale::log : chart.fitted ? AxisScale::fitted : AxisScale::linear);
  const std::string note = chart.fitted ? y.note() : "";
  const std::string title = (chart.title == above ? "" : chart.title) + (note.empty() ? "" : " (" + note + ")");
  if (!title.empty()) canvas.text(middle, top + 22, Anchor::middle, title);
  for (const double tick : y.ticks()) {
    canvas.grid_line(x.from(), y.pixel(tick), x.to(), y.pixel(tick));
    canvas.text(x.from() - 8, y.pixel(tick) + 4, Anchor::end, axis_number(tick));
  }
  for (const double tick : x.ticks()) {
    canvas.grid_line(x.pixel(tick), y.from(), x.pixel(tick), y.to());
    canvas.text(x.pixel(tick), y.from() + 18, Anchor::middle, axis_number(tick));
  }
  canvas.text(middle, y.from() + 36, Anchor::middle, chart.x_label);
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    Points points = chart.curves[i].points;
    std::erase_if(points, [](const auto& point) { return std::isnan(point.first); });
    points = thinned_points(points, kMostPoints);
    for (auto& [px, py] : points) px = x.pixel(px), py = std::isfinite(py) ? y.pixel(py) : NAN;
    canvas.curve(cut_lines(points, y.to(), y.from()), i);
    if (!legend) continue;
    const double line = top + kTop + 10 + 20 * static_cast<double>(i), left = right + 12;
    canvas.curve({{left, line}, {left + 20, line}}, i);
    canvas.text(left + 26, line + 4, Anchor::start, chart.curves[i].name);
  }
}

}  // namespace

unsigned chart_colour(size_t i) {
  static constexpr unsigned kPalette[ChartCanvas::kColours] = {0x0072B2, 0xD55E00, 0x009E73, 0xCC79A7, 0xE69F00, 0x56B4E9, 0x8A7F00};
  return kPalette[i % ChartCanvas::kColours];
}

double charts_width() { return kWidth; }
double charts_height(size_t count) { return kHead + kHeight * static_cast<double>(count); }

void draw_charts(const std::string& title, const std::vector<Chart>& charts, ChartCanvas& canvas) {
  canvas.text(kWidth / 2, 22, Anchor::middle, title);
  for (size_t i = 0; i < charts.size(); ++i) draw(charts[i], title, charts_height(i), canvas);
}

}  // namespace perigee
