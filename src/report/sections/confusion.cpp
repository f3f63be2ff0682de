// The confusion matrix as a table whose cells are shaded by their share of the row, precision and recall of each class, and which classes are
// taken for which.
#include <algorithm>
#include <cmath>

#include "src/io/plot/short_names.h"
#include "src/report/html.h"
#include "src/report/section.h"

namespace perigee {
namespace {

constexpr size_t kConfusionLargest = 40, kMostPairs = 8, kMostClasses = 200, kLongestName = 32;

struct Matrix {
  std::vector<std::vector<double>> counts;  // [actual][predicted]
  std::vector<std::string> names;
};

const Json& classification_of(const RunFiles& run) {
  const Json* inner = member(run.evaluated(), {"classification"});
  return inner && inner->is_object() ? *inner : run.evaluated();
}

Matrix matrix_of(const RunFiles& run) {
  Matrix matrix;
  const auto& rows = list_in(classification_of(run), {"confusion"});
  for (const Json& row : rows) {
    if (!row.is_array() || row.as_array().size() != rows.size()) return {};
    matrix.counts.emplace_back();
    for (const Json& count : row.as_array()) matrix.counts.back().push_back(count.is_number() ? count.as_number() : 0);
  }
  matrix.names = run.class_names();
  for (size_t i = matrix.names.size(); i < rows.size(); ++i) matrix.names.push_back(std::to_string(i));
  matrix.names = short_names(matrix.names, kLongestName, "\u2026");
  return matrix;
}

std::string matrix_table(const Matrix& matrix) {
  std::vector<HtmlTable::Column> columns = {{"actual \\ predicted"}};
  for (size_t i = 0; i < matrix.counts.size(); ++i) columns.push_back({escaped(matrix.names[i]), true});
  HtmlTable table(
      "Examples by actual class (rows) and predicted class (columns); stronger shade: a greater share of the row; framed: right", columns,
      "matrix");
  for (size_t i = 0; i < matrix.counts.size(); ++i) {
    double sum = 0;
    for (const double count : matrix.counts[i]) sum += count;
    std::vector<HtmlTable::Cell> cells = {escaped(matrix.names[i])};
    for (size_t j = 0; j < matrix.counts.size(); ++j) {
      const double count = matrix.counts[i][j], share = sum > 0 ? count / sum : 0;
      const int shade = share <= 0 ? 0 : std::clamp(1 + static_cast<int>(std::sqrt(share) * 4.5), 1, 5);  // small shares are seen too
      cells.emplace_back(grouped_number(count), (shade > 0 ? "h" + std::to_string(shade) : "zero") + (i == j ? " right" : ""));
    }
    table.row(cells);
  }
  return table.html();
}

std::string pairs(const Matrix& matrix) {
  struct Pair {
    double count = 0;
    size_t actual = 0, predicted = 0;
  };
  std::vector<Pair> wrong;
  for (size_t i = 0; i < matrix.counts.size(); ++i)
    for (size_t j = 0; j < matrix.counts.size(); ++j)
      if (i != j && matrix.counts[i][j] > 0) wrong.push_back({matrix.counts[i][j], i, j});
  std::stable_sort(wrong.begin(), wrong.end(), [](const Pair& a, const Pair& b) { return a.count > b.count; });
  if (wrong.size() > kMostPairs) wrong.resize(kMostPairs);
  HtmlTable table("Most frequent mistakes", {{"actual"}, {"predicted"}, {"examples", true}});
  for (const Pair& pair : wrong)
    table.row({escaped(matrix.names[pair.actual]), escaped(matrix.names[pair.predicted]), grouped_number(pair.count)});
  return table.empty() ? "<p class=\"note\">No example was misclassified.</p>\n" : table.html();
}

std::string class_table(const RunFiles& run) {
  const auto& rows = list_in(classification_of(run), {"classes"});
  if (rows.empty() || !rows[0].find("examples")) return "";
  std::string f_name = "f1";
  for (const auto& [key, value] : rows[0].is_object() ? rows[0].as_object() : Json::Object{})
    if (key.starts_with("f")) f_name = key;
  HtmlTable table("Each class against the rest",
                  {{"class"}, {"precision", true}, {"recall", true}, {escaped(f_name), true}, {"examples", true}});
  std::vector<std::string> names;
  for (const Json& row : rows) names.push_back(text_in(row, {"name"}));
  names = short_names(names, kLongestName, "\u2026");
  for (size_t i = 0; i < std::min(rows.size(), kMostClasses); ++i)
    table.row({escaped(names[i]), plain_number(number_in(rows[i], {"precision"})), plain_number(number_in(rows[i], {"recall"})),
               plain_number(number_in(rows[i], {f_name})), grouped_number(number_in(rows[i], {"examples"}))});
  return table.html() + left_out_note(rows.size(), kMostClasses, "classes", "report.json");
}

SectionText make_confusion(const RunFiles& run) {
  const Matrix matrix = matrix_of(run);
  const std::string classes = class_table(run);
  if (matrix.counts.empty() && classes.empty())
    return {"", no_evaluation(run, "The network does not choose among classes, or the job's metrics leave out \"classification\".")};
  std::string html;
  if (matrix.counts.size() > kConfusionLargest)
    html += "<p class=\"note\">A matrix of " + std::to_string(matrix.counts.size()) +
            " classes is too large to read here; report.json has it.</p>\n";
  else if (!matrix.counts.empty()) html += matrix_table(matrix);
  html += "<div class=\"squares\"><div>\n<h3>Classes</h3>\n" + classes + "</div>\n";
  if (!matrix.counts.empty()) html += "<div>\n<h3>Mistakes</h3>\n" + pairs(matrix) + "</div>\n";
  return {html + "</div>\n", ""};
}

}  // namespace

extern const Section section_confusion;
const Section section_confusion{.id = "confusion", .title = "Confusion matrix", .make = make_confusion};

}  // namespace perigee
