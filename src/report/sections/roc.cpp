// ROC and precision-recall curves of each class against the rest.
#include <algorithm>
#include <cmath>

#include "src/io/plot/short_names.h"
#include "src/report/figure.h"
#include "src/report/html.h"
#include "src/report/section.h"

namespace perigee {
namespace {

constexpr size_t kMostCurves = 14, kMostRocRows = 200;

// The exact ones of report.json, where the job asks for them; else those that every evaluation keeps.
const Json* roc_of(const RunFiles& run) {
  const Json* asked = member(run.evaluated(), {"roc"});
  if (!asked && member(run.evaluated(), {"auc"})) asked = &run.evaluated();
  if (asked && !list_in(*asked, {"classes"}).empty() && list_in(*asked, {"classes"})[0].find("curve")) return asked;
  return member(run.details, {"evaluation", "roc"});
}

AxisPoints points_of(const Json& curve, const char* x, const char* y, bool from_origin) {
  const auto &xs = list_in(curve, {x}), &ys = list_in(curve, {y});
  AxisPoints points;
  if (from_origin) points.emplace_back(0, 0);
  for (size_t i = 0; i < std::min(xs.size(), ys.size()); ++i)
    if (xs[i].is_number() && ys[i].is_number()) points.emplace_back(xs[i].as_number(), ys[i].as_number());
  return points;
}

SectionText make_roc(const RunFiles& run) {
  const Json* roc = roc_of(run);
  const auto& classes = roc ? list_in(*roc, {"classes"}) : Json::Array();
  if (classes.empty())
    return {"", no_details(run,
                           "There are no curves: they are drawn for networks whose outputs are probabilities of 2 to 32 classes; runs "
                           "of older versions kept none.",
                           "roc")};
  std::vector<const Json*> sorted;
  for (const Json& row : classes) sorted.push_back(&row);
  const auto area = [](const Json* row) { return std::isfinite(number_in(*row, {"auc"})) ? number_in(*row, {"auc"}) : 2; };
  if (sorted.size() > kMostCurves)
    std::stable_sort(sorted.begin(), sorted.end(), [&](const Json* a, const Json* b) { return area(a) < area(b); });
  Figure rates{.title = "ROC curve",
               .description = "",
               .x_label = "false positive rate",
               .y_label = "recall",
               .series = {},
               .x_limits = {{0, 1}},
               .y_limits = {{0, 1}},
               .square = true,
               .diagonal = "chance"};
  Figure precision{.title = "Precision over recall",
                   .description = "",
                   .x_label = "recall",
                   .y_label = "precision",
                   .series = {},
                   .x_limits = {{0, 1}},
                   .y_limits = {{0, 1}},
                   .square = true,
                   .diagonal = ""};
  HtmlTable table("Areas under the curves", {{"class"}, {"ROC AUC", true}, {"average precision", true}});
  std::vector<std::string> names;
  for (const Json* row : sorted) names.push_back(text_in(*row, {"name"}));
  names = short_names(names, 40, "\u2026");
  for (size_t i = 0; i < std::min(sorted.size(), kMostRocRows); ++i) {
    const Json& row = *sorted[i];
    const std::string& name = names[i];
    table.row({escaped(name), plain_number(number_in(row, {"auc"})), plain_number(number_in(row, {"average_precision"}))});
    const Json* curve = row.find("curve");
    if (!curve || i >= kMostCurves) continue;
    rates.series.push_back({name, points_of(*curve, "false_positive_rate", "recall", true)});
    precision.series.push_back({name, points_of(*curve, "recall", "precision", false)});
  }
  rates.description = "mean area " + plain_number(number_in(*roc, {"auc"}));
  precision.description = "mean average precision " + plain_number(number_in(*roc, {"average_precision"}));
  std::string html = "<div class=\"squares\">\n" + figure_html(rates) + figure_html(precision) + "</div>\n";
  if (sorted.size() > kMostCurves)
    html += "<p class=\"note\">Drawn are the " + std::to_string(kMostCurves) + " classes with the smallest area.</p>\n";
  const auto thresholds = member(run.details, {"evaluation", "roc"}) == roc &&
                          number_in(run.evaluated(), {"examples"}) * static_cast<double>(run.class_names().size()) > (1 << 15);
  if (thresholds)
    html += "<p class=\"note\">By 1000 thresholds; metrics = { \"classification\", \"roc\" } in the job makes the areas exact.</p>\n";
  return {html + table.html() + left_out_note(sorted.size(), kMostRocRows, "classes", "report.json"), ""};
}

}  // namespace

extern const Section section_roc;
const Section section_roc{.id = "roc", .title = "ROC", .make = make_roc};

}  // namespace perigee
