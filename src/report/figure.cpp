#include "src/report/figure.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "src/report/html.h"

namespace perigee {
namespace {

constexpr double kWidth = 640, kHeight = 330, kSquare = 420, kLeft = 78, kRight = 18, kTop = 14, kBottom = 56;
constexpr size_t kMostPoints = 600, kMostOfSeries = 300, kFewestOfSeries = 60;  // of all series, of each; the page is to stay small
constexpr size_t kMostMarked = 40, kStyles = 7, kMostOutside = 60;

std::string coordinate(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  std::string out = text;
  if (out.ends_with(".0")) out.resize(out.size() - 2);
  return out == "-0" ? "0" : out;
}

std::string point(const char* command, double x, double y) { return command + coordinate(x) + " " + coordinate(y); }

// A mark of each style about a point: round, square, triangle, diamond, cross, bar, star.
std::string mark(size_t style, double x, double y, double size) {
  const double s = size;
  switch (style % kStyles) {
    case 0:
      return point("M", x - s, y) + "a" + coordinate(s) + " " + coordinate(s) + " 0 1 0 " + coordinate(2 * s) + " 0a" + coordinate(s) +
             " " + coordinate(s) + " 0 1 0 " + coordinate(-2 * s) + " 0z";
    case 1: return point("M", x - s, y - s) + point("L", x + s, y - s) + point("L", x + s, y + s) + point("L", x - s, y + s) + "z";
    case 2: return point("M", x, y - s) + point("L", x + s, y + s) + point("L", x - s, y + s) + "z";
    case 3: return point("M", x, y - 1.3 * s) + point("L", x + 1.3 * s, y) + point("L", x, y + 1.3 * s) + point("L", x - 1.3 * s, y) + "z";
    case 4:
      return point("M", x - s, y - .4 * s) + point("L", x + s, y - .4 * s) + point("L", x + s, y + .4 * s) + point("L", x - s, y + .4 * s) +
             "z";
    case 5: return point("M", x - s, y - s) + point("L", x + s, y - s) + point("L", x, y + s) + "z";
    default:
      return point("M", x - .4 * s, y - s) + point("L", x + .4 * s, y - s) + point("L", x + .4 * s, y + s) + point("L", x - .4 * s, y + s) +
             "z";
  }
}

std::string style_of(size_t i) { return "s" + std::to_string(i % kStyles) + (i >= kStyles ? " more" : ""); }

// Where the series lie: the same for all variants but for y.
struct Frame {
  Axis x, y;
  double width, height;
};

Frame frame_of(const Figure& figure, AxisScale scale) {
  const double width = figure.square ? kSquare : kWidth, height = figure.square ? kSquare : kHeight;
  Frame frame{Axis(kLeft, width - kRight), Axis(height - kBottom, kTop), width, height};
  std::vector<double> xs, ys;
  for (const Series& series : figure.series)
    for (const auto& [x, y] : series.points)
      if (std::isfinite(x) && std::isfinite(y)) xs.push_back(x), ys.push_back(y);
  frame.x.fit(xs, AxisScale::linear);
  frame.y.fit(ys, scale);
  if (figure.x_limits) frame.x.set_limits(figure.x_limits->first, figure.x_limits->second);
  if (figure.y_limits) frame.y.set_limits(figure.y_limits->first, figure.y_limits->second);
  return frame;
}

std::string axes_svg(const Figure& figure, const Frame& frame) {
  const Axis &x = frame.x, &y = frame.y;
  std::string grid = "<path class=\"grid\" d=\"", text;
  for (const double tick : y.ticks()) {
    grid += point("M", x.from(), y.pixel(tick)) + "H" + coordinate(x.to());
    text += "<text class=\"tick y\" x=\"" + coordinate(x.from() - 8) + "\" y=\"" + coordinate(y.pixel(tick)) + "\">" + axis_number(tick) +
            "</text>";
  }
  for (const double tick : x.ticks()) {
    grid += point("M", x.pixel(tick), y.from()) + "V" + coordinate(y.to());
    text += "<text class=\"tick x\" x=\"" + coordinate(x.pixel(tick)) + "\" y=\"" + coordinate(y.from() + 20) + "\">" + axis_number(tick) +
            "</text>";
  }
  grid += "\"/><path class=\"axis\" d=\"" + point("M", x.from(), y.to()) + point("L", x.from(), y.from()) + point("L", x.to(), y.from()) +
          "\"/>";
  text += "<text class=\"label x\" x=\"" + coordinate((x.from() + x.to()) / 2) + "\" y=\"" + coordinate(frame.height - 8) + "\">" +
          escaped(figure.x_label) + "</text>";
  const std::string middle = coordinate((y.from() + y.to()) / 2);
  text += "<text class=\"label y\" x=\"14\" y=\"" + middle + "\" transform=\"rotate(-90 14 " + middle + ")\">" + escaped(figure.y_label) +
          (y.is_log() ? " (log)" : "") + "</text>";
  return grid + "\n" + text + "\n";
}

std::string series_svg(const Series& series, size_t style, size_t most, const Frame& frame) {
  AxisPoints points = thinned_points(series.points, most);
  std::string outside;
  size_t many = 0;
  for (auto& [px, py] : points) {
    px = frame.x.pixel(px), py = frame.y.pixel(py);
    if (!std::isfinite(px) || !std::isfinite(py) || many >= kMostOutside) continue;
    const double top = frame.y.to(), bottom = frame.y.from();
    if (py < top - .01) outside += point("M", px - 4, top + 8) + point("L", px, top + 1) + point("L", px + 4, top + 8) + "z", ++many;
    if (py > bottom + .01)
      outside += point("M", px - 4, bottom - 8) + point("L", px, bottom - 1) + point("L", px + 4, bottom - 8) + "z", ++many;
  }
  const AxisPoints inside = cut_lines(points, frame.y.to() - .01, frame.y.from() + .01);
  std::string line, marks;
  bool pen_down = false;
  for (const auto& [x, y] : inside) {
    const bool gap = !std::isfinite(x) || !std::isfinite(y);
    if (!gap && series.line) line += point(pen_down ? "L" : "M", x, y);
    pen_down = !gap;
  }
  if (!series.line || points.size() <= kMostMarked)
    for (const auto& [x, y] : points)
      if (std::isfinite(x) && std::isfinite(y) && y >= frame.y.to() - .01 && y <= frame.y.from() + .01)
        marks += mark(style, x, y, series.line ? 3.5 : 2.5);
  std::string text = "<g class=\"series " + style_of(style) + "\" data-name=\"" + escaped(series.name) + "\">";
  if (!line.empty()) text += "<path class=\"line\" d=\"" + line + "\"/>";
  if (!marks.empty()) text += std::string("<path class=\"marks") + (series.line ? "" : " cloud") + "\" d=\"" + marks + "\"/>";
  if (!outside.empty()) text += "<path class=\"outside\" d=\"" + outside + "\"/>";
  return text + "</g>\n";
}

std::string limits(const char* name, const Axis& axis) {
  char text[160];
  const auto place = [&](double value) { return axis.is_log() ? std::log10(value) : value; };
  std::snprintf(text, sizeof text, " data-%s=\"%.9g %.9g %g %g %d\"", name, place(axis.low()), place(axis.high()), axis.from(), axis.to(),
                axis.is_log());
  return text;
}

std::string drawing(const Figure& figure, AxisScale scale, std::string* note) {
  const Frame frame = frame_of(figure, scale);
  *note = figure.y_limits ? "" : frame.y.note();
  const std::string label = figure.title + ": " + figure.description + (note->empty() ? "" : " (" + *note + ")");
  std::string svg = "<svg class=\"plot\" viewBox=\"0 0 " + coordinate(frame.width) + " " + coordinate(frame.height) +
                    "\" role=\"img\" tabindex=\"0\" aria-label=\"" + escaped(label) + "\"" + limits("x", frame.x) + limits("y", frame.y) +
                    ">\n";
  svg += axes_svg(figure, frame);
  if (!figure.diagonal.empty()) {
    const double low = std::max(frame.x.low(), frame.y.low()), high = std::min(frame.x.high(), frame.y.high());
    if (low < high)
      svg += "<path class=\"diagonal\" d=\"" + point("M", frame.x.pixel(low), frame.y.pixel(low)) +
             point("L", frame.x.pixel(high), frame.y.pixel(high)) + "\"/>\n";
  }
  const size_t most = std::clamp(kMostPoints / std::max<size_t>(1, figure.series.size()), kFewestOfSeries, kMostOfSeries);
  for (size_t i = 0; i < figure.series.size(); ++i) svg += series_svg(figure.series[i], i, most, frame);
  return svg + "</svg>\n";
}

std::string legend(const Figure& figure) {
  if (figure.series.size() < 2 && figure.diagonal.empty()) return "";
  std::string text = "<ul class=\"legend\">";
  for (size_t i = 0; i < figure.series.size(); ++i) {
    const Series& series = figure.series[i];
    const bool marked = !series.line || series.points.size() <= kMostMarked;
    text += "<li><svg class=\"key series " + style_of(i) + "\" viewBox=\"0 0 34 12\" aria-hidden=\"true\">";
    if (series.line) text += "<path class=\"line\" d=\"M0 6H34\"/>";
    if (marked) text += "<path class=\"marks\" d=\"" + mark(i, 17, 6, 3.5) + "\"/>";
    text += "</svg>" + escaped(series.name) + "</li>";
  }
  if (!figure.diagonal.empty())
    text += "<li><svg class=\"key\" viewBox=\"0 0 34 12\" aria-hidden=\"true\"><path class=\"diagonal\" d=\"M0 6H34\"/></svg>" +
            escaped(figure.diagonal) + "</li>";
  return text + "</ul>\n";
}

// Two drawings, and a choice that needs no script.
std::string choice(const std::string& title, const std::string& first, const std::string& first_name, const std::string& second,
                   const std::string& second_name) {
  std::string id = "axis-";  // titles of a page differ
  for (const char c : title) id += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return "<fieldset class=\"choice\"><legend>Axis of " + escaped(title) + "</legend>\n<input type=\"radio\" name=\"" + id + "\" id=\"" +
         id + "a\" checked><label for=\"" + id + "a\">" + escaped(first_name) + "</label>\n<input type=\"radio\" name=\"" + id +
         "\" id=\"" + id + "b\"><label for=\"" + id + "b\">" + escaped(second_name) + "</label>\n<div class=\"first\">" + first +
         "</div>\n<div class=\"second\">" + second + "</div></fieldset>\n";
}

}  // namespace

std::string figure_html(const Figure& figure) {
  std::string note, other_note;
  std::string body = drawing(figure, figure.scale, &note);
  const bool all_positive = std::ranges::all_of(figure.series, [](const Series& series) {
    return std::ranges::all_of(series.points, [](const auto& at) { return !std::isfinite(at.second) || at.second > 0; });
  });
  if (figure.scale == AxisScale::fitted) {
    const AxisScale other = note.empty() ? AxisScale::log : AxisScale::linear;
    if (!note.empty()) body = choice(figure.title, body, note, drawing(figure, other, &other_note), "linear, all values");
    else if (all_positive && !figure.series.empty())
      body = choice(figure.title, body, "linear axis", drawing(figure, other, &other_note), "log axis");
  }
  return std::string("<figure class=\"") + (figure.square ? "square" : "wide") + "\"><figcaption>" + escaped(figure.title) +
         "</figcaption>\n" + body + legend(figure) + "</figure>\n";
}

}  // namespace perigee
