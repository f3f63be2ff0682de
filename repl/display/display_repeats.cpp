#include "repl/display/display_repeats.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "src/report/run_files.h"

namespace perigee {
namespace {

constexpr size_t kMostColumns = 4;

bool is_share(const std::string& name) { return name.ends_with("accuracy"); }

std::string cell(const std::string& name, double value) {
  char text[48];
  if (std::isnan(value)) return "-";
  if (is_share(name)) std::snprintf(text, sizeof text, "%.2f %%", 100 * value);
  else std::snprintf(text, sizeof text, "%.5g", value);
  return text;
}

// The figures that the runs are compared by: of the test data, else of the validation data, else of the training.
std::vector<std::string> columns_of(const Json& event) {
  std::vector<std::string> columns;
  for (const char* part : {"test.", "validation.", "train."}) {
    if (!columns.empty()) break;
    for (const auto& [name, spread] : members_in(event, {"figures"}))
      if (name.starts_with(part) && columns.size() < kMostColumns) columns.push_back(name);
  }
  return columns;
}

class Table {
 public:
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const {
    std::vector<size_t> widths;
    for (const auto& row : rows_)
      for (size_t c = 0; c < row.size(); ++c) {
        if (widths.size() <= c) widths.push_back(0);
        widths[c] = std::max(widths[c], row[c].size());
      }
    std::string text;
    for (const auto& row : rows_) {
      for (size_t c = 0; c < row.size(); ++c) {
        const std::string space(widths[c] - row[c].size(), ' ');
        text += c == 0 ? row[c] + space : "  " + space + row[c];
      }
      text += "\n";
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string table_of(const Json& summary) {
  const std::vector<std::string> columns = columns_of(summary);
  if (columns.empty()) return "";
  Table table;
  std::vector<std::string> head = {""};
  head.insert(head.end(), columns.begin(), columns.end());
  table.add(std::move(head));
  for (const char* of : {"mean", "deviation"}) {
    std::vector<std::string> row = {of};
    for (const std::string& name : columns) row.push_back(cell(name, number_in(summary, {"figures", name, of})));
    table.add(std::move(row));
  }
  return table.text();
}

std::string summary_text(const Json& summary) {
  std::string text = table_of(summary);
  std::string missing;
  for (const Json& name : list_in(summary, {"missing"}))
    if (name.is_string()) missing += (missing.empty() ? "" : ", ") + name.as_string();
  if (!missing.empty()) text += "not finished: " + missing + "\n";
  text += "runs are in " + text_in(summary, {"folder"});
  if (const std::string command = text_in(summary, {"resume"}); !command.empty()) text += "\ncontinue with: " + command;
  return text;
}

}  // namespace

std::string repeats_text(const Json& event) {
  if (is_event(event, "summary")) return summary_text(event);
  if (!is_event(event, "repeat_end")) return "";
  char text[160];
  std::snprintf(text, sizeof text, "%.80s, run %.0f of %.0f:", text_in(event, {"run"}).c_str(), number_in(event, {"number"}),
                number_in(event, {"of"}));
  std::string line = text;
  for (const std::string& name : columns_of(event))
    line += (line.ends_with(':') ? " " : ", ") + name + " " + cell(name, number_in(event, {"figures", name}));
  return line;
}

}  // namespace perigee
