// Remarks on a table: values that are no known categories, rows that were left out.

#include "src/core/json.h"
#include "src/data/table/examples/table_source.h"

namespace perigee {
namespace {

int64_t count_in(const Json& remarks, const char* key) {
  const Json* count = remarks.find(key);
  return count != nullptr && count->is_int() ? count->as_int() : 0;
}

}  // namespace

std::vector<BadRow> bad_rows(const Json& remarks) {
  std::vector<BadRow> rows;
  const Json* list = remarks.is_object() ? remarks.find("bad") : nullptr;
  for (const Json& each : list ? list->as_array() : Json::Array{})
    rows.push_back({.row = count_in(each, "row"), .before = count_in(each, "before"), .message = each.find("message")->as_string()});
  return rows;
}

void add_remarks(Json& sum, const Json& remarks) {
  if (remarks.is_null()) return;
  if (sum.is_null()) sum = Json(Json::Object{{"rows", 0}, {"skipped", 0}, {"without_target", 0}, {"unknown", Json::object()}});
  for (const char* key : {"rows", "skipped", "without_target"}) sum.set(key, count_in(sum, key) + count_in(remarks, key));
  Json& columns = *sum.find("unknown");
  const Json* more = remarks.find("unknown");
  for (const auto& [name, values] : more != nullptr && more->is_object() ? more->as_object() : Json::Object{}) {
    if (Json* known = columns.find(name)) known->set("count", count_in(*known, "count") + count_in(values, "count"));
    else columns.set(name, values);
  }
}

std::string line_of_targets(const Json& remarks) {
  const int64_t count = remarks.is_null() ? 0 : count_in(remarks, "without_target");
  if (count == 0) return "";
  return std::to_string(count) + " of " + std::to_string(count_in(remarks, "rows")) + " rows have no target and are left out";
}

std::vector<std::string> remark_lines(const Json& remarks) {
  std::vector<std::string> lines;
  if (remarks.is_null()) return lines;
  if (const Json* columns = remarks.find("unknown"); columns != nullptr && columns->is_object())
    for (const auto& [name, values] : columns->as_object()) {
      const int64_t count = count_in(values, "count");
      const Json* example = values.find("example");
      lines.push_back("column '" + name + "': " + std::to_string(count) + (count == 1 ? " value is" : " values are") +
                      " not among the categories of the training data" +
                      (example != nullptr && example->is_string() ? ", such as '" + example->as_string() + "'" : "") +
                      "; such a value counts as none of them");
    }
  if (std::string line = line_of_targets(remarks); !line.empty()) lines.push_back(std::move(line));
  if (const int64_t skipped = count_in(remarks, "skipped") - count_in(remarks, "without_target"); skipped > 0)
    lines.push_back(std::to_string(skipped) + " of " + std::to_string(count_in(remarks, "rows")) +
                    " rows have missing values and are left out (missing = \"skip\")");
  return lines;
}

}  // namespace perigee
