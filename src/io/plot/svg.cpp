#include <cmath>
#include <cstdio>

#include "src/io/plot/chart.h"

namespace perigee {
namespace {

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

std::string coordinate(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

class SvgCanvas final : public ChartCanvas {
 public:
  std::string body;

  void text(double x, double y, Anchor anchor, const std::string& text) override {
    static constexpr const char* kNames[] = {"start", "middle", "end"};
    body += "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" text-anchor=\"" + kNames[static_cast<size_t>(anchor)] + "\">" +
            escaped(text) + "</text>\n";
  }

  void grid_line(double x0, double y0, double x1, double y1) override {
    body += "<path class=\"grid\" d=\"M" + coordinate(x0) + " " + coordinate(y0) + "L" + coordinate(x1) + " " + coordinate(y1) + "\"/>\n";
  }

  void curve(const Points& points, size_t colour) override {
    char stroke[8];
    std::snprintf(stroke, sizeof stroke, "#%06X", chart_colour(colour));
    static constexpr const char* kDashes[kColours] = {"", "7 3", "2 3", "9 3 2 3", "12 4", "4 2", "1 2"};  // no colour alone
    const std::string dashes = kDashes[colour % kColours];
    body += "<path class=\"curve\" stroke=\"" + std::string(stroke) + "\"" +
            (dashes.empty() ? "" : " stroke-dasharray=\"" + dashes + "\"") + " d=\"";
    bool pen_down = false;
    for (const auto& [x, y] : points) {
      const bool gap = !std::isfinite(x) || !std::isfinite(y);
      if (!gap) body += (pen_down ? "L" : "M") + coordinate(x) + " " + coordinate(y);
      pen_down = !gap;
    }
    body += "\"/>\n";
  }
};

}  // namespace

std::string svg_charts(const std::string& title, const std::vector<Chart>& charts) {
  SvgCanvas canvas;
  draw_charts(title, charts, canvas);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + coordinate(charts_width()) + " " +
         coordinate(charts_height(charts.size())) + "\" role=\"img\">\n<title>" + escaped(title) +
         "</title>\n<style>\nsvg { background: #fff; }\ntext { font: 12px sans-serif; fill: #333; }\n"
         ".grid { stroke: #999; stroke-opacity: .3; fill: none; }\n.curve { stroke-width: 1.8; fill: none; stroke-linejoin: round; }\n"
         "@media (prefers-color-scheme: dark) { svg { background: #1b1b1b; } text { fill: #ddd; } }\n</style>\n" +
         canvas.body + "</svg>\n";
}

}  // namespace perigee
