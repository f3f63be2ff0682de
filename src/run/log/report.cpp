// The report of an evaluation as text, and a run's curves as SVG.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "src/core/utf8.h"
#include "src/io/plot/chart.h"
#include "src/io/plot/short_names.h"
#include "src/run/run_folder.h"

namespace perigee {
namespace {

constexpr size_t kWidest = 100;      // columns of a confusion matrix with whole names
constexpr size_t kLongestName = 40;  // of a class

std::string padded(std::string text, size_t width, bool left = false) {
  const size_t shown = utf8_width(text);
  if (shown < width) text.insert(left ? text.size() : 0, width - shown, ' ');
  return text;
}

std::string decimal(const Json* value, const char* format = "%.4f") {
  if (!value || !value->is_number()) return "-";
  char text[40];
  std::snprintf(text, sizeof text, format, value->as_number());
  return text;
}

std::string class_name(const Json& row) { return printable(row.find("name")->as_string()); }

// The names of the rows of a table, as there is room for them.
std::vector<std::string> row_names(const Json& rows) {
  std::vector<std::string> names;
  for (const Json& row : rows.as_array()) names.push_back(class_name(row));
  return short_names(names, kLongestName);
}

size_t widest(const std::vector<std::string>& names) {
  size_t width = 5;
  for (const std::string& name : names) width = std::max(width, utf8_width(name));
  return width;
}

std::string class_table(const Json& classes) {
  const std::vector<std::string> names = row_names(classes);
  const size_t width = widest(names);
  std::string f_name = "f1";
  for (const Json& row : classes.as_array())
    for (const auto& [key, value] : row.as_object())
      if (key[0] == 'f') f_name = key;
  std::string text = padded("class", width, true) + "  precision    recall  " + padded(f_name, 8) + "  examples\n";
  for (size_t i = 0; i < names.size(); ++i) {
    const Json& row = classes.as_array()[i];
    text += padded(names[i], width, true);
    text += padded(decimal(row.find("precision")), 11) + padded(decimal(row.find("recall")), 10) + padded(decimal(row.find(f_name)), 10);
    text += padded(std::to_string(row.find("examples")->as_int()), 10) + "\n";
  }
  return text;
}

// Columns have the names of the classes; where a line is too short for them, the numbers that stand before the names of the rows.
std::string confusion_table(const Json& matrix, const Json* classes) {
  const auto& rows = matrix.as_array();
  if (rows.empty() || rows.size() > 40) return "";
  size_t width = 4;
  for (const Json& row : rows)
    for (const Json& count : row.as_array()) width = std::max(width, std::to_string(count.as_int()).size() + 1);
  const std::vector<std::string> names = classes ? row_names(*classes) : std::vector<std::string>{};
  const auto name = [&](size_t i) { return i < names.size() ? names[i] : std::to_string(i); };
  size_t longest = 0;
  for (size_t i = 0; i < rows.size(); ++i) longest = std::max(longest, utf8_width(name(i)));
  const bool numbered = std::max<size_t>(6, longest) + rows.size() * std::max(width, longest + 1) > kWidest;
  if (!numbered) width = std::max(width, longest + 1);
  const auto head = [&](size_t i) { return numbered ? padded(std::to_string(i), 2) + " " + name(i) : name(i); };
  size_t left = 6;
  for (size_t i = 0; i < rows.size(); ++i) left = std::max(left, utf8_width(head(i)));
  std::string text = "confusion matrix (row: actual, column: predicted)\n" + padded("", left);
  for (size_t i = 0; i < rows.size(); ++i) text += padded(numbered ? std::to_string(i) : name(i), width);
  text += "\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    text += padded(head(i), left, numbered);
    for (const Json& count : rows[i].as_array()) text += padded(count.as_int() == 0 ? "." : std::to_string(count.as_int()), width);
    text += "\n";
  }
  return text;
}

// The areas of each class, where the evaluation has them.
std::string area_table(const Json& roc) {
  const Json* classes = roc.find("classes");
  if (!classes || !classes->is_array() || classes->as_array().empty() || !classes->as_array()[0].find("auc")) return "";
  const std::vector<std::string> names = row_names(*classes);
  const size_t width = widest(names);
  std::string text = "\n" + padded("class", width, true) + "   ROC AUC  average precision\n";
  for (size_t i = 0; i < names.size(); ++i) {
    const Json& row = classes->as_array()[i];
    text +=
        padded(names[i], width, true) + padded(decimal(row.find("auc")), 10) + padded(decimal(row.find("average_precision")), 19) + "\n";
  }
  return text;
}

const Json* figure_of(const Json& event, const std::string& part, const std::string& figure) {
  const Json* object = part.empty() ? &event : event.find(part);
  const Json* value = object ? object->find(figure) : nullptr;
  return value && value->is_number() ? value : nullptr;
}

Chart chart_of(const std::vector<Json>& events, const std::string& figure) {
  Chart chart{.title = figure, .x_label = "epoch", .curves = {{"train", {}}, {"validation", {}}, {"test", {}}}, .fitted = true};
  for (const Json& event : events) {
    const Json *kind = event.find("event"), *at = event.find("epochs_done");
    if (!kind || !at || !at->is_number()) continue;
    if (*kind == Json("step"))
      if (const Json* value = figure_of(event, "", figure)) chart.curves[0].points.emplace_back(at->as_number(), value->as_number());
    if (*kind == Json("epoch"))
      for (size_t i = 1; i < 3; ++i)
        if (const Json* value = figure_of(event, chart.curves[i].name, figure))
          chart.curves[i].points.emplace_back(at->as_number(), value->as_number());
  }
  std::erase_if(chart.curves, [](const PlotCurve& curve) { return curve.points.empty(); });
  return chart;
}

}  // namespace

std::string report_text(const Json& result) {
  std::string text;
  const auto line = [&](const std::string& name, const Json& value) {
    if (value.is_number())
      text += padded(name, std::max<size_t>(24, utf8_width(name) + 1), true) + decimal(&value, value.is_int() ? "%.0f" : "%.6f") + "\n";
  };
  for (const auto& [key, value] : result.as_object()) {
    line(key, value);
    if (!value.is_object()) continue;
    for (const auto& [figure, number] : value.as_object()) line(std::string(key).append(".").append(figure), number);
  }
  const Json *classes = result.find("classes"), *confusion = result.find("confusion");
  const bool table = classes && classes->is_array() && !classes->as_array().empty() && classes->as_array()[0].find("examples");
  if (table) text += "\n" + class_table(*classes);
  if (confusion && confusion->is_array()) text += "\n" + confusion_table(*confusion, table ? classes : nullptr);
  if (!table) text += area_table(result);
  for (const auto& [key, value] : result.as_object()) text += area_table(value);
  return text;
}

std::string curves_svg(const std::string& title, const std::vector<Json>& events) {
  std::vector<Chart> charts = {chart_of(events, "loss"), chart_of(events, "accuracy")};
  std::erase_if(charts, [](const Chart& chart) { return chart.curves.empty(); });
  return svg_charts(title, charts);
}

}  // namespace perigee
