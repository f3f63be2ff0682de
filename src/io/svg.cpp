#include "src/io/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace perigee {
namespace {

constexpr double kWidth = 760, kHeight = 300, kLeft = 70, kRight = 160, kTop = 36, kBottom = 44;
constexpr size_t kMostPoints = 1000;
// Okabe and Ito's palette, which colour-blind readers can tell apart.
constexpr const char* kColours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A7F00"};

using Points = std::vector<std::pair<double, double>>;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return text;
}

std::string coordinate(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

// Groups of neighbours become their least and greatest, so that spikes stay visible.
Points thinned(const Points& points) {
  if (points.size() <= kMostPoints) return points;
  Points out;
  const size_t group = (points.size() + kMostPoints / 2 - 1) / (kMostPoints / 2);
  for (size_t i = 0; i < points.size(); i += group) {
    const auto begin = points.begin() + static_cast<long>(i), end = points.begin() + static_cast<long>(std::min(i + group, points.size()));
    auto [low, high] = std::minmax_element(begin, end, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (high < low) std::swap(low, high);
    out.push_back(*low);
    if (low != high) out.push_back(*high);
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

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" text-anchor=\"" + anchor + "\">" + escaped(text) + "</text>\n";
}

std::string path_of(const Points& points, const Axis& x, const Axis& y) {
  std::string path;
  bool pen_down = false;
  for (const auto& [px, py] : points) {
    if (!std::isfinite(px) || !std::isfinite(py)) {
      pen_down = false;
      continue;
    }
    path += (pen_down ? "L" : "M") + coordinate(x.pixel(px)) + " " + coordinate(y.pixel(py));
    pen_down = true;
  }
  return path;
}

std::string draw(const Chart& chart, double top) {
  Axis x{.from = kLeft, .to = kWidth - kRight}, y{.from = top + kHeight - kBottom, .to = top + kTop};
  std::vector<Points> curves;
  for (const auto& curve : chart.curves) {
    Points points = curve.points;
    if (chart.log_scale)
      for (auto& point : points) point.second = point.second > 0 ? std::log10(point.second) : NAN;
    for (const auto& [px, py] : points)
      if (std::isfinite(px) && std::isfinite(py)) x.include(px), y.include(py);
    std::erase_if(points, [](const auto& point) { return std::isnan(point.first); });
    curves.push_back(thinned(points));
  }
  x.settle(), y.settle();
  std::string out = text_at((kLeft + kWidth - kRight) / 2, top + 22, "middle", chart.title);
  for (const double tick : y.ticks()) {
    const std::string at = coordinate(y.pixel(tick));
    out += "<path class=\"grid\" d=\"M" + coordinate(x.from) + " " + at + "H" + coordinate(x.to) + "\"/>\n";
    out += text_at(x.from - 8, y.pixel(tick) + 4, "end", number(chart.log_scale ? std::pow(10, tick) : tick));
  }
  for (const double tick : x.ticks()) {
    out += "<path class=\"grid\" d=\"M" + coordinate(x.pixel(tick)) + " " + coordinate(y.from) + "V" + coordinate(y.to) + "\"/>\n";
    out += text_at(x.pixel(tick), y.from + 18, "middle", number(tick));
  }
  out += text_at((kLeft + kWidth - kRight) / 2, y.from + 36, "middle", chart.x_label);
  for (size_t i = 0; i < curves.size(); ++i) {
    const std::string colour = kColours[i % std::size(kColours)];
    out += "<path class=\"curve\" stroke=\"" + colour + "\" d=\"" + path_of(curves[i], x, y) + "\"/>\n";
    const double line = top + kTop + 10 + 20 * static_cast<double>(i);
    out +=
        "<path class=\"curve\" stroke=\"" + colour + "\" d=\"M" + coordinate(kWidth - kRight + 12) + " " + coordinate(line) + "h20\"/>\n";
    out += text_at(kWidth - kRight + 38, line + 4, "start", chart.curves[i].name);
  }
  return out;
}

}  // namespace

std::string svg_charts(const std::string& title, const std::vector<Chart>& charts) {
  const double height = 30 + kHeight * static_cast<double>(charts.size());
  std::string out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + coordinate(kWidth) + " " + coordinate(height) + "\" role=\"img\">\n";
  out += "<title>" + escaped(title) +
         "</title>\n<style>\nsvg { background: #fff; }\ntext { font: 12px sans-serif; fill: #333; }\n"
         ".grid { stroke: #999; stroke-opacity: .3; fill: none; }\n.curve { stroke-width: 1.8; fill: none; stroke-linejoin: round; }\n"
         "@media (prefers-color-scheme: dark) { svg { background: #1b1b1b; } text { fill: #ddd; } }\n</style>\n";
  out += text_at(kWidth / 2, 22, "middle", title);
  for (size_t i = 0; i < charts.size(); ++i) out += draw(charts[i], 30 + kHeight * static_cast<double>(i));
  return out + "</svg>\n";
}

}  // namespace perigee
