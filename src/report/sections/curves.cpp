// Figures over the epochs: of training at each report, of validation and test data after each epoch.
#include <algorithm>
#include <cmath>
#include <set>

#include "src/report/curves.h"
#include "src/report/figure.h"
#include "src/report/html.h"
#include "src/report/section.h"

namespace perigee {

namespace {

constexpr size_t kMostCurvesRows = 100, kMostOthers = 4;

std::string title_of(std::string name) {
  constexpr std::string_view kShort[] = {"mse", "rmse", "mae", "rse", "r2", "mcc", "roc.auc"};
  if (std::ranges::find(kShort, name) != std::end(kShort))
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return c == '.' ? ' ' : static_cast<char>(std::toupper(c)); });
  std::replace(name.begin(), name.end(), '_', ' ');
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}

std::string chart(const RunFiles& run, const std::string& figure, const std::string& title) {
  Figure chart{.title = title,
               .description = "",
               .x_label = "epoch",
               .y_label = figure,
               .series = {},
               .scale = AxisScale::fitted,
               .x_limits = {},
               .y_limits = {}};
  std::replace(chart.y_label.begin(), chart.y_label.end(), '_', ' ');
  for (const char* part : {"", "validation", "test"})
    if (Series series = curve_of(run, part, figure); !series.points.empty()) chart.series.push_back(std::move(series));
  if (chart.series.empty()) return "";
  chart.description = described(chart.series);
  return figure_html(chart);
}

// Other figures of the evaluations after epochs, in the order in which they come.
std::vector<std::string> other_figures(const RunFiles& run) {
  std::vector<std::string> names;
  std::set<std::string> seen = {"loss", "accuracy", "examples", "precision", "recall", "mse", "mae"};
  for (const Json& event : run.events)
    for (const char* part : {"validation", "test"})
      if (is_event(event, "epoch"))
        for (const auto& [name, value] : members_in(event, {part}))
          if (value.is_number() && seen.insert(name).second && names.size() < kMostOthers) names.push_back(name);
  return names;
}

std::string epoch_table(const RunFiles& run) {
  std::vector<const Json*> epochs;
  for (const Json& event : run.events)
    if (is_event(event, "epoch")) epochs.push_back(&event);
  if (epochs.empty()) return "";
  std::vector<HtmlTable::Column> columns = {{"epoch", true}};
  std::vector<std::pair<std::string, std::string>> shown;
  for (const char* part : {"", "validation", "test"})
    for (const char* figure : {"loss", "accuracy", "rmse", "r2"}) {
      const bool there = std::ranges::any_of(epochs, [&](const Json* event) {
        return std::isfinite(*part ? number_in(*event, {part, figure}) : number_in(*event, {figure}));
      });
      if (!there) continue;
      shown.emplace_back(part, figure);
      columns.push_back({(*part ? std::string(part) : "train") + " " + figure, true});
    }
  columns.push_back({"seconds", true});
  HtmlTable table(epochs.size() > kMostCurvesRows ? "The last " + std::to_string(kMostCurvesRows) + " of " +
                                                        std::to_string(epochs.size() + run.epochs_left_out) + " epochs"
                                                  : "Figures of each epoch",
                  columns);
  for (size_t i = epochs.size() > kMostCurvesRows ? epochs.size() - kMostCurvesRows : 0; i < epochs.size(); ++i) {
    std::vector<HtmlTable::Cell> cells = {grouped_number(number_in(*epochs[i], {"epoch"}))};
    for (const auto& [part, figure] : shown)
      cells.push_back(figure_text(figure, part.empty() ? number_in(*epochs[i], {figure}) : number_in(*epochs[i], {part, figure})));
    cells.push_back(plain_number(number_in(*epochs[i], {"seconds"})));
    table.row(cells);
  }
  return "<details><summary>Figures of each epoch as a table</summary>\n" + table.html() + "</details>\n";
}

SectionText make_curves(const RunFiles& run) {
  std::string html = chart(run, "loss", "Loss") + chart(run, "accuracy", "Accuracy");
  const bool many = std::ranges::count_if(run.events, [](const Json& event) { return is_event(event, "epoch"); }) > 1;
  for (const std::string& name : many ? other_figures(run) : std::vector<std::string>()) html += chart(run, name, title_of(name));
  html += chart(run, "learning_rate", "Learning rate") + chart(run, "gradient_norm", "Norm of the gradient");
  if (html.empty()) return {"", "The log has no steps: the run ended before its first report."};
  return {"<div class=\"figures\">\n" + html +
              "</div>\n<p class=\"note\">Training: the mean since the report before. Axes are fitted to most values; a "
              "small triangle at the edge stands for a value beyond.</p>\n" +
              epoch_table(run),
          ""};
}

}  // namespace

extern const Section section_curves;
const Section section_curves{.id = "curves", .title = "Curves", .make = make_curves};

}  // namespace perigee
