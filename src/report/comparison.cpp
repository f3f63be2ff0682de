// Several runs on one page: figures in a table, curves over each other, and in what jobs and machines differ.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "src/report/curves.h"
#include "src/report/figure.h"
#include "src/report/html.h"
#include "src/report/page.h"

namespace perigee {
namespace {

constexpr size_t kMostDifferences = 400;

std::vector<HtmlTable::Column> columns_of(const std::string& first, std::span<const RunFiles> runs, const std::vector<std::string>& names,
                                          bool numbers) {
  std::vector<HtmlTable::Column> columns = {{escaped(first)}};
  for (size_t i = 0; i < runs.size(); ++i) columns.push_back({shortened(names[i], 48), numbers});
  return columns;
}

// The folders' names; where two have the same, as they were named.
std::vector<std::string> names_of(std::span<const RunFiles> runs) {
  std::map<std::string, int> seen;
  for (const RunFiles& run : runs) ++seen[run.name];
  std::vector<std::string> names;
  for (const RunFiles& run : runs) names.push_back(seen[run.name] > 1 ? run.folder : run.name);
  return names;
}

// Whether more is better; nothing where neither is.
std::optional<bool> more_is_better(const std::string& figure) {
  const std::string name = figure.substr(figure.rfind('.') + 1);
  for (const char* good :
       {"accuracy", "precision", "recall", "f1", "mcc", "auc", "average_precision", "r2", "correlation", "examples a second"})
    if (name.ends_with(good)) return true;
  for (const char* bad : {"loss", "mse", "rmse", "mae", "ece", "mce", "brier", "negative_log_likelihood", "relative_squared_error"})
    if (name.ends_with(bad)) return false;
  return std::nullopt;
}

void figure_row(HtmlTable& table, const std::string& name, const std::vector<double>& values,
                const std::function<std::string(double)>& text) {
  if (std::ranges::none_of(values, [](double value) { return std::isfinite(value); })) return;
  const std::optional<bool> more = more_is_better(name);
  double best = NAN;
  for (const double value : values)
    if (more && std::isfinite(value) && (std::isnan(best) || (*more ? value > best : value < best))) best = value;
  const bool tells = std::ranges::any_of(values, [&](double value) { return std::isfinite(value) && value != best; });
  std::vector<HtmlTable::Cell> cells = {escaped(name)};
  for (const double value : values) {
    const bool is_best = tells && value == best;
    cells.emplace_back((is_best ? "<span aria-hidden=\"true\">\u2605 </span><span class=\"hidden\">best: </span>" : "") + text(value),
                       is_best ? "best" : "");
  }
  table.row(cells);
}

// Each number of the reports, in the order of the first run that has it: "loss", "roc.auc".
std::vector<std::string> figures_in(std::span<const RunFiles> runs) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name, const Json& value) {
    if (value.is_number() && std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const RunFiles& run : runs)
    for (const auto& [name, value] : members_in(run.evaluated(), {})) {
      add(name, value);
      if (value.is_object())
        for (const auto& [inner, number] : value.as_object()) add(name + "." + inner, number);
    }
  return names;
}

double figure_at(const RunFiles& run, const std::string& path) {
  const size_t dot = path.find('.');
  return dot == std::string::npos ? number_in(run.evaluated(), {path})
                                  : number_in(run.evaluated(), {path.substr(0, dot), path.substr(dot + 1)});
}

std::string comparison_figures(std::span<const RunFiles> runs, const std::vector<std::string>& names) {
  HtmlTable table("Figures of the last evaluations, and what the runs cost; a star marks the best",
                  columns_of("figure", runs, names, true));
  std::vector<HtmlTable::Cell> states = {"outcome"};
  for (const RunFiles& run : runs) states.emplace_back(outcome_badge(run));
  table.row(states);
  const auto values = [&](const std::function<double(const RunFiles&)>& of) {
    std::vector<double> all;
    for (const RunFiles& run : runs) all.push_back(of(run));
    return all;
  };
  for (const std::string& name : figures_in(runs))
    figure_row(table, name, values([&](const RunFiles& run) { return figure_at(run, name); }),
               [&](double value) { return figure_text(name, value); });
  const auto event = [](const RunFiles& run, const char* kind, const char* key) {
    const Json* found = run.last(kind);
    return found ? number_in(*found, {key}) : NAN;
  };
  figure_row(table, "epochs", values([&](const RunFiles& run) { return event(run, "end", "epochs"); }), plain_number);
  figure_row(table, "steps", values([&](const RunFiles& run) { return event(run, "end", "steps"); }), grouped_number);
  figure_row(table, "training time", values([&](const RunFiles& run) { return event(run, "end", "seconds"); }), seconds_text);
  figure_row(table, "examples a second", values([&](const RunFiles& run) { return event(run, "end", "examples_per_s"); }), grouped_number);
  figure_row(table, "parameters", values([&](const RunFiles& run) { return event(run, "start", "parameters"); }), grouped_number);
  return table.html();
}

std::string curves(std::span<const RunFiles> runs, const std::vector<std::string>& names) {
  std::string html;
  for (const char* figure : {"loss", "accuracy", "rmse", "r2"})
    for (const char* part : {"", "validation", "test"}) {
      Figure chart{.title = std::string(*part ? part : "training") + " " + figure,
                   .description = "",
                   .x_label = "epoch",
                   .y_label = figure,
                   .series = {},
                   .scale = AxisScale::fitted,
                   .x_limits = {},
                   .y_limits = {}};
      chart.title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(chart.title[0])));
      bool any = false;
      for (size_t i = 0; i < runs.size(); ++i) {
        Series series = curve_of(runs[i], part, figure);
        series.name = names[i];  // a run without points keeps its place, so that a run looks the same in all figures
        any |= !series.points.empty();
        chart.series.push_back(std::move(series));
      }
      if (!any) continue;
      chart.description = described(chart.series);
      html += figure_html(chart);
    }
  return html.empty() ? "<p>None of the logs has a step.</p>\n" : "<div class=\"figures\">\n" + html + "</div>\n";
}

using Leaves = std::vector<std::pair<std::string, std::string>>;

void add_leaves(const Json& value, const std::string& path, Leaves* leaves) {
  if (value.is_object() && !value.as_object().empty()) {
    for (const auto& [key, inner] : value.as_object()) add_leaves(inner, path.empty() ? key : path + "." + key, leaves);
  } else if (value.is_array() &&
             std::ranges::any_of(value.as_array(), [](const Json& each) { return each.is_object() || each.is_array(); })) {
    for (size_t i = 0; i < value.as_array().size(); ++i) add_leaves(value.as_array()[i], path + "[" + std::to_string(i + 1) + "]", leaves);
  } else {
    leaves->emplace_back(path, value.is_string() ? value.as_string() : value.dump());
  }
}

// Rows of what differs, in the order of the first value that has it.
std::string differences(std::span<const RunFiles> runs, const std::vector<std::string>& names, const std::string& caption,
                        const std::function<const Json*(const RunFiles&)>& of) {
  std::vector<std::string> paths;
  std::vector<std::map<std::string, std::string>> values;
  std::set<std::string> seen;
  for (const RunFiles& run : runs) {
    Leaves leaves;
    if (const Json* json = of(run)) add_leaves(*json, "", &leaves);
    values.emplace_back(leaves.begin(), leaves.end());
    for (const auto& [path, value] : leaves)
      if (seen.insert(path).second) paths.push_back(path);
  }
  HtmlTable table(caption, columns_of("setting", runs, names, false));
  size_t rows = 0;
  for (const std::string& path : paths) {
    const auto in = [&](size_t i) { return values[i].contains(path) ? values[i].at(path) : std::string(); };
    bool same = true;
    for (size_t i = 1; i < runs.size(); ++i) same &= values[i].contains(path) == values[0].contains(path) && in(i) == in(0);
    if (same || ++rows > kMostDifferences) continue;
    std::vector<HtmlTable::Cell> cells = {"<code>" + shortened(path, 80) + "</code>"};
    for (size_t i = 0; i < runs.size(); ++i)
      cells.emplace_back(values[i].contains(path) ? shortened(in(i), 120) : "<span class=\"zero\">not set</span>");
    table.row(cells);
  }
  return table.empty() ? "" : table.html();
}

PageSection comparison_section(const std::string& id, const std::string& title, const std::string& html) {
  return {id, title,
          "<section id=\"" + id + "\" aria-labelledby=\"" + id + "-title\">\n<h2 id=\"" + id + "-title\">" + title + "</h2>\n" + html +
              "</section>\n"};
}

}  // namespace

std::string comparison_page(std::span<const RunFiles> runs) {
  const std::vector<std::string> names = names_of(runs);
  std::string job = differences(runs, names, "Settings in which the jobs differ", [](const RunFiles& run) { return &run.job; });
  std::string environment =
      differences(runs, names, "In what machines and programs differ", [](const RunFiles& run) { return run.details.find("environment"); });
  if (job.empty()) job = "<p>All jobs are the same.</p>\n";
  if (environment.empty()) environment = "<p>No differences are known.</p>\n";
  const std::vector<PageSection> sections = {comparison_section("figures", "Figures", comparison_figures(runs, names)),
                                             comparison_section("curves", "Curves", curves(runs, names)),
                                             comparison_section("job", "Differences of the jobs", job),
                                             comparison_section("environment", "Differences of the machines", environment)};
  std::string header = "<p class=\"kind\">Comparison</p>\n<h1>" + std::to_string(runs.size()) + " runs side by side</h1>\n<p>";
  for (size_t i = 0; i < names.size(); ++i) header += (i > 0 ? " \u00b7 " : "") + ("<code>" + escaped(names[i]) + "</code>");
  return page_html(std::to_string(runs.size()) + " runs side by side", header + "</p>\n", sections);
}

}  // namespace perigee
