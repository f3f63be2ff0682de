// Answers of a regression beside the truth.
#include <algorithm>
#include <cmath>

#include "src/report/figure.h"
#include "src/report/html.h"
#include "src/report/section.h"

namespace perigee {
namespace {

constexpr size_t kMostRegressionColumns = 4, kMostRegressionRows = 64;

double number_at(const Json& list, size_t i) {
  return list.is_array() && i < list.as_array().size() && list.as_array()[i].is_number() ? list.as_array()[i].as_number() : NAN;
}

Figure scatter(const Json::Array& sample, size_t column, const std::string& name) {
  const std::string title = name.empty() ? "Predicted over actual" : "Predicted over actual: " + name;
  Figure figure{.title = title,
                .description = "",
                .x_label = "actual",
                .y_label = "predicted",
                .series = {{"an example", {}, false}},
                .x_limits = {},
                .y_limits = {},
                .square = true,
                .diagonal = "exact"};
  double low = INFINITY, high = -INFINITY;
  std::vector<double> all;
  for (const Json& each : sample) {
    const Json *actual = each.find("actual"), *predicted = each.find("predicted");
    if (!actual || !predicted) continue;
    const double x = number_at(*actual, column), y = number_at(*predicted, column);
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    figure.series[0].points.emplace_back(x, y);
    low = std::min(low, x), high = std::max(high, x);
    all.push_back(y);
  }
  // Both axes have the limits of what is true, with room; answers far beyond become triangles at the edge.
  if (low <= high) {
    std::sort(all.begin(), all.end());
    const size_t trim = all.size() / 50;
    low = std::min(low, all[trim]), high = std::max(high, all[all.size() - 1 - trim]);
    const double room = high > low ? .04 * (high - low) : .5;
    figure.x_limits = figure.y_limits = {{low - room, high + room}};
  }
  figure.description = std::to_string(figure.series[0].points.size()) + " examples; exact answers lie on the diagonal";
  return figure;
}

std::string column_table(const RunFiles& run) {
  const Json* inner = member(run.evaluated(), {"regression"});
  const auto& columns = list_in(inner ? *inner : run.evaluated(), {"columns"});
  HtmlTable table("Each column of the target", {{"column"}, {"RMSE", true}, {"MAE", true}, {"R\u00b2", true}, {"correlation", true}});
  for (size_t i = 0; i < std::min(columns.size(), kMostRegressionRows); ++i)
    table.row({std::to_string(i), plain_number(number_in(columns[i], {"rmse"})), plain_number(number_in(columns[i], {"mae"})),
               plain_number(number_in(columns[i], {"r2"})), plain_number(number_in(columns[i], {"correlation"}))});
  return table.empty() ? "" : table.html() + left_out_note(columns.size(), kMostRegressionRows, "columns", "report.json");
}

SectionText make_regression(const RunFiles& run) {
  const auto& sample = list_in(run.details, {"evaluation", "scatter"});
  const Json* inner = member(run.evaluated(), {"regression"});
  const Json& figures = inner ? *inner : run.evaluated();
  if (sample.empty() && !member(figures, {"rmse"}))
    return {"", no_evaluation(run, "The network foretells classes, or something other than the numbers of its target.")};
  std::string html = facts_html({{"RMSE", plain_number(number_in(figures, {"rmse"}))},
                                 {"MAE", plain_number(number_in(figures, {"mae"}))},
                                 {"R\u00b2", plain_number(number_in(figures, {"r2"}))},
                                 {"correlation", plain_number(number_in(figures, {"correlation"}))}});
  if (sample.empty())
    return {
        html + "<p class=\"note\">" + no_details(run, "This run kept no sample of its answers for a plot.") + "</p>\n" + column_table(run),
        ""};
  const Json* first = sample[0].find("actual");
  const size_t columns = std::min(kMostRegressionColumns, first && first->is_array() ? first->as_array().size() : 0);
  html += "<div class=\"squares\">\n";
  for (size_t i = 0; i < columns; ++i) html += figure_html(scatter(sample, i, columns > 1 ? "column " + std::to_string(i) : ""));
  const double all = number_in(run.evaluated(), {"examples"});
  html +=
      "</div>\n<p class=\"note\">" + grouped_number(static_cast<double>(sample.size())) + " of " + grouped_number(all) + " examples.</p>\n";
  return {html + column_table(run), ""};
}

}  // namespace

extern const Section section_regression;
const Section section_regression{.id = "regression", .title = "Predicted and actual", .make = make_regression};

}  // namespace perigee
