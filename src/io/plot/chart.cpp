#include "src/io/plot/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace perigee {
namespace {

using Points = ChartCanvas::Points;
using Anchor = ChartCanvas::Anchor;

constexpr double kWidth = 760, kHeight = 300, kLeft = 70, kRight = 160, kTop = 36, kBottom = 44, kHead = 30;
constexpr size_t kMostPoints = 1000;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return text;
}

bool is_place(const std::pair<double, double>& point) { return std::isfinite(point.first) && std::isfinite(point.second); }

// Groups of neighbours become their least and greatest, so that spikes stay visible, and so do gaps.
Points thinned(const Points& points) {
  if (points.size() <= kMostPoints) return points;
  Points out;
  const size_t group = (points.size() + kMostPoints / 2 - 1) / (kMostPoints / 2);
  for (size_t begin = 0; begin < points.size(); begin += group) {
    const size_t none = points.size(), end = std::min(begin + group, points.size());
    size_t kept[3] = {none, none, none};  // the least, the greatest, the first gap
    for (size_t i = begin; i < end; ++i) {
      if (!is_place(points[i])) {
        kept[2] = std::min(kept[2], i);
        continue;
      }
      if (kept[0] == none || points[i].second < points[kept[0]].second) kept[0] = i;
      if (kept[1] == none || points[i].second > points[kept[1]].second) kept[1] = i;
    }
    std::sort(kept, kept + 3);
    for (size_t k = 0; k < 3; ++k)
      if (kept[k] != none && (k == 0 || kept[k] != kept[k - 1])) out.push_back(points[kept[k]]);
  }
  return out;
}

struct Axis {
  double low = INFINITY, high = -INFINITY;
  double from = 0, to = 1;  // pixels

  void include(double v) { low = std::min(low, v), high = std::max(high, v); }
  void settle() {
    if (!(low <= high)) low = 0, high = 1;
    if (low == high) low -= std::max(.5, std::fabs(low) * .05), high += std::max(.5, std::fabs(high) * .05);
  }
  double pixel(double v) const { return from + (v - low) / (high - low) * (to - from); }
  // Steps of 1, 2 or 5 times a power of ten, about five of them.
  std::vector<double> ticks() const {
    const double rough = (high - low) / 5, power = std::pow(10, std::floor(std::log10(rough)));
    const double step = rough / power < 1.5 ? power : rough / power < 3.5 ? 2 * power : rough / power < 7.5 ? 5 * power : 10 * power;
    std::vector<double> out;
    for (int i = 0; i < 12; ++i) {
      const double tick = (std::ceil(low / step - 1e-9) + i) * step;
      if (tick > high + step * 1e-9) break;
      out.push_back(std::fabs(tick) < step * 1e-9 ? 0 : tick);
    }
    return out;
  }
};

void draw(const Chart& chart, double top, ChartCanvas& canvas) {
  Axis x{.from = kLeft, .to = kWidth - kRight}, y{.from = top + kHeight - kBottom, .to = top + kTop};
  std::vector<Points> curves;
  for (const auto& curve : chart.curves) {
    Points points = curve.points;
    if (chart.log_scale)
      for (auto& point : points) point.second = point.second > 0 ? std::log10(point.second) : NAN;
    for (const auto& [px, py] : points)
      if (is_place({px, py})) x.include(px), y.include(py);
    std::erase_if(points, [](const auto& point) { return std::isnan(point.first); });
    curves.push_back(thinned(points));
  }
  x.settle(), y.settle();
  canvas.text((kLeft + kWidth - kRight) / 2, top + 22, Anchor::middle, chart.title);
  for (const double tick : y.ticks()) {
    canvas.grid_line(x.from, y.pixel(tick), x.to, y.pixel(tick));
    canvas.text(x.from - 8, y.pixel(tick) + 4, Anchor::end, number(chart.log_scale ? std::pow(10, tick) : tick));
  }
  for (const double tick : x.ticks()) {
    canvas.grid_line(x.pixel(tick), y.from, x.pixel(tick), y.to);
    canvas.text(x.pixel(tick), y.from + 18, Anchor::middle, number(tick));
  }
  canvas.text((kLeft + kWidth - kRight) / 2, y.from + 36, Anchor::middle, chart.x_label);
  for (size_t i = 0; i < curves.size(); ++i) {
    for (auto& [px, py] : curves[i])
      if (is_place({px, py})) px = x.pixel(px), py = y.pixel(py);
    canvas.curve(curves[i], i);
    const double line = top + kTop + 10 + 20 * static_cast<double>(i), left = kWidth - kRight + 12;
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
  for (size_t i = 0; i < charts.size(); ++i) draw(charts[i], charts_height(i), canvas);
}

}  // namespace perigee
