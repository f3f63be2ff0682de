#include "src/report/table_page.h"

#include <cmath>

#include "src/data/table/time_text.h"
#include "src/report/figure.h"
#include "src/report/html.h"
#include "src/report/page.h"

namespace perigee {
namespace {

constexpr size_t kMostTablePageFigures = 100, kMostTablePageRows = 2000;

double table_page_number_in(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value != nullptr && value->is_number() ? value->as_number() : std::nan("");
}

std::string value_text(double value, bool time) {
  if (!time || !std::isfinite(value)) return plain_number(value);
  std::string text;
  tables::append_time(static_cast<int64_t>(value), "", text);
  return text;
}

std::string overview(const Json& columns) {
  HtmlTable table("Columns", {{"Column"},
                              {"Type"},
                              {"Missing", true},
                              {"Distinct", true},
                              {"Min", true},
                              {"Mean", true},
                              {"Median", true},
                              {"Max", true},
                              {"Standard deviation", true}});
  size_t rows = 0;
  for (const Json& column : columns.as_array()) {
    if (++rows > kMostTablePageRows) break;
    const std::string type = column.find("type")->as_string();
    const bool time = type == "time";
    const Json* quantiles = column.find("quantiles");
    table.row({"<a href=\"#column-" + std::to_string(rows) + "\">" + shortened(column.find("name")->as_string(), 60) + "</a>", type,
               grouped_number(table_page_number_in(column, "missing")), grouped_number(table_page_number_in(column, "distinct")),
               value_text(table_page_number_in(column, "min"), time), value_text(table_page_number_in(column, "mean"), time),
               value_text(quantiles != nullptr ? table_page_number_in(*quantiles, "0.5") : std::nan(""), time),
               value_text(table_page_number_in(column, "max"), time),
               time ? plain_number(table_page_number_in(column, "stdev") / 86'400'000) + " d"
                    : plain_number(table_page_number_in(column, "stdev"))});
  }
  return table.html();
}

// Steps of a histogram, as a line.
std::string histogram(const Json& bins, const std::string& name, const std::string& label) {
  Series series{.name = "rows"};
  double most = 0;
  for (const Json& bin : bins.as_array()) {
    const double from = bin.as_array()[0].as_number(), to = bin.as_array()[1].as_number(), count = bin.as_array()[2].as_number();
    if (series.points.empty()) series.points.emplace_back(from, 0.0);
    series.points.emplace_back(from, count);
    series.points.emplace_back(to, count);
    most = std::max(most, count);
  }
  if (!series.points.empty()) series.points.emplace_back(series.points.back().first, 0.0);
  Figure figure{.title = name,
                .description = "Histogram of " + std::to_string(bins.as_array().size()) + " ranges, the fullest with " +
                               grouped_number(most) + " rows",
                .x_label = label,
                .y_label = "rows",
                .series = {series}};
  figure.y_limits = {0, std::max(1.0, most * 1.05)};
  return figure_html(figure);
}

std::string details(const Json& column, size_t number, bool drawn) {
  const std::string name = column.find("name")->as_string(), type = column.find("type")->as_string();
  const bool time = type == "time";
  const Json& numbers = column.find("length") != nullptr ? *column.find("length") : column;
  std::string html = "<h3 id=\"column-" + std::to_string(number) + "\">" + shortened(name, 100) + "</h3>\n";
  std::vector<std::pair<std::string, std::string>> facts = {
      {"Type", type},
      {"Rows", grouped_number(table_page_number_in(column, "rows"))},
      {"Missing", grouped_number(table_page_number_in(column, "missing"))},
      {"Distinct", "about " + grouped_number(table_page_number_in(column, "distinct"))}};
  if (const Json* quantiles = numbers.find("quantiles"))
    for (const auto& [share, value] : quantiles->as_object())
      facts.emplace_back(std::string(&numbers == &column ? "Quantile " : "Length, quantile ") + share,
                         value_text(value.is_number() ? value.as_number() : std::nan(""), time));
  for (const auto& [key, label] : std::vector<std::pair<const char*, const char*>>{
           {"zeros", "Zeros"}, {"negative", "Negative"}, {"nan", "NaN"}, {"infinite", "Infinite"}, {"skewness", "Skewness"}})
    if (column.find(key) != nullptr) facts.emplace_back(label, plain_number(table_page_number_in(column, key)));
  html += facts_html(facts);
  if (const Json* bins = numbers.find("histogram"); drawn && bins != nullptr && bins->as_array().size() > 1 && type != "boolean")
    html += histogram(*bins, shortened(name, 60),
                      time                  ? "milliseconds since 1970"
                      : &numbers == &column ? name.substr(0, 60)
                                            : "length in bytes");
  const Json* top = column.find("top");
  if (top == nullptr) return html;
  HtmlTable table(column.find("top_is_approximate") != nullptr ? "Frequent values, counts about" : "Frequent values",
                  {{"Value"}, {"Rows", true}, {"Share", true}});
  for (const Json& each : top->as_array())
    table.row({shortened(each.as_array()[0].as_string(), 80), grouped_number(each.as_array()[1].as_number()),
               percent(each.as_array()[1].as_number() / std::max(1.0, table_page_number_in(column, "rows")))});
  return html + table.html();
}

std::string correlations(const Json& json) {
  const Json::Array& names = json.find("columns")->as_array();
  std::vector<HtmlTable::Column> heads = {{""}};
  for (const Json& name : names) heads.push_back({shortened(name.as_string(), 16), true});
  HtmlTable table("Correlations", std::move(heads));
  for (size_t i = 0; i < names.size(); ++i) {
    std::vector<HtmlTable::Cell> row = {shortened(names[i].as_string(), 32)};
    for (size_t j = 0; j < names.size(); ++j) {
      const Json& r = json.find("values")->as_array()[std::max(i, j)].as_array()[std::min(i, j)];
      char text[16] = "";
      if (r.is_number()) std::snprintf(text, sizeof text, "%.2f", r.as_number());
      row.push_back({r.is_number() && std::abs(r.as_number()) >= 0.5 ? "<strong>" + std::string(text) + "</strong>" : std::string(text)});
    }
    table.row(row);
  }
  return table.html();
}

std::string table_page_section(const std::string& id, const std::string& title, const std::string& html) {
  return "<section id=\"" + id + "\">\n<h2>" + title + "</h2>\n" + html + "</section>\n";
}

}  // namespace

std::string table_page(const Json& analysis) {
  const std::string name = analysis.find("file")->as_string();
  const Json& columns = *analysis.find("columns");
  std::vector<PageSection> sections = {{"columns", "Columns", table_page_section("columns", "Columns", overview(columns))}};
  std::string all;
  for (size_t c = 0; c < columns.as_array().size() && c < kMostTablePageRows; ++c)
    all += details(columns.as_array()[c], c + 1, c < kMostTablePageFigures);
  if (const Json* matrix = analysis.find("correlations"))
    sections.push_back({"correlations", "Correlations", table_page_section("correlations", "Correlations", correlations(*matrix))});
  sections.push_back({"details", "Each column", table_page_section("details", "Each column", all)});
  const std::string header = "<p class=\"kind\">Table</p>\n<h1>" + shortened(name, 200) + "</h1>\n<p>" +
                             grouped_number(table_page_number_in(analysis, "rows")) + " rows, " +
                             std::to_string(columns.as_array().size()) + " columns</p>\n";
  return page_html(name, header, sections);
}

}  // namespace perigee
