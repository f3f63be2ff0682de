// Which columns of a table the source "csv" takes: as its options choose them, or as the training part had them.
#include <algorithm>
#include <map>

#include "src/core/error.h"
#include "src/data/table/examples/table_reader.h"
#include "src/io/csv.h"

namespace perigee {

std::string TableReader::quoted_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name.substr(0, 60) + "'";
  return text;
}

// A file that is cut at the wrong character has one column, and is no header where that one is a line of names.
std::string TableReader::delimiter_of_line() const {
  const std::string first = table_.named ? table_.names[0] : std::string(table_.cell(0, 0));
  return table_.of_records || table_.columns > 1 ? "" : delimiter_hint(first, config_.string("delimiter", ",")[0]);
}

void TableReader::no_such_column(const char* key, const std::string& name) const {
  bool in_first_line = false;
  for (int64_t c = 0; c < table_.columns && !table_.named; ++c) in_first_line |= table_.cell(0, c) == name;
  if (in_first_line && table_.rows == 1)
    config_.fail(key, "names a column of a table that has no rows", table_.where + " with a header line alone",
                 "at least one row below it");
  std::string hint = delimiter_of_line();
  if (hint.empty()) hint = in_first_line ? "the first line has this name: header = true" : nearest_hint(name, table_.names);
  if (hint.empty() && !table_.named) hint = "write a first line of names into the file, or give a number: " + std::string(key) + " = -1";
  config_.fail(key, "names a column that the table does not have",
               "'" + name + "' of " + table_.where + (table_.named ? "" : ", which has no header line"), "one of " + table_.names_text(16),
               hint);
}

int64_t TableReader::column_of(const Json& json, const char* key) const {
  if (json.is_string()) {
    const int64_t found = table_.find(json.as_string());
    if (found < 0) no_such_column(key, json.as_string());
    return found;
  }
  const auto index = json.is_int() ? json.as_int() : INT64_MIN;
  const int64_t column = index < 0 && index != INT64_MIN ? index + table_.columns : index;
  if (column < 0 || column >= table_.columns)
    config_.fail(key, "is no column", json.dump(),
                 "a name, or a number from " + std::to_string(-table_.columns) + " to " + std::to_string(table_.columns - 1));
  return column;
}

std::vector<int64_t> TableReader::columns_of(const char* key) const {
  const Json* list = config_.raw(key);
  std::vector<int64_t> columns;
  if (list == nullptr || list->is_null()) return columns;
  if (!list->is_array()) return {column_of(*list, key)};
  for (const Json& item : list->as_array()) columns.push_back(column_of(item, key));
  return columns;
}

bool TableReader::without_target() const {
  const Json* target = config_.raw("target");
  return use_ == TableUse::records || (target != nullptr && target->is_bool() && !target->as_bool());
}

void TableReader::choose_columns() {
  const Json* target = config_.raw("target");
  if (!without_target()) target_.column = target == nullptr || target->is_null() ? table_.columns - 1 : column_of(*target, "target");
  if (const Json* weight = config_.raw("weight"); weight != nullptr && !weight->is_null() && !without_target()) {
    weight_.column = column_of(*weight, "weight");
    weight_.name = table_.names[static_cast<size_t>(weight_.column)];
    if (weight_.column == target_.column)
      config_.fail("weight", "is the target", "'" + weight_.name + "'", "another column", "name the target: target = \"...\"");
  }
  std::vector<int64_t> chosen = columns_of("features");
  const std::vector<int64_t> dropped = columns_of("drop");
  if (!config_.has("features"))
    for (int64_t c = 0; c < table_.columns; ++c)
      if (c != target_.column && c != weight_.column && std::find(dropped.begin(), dropped.end(), c) == dropped.end()) chosen.push_back(c);
  for (const int64_t c : chosen) features_.push_back({.column = c, .name = table_.names[static_cast<size_t>(c)]});
  if (target_.column >= 0) target_.name = table_.names[static_cast<size_t>(target_.column)];
  if (features_.empty())
    config_.fail("features", "leaves no column to learn from", table_.where + " with the columns " + table_.names_text(), "",
                 delimiter_of_line());
  categorical_ = columns_of("categorical");
  dates_ = columns_of("dates");
  task_ = config_.choice("task", "auto", {"auto", "classify", "regress"});
}

TableSourceMeaning TableReader::meaning_of(const Config& config) {
  TableSourceMeaning meaning{.name = config.string("name")};
  meaning.category = config.has("categories");
  meaning.categories = config.string_list("categories");
  meaning.mean = config.number("mean", 0);
  if (config.has("date")) meaning.date = config.string("date");
  return meaning;
}

void TableReader::take_fitted(const Config& config) {
  const Json* list = config.raw("columns");
  if (list == nullptr || !list->is_array() || list->as_array().empty()) config.fail("columns", "must be a list of columns");
  for (const Json& each : list->as_array()) features_.push_back(meaning_of(config.element(each, "columns")));
  if (!without_target() && config.has("target")) target_ = meaning_of(config.object("target"));
  if (!without_target() && config.has("weight")) weight_.name = config.string("weight");
  // A table without names that has as many columns as the network reads has just these.
  if (!table_.named && use_ == TableUse::records && table_.columns == static_cast<int64_t>(features_.size()) && numbered()) {
    for (size_t f = 0; f < features_.size(); ++f) features_[f].column = static_cast<int64_t>(f);
    return;
  }
  find_columns();
}

// The training part did not name its columns either: they are called c0, c1, ...
bool TableReader::numbered() const {
  return std::all_of(features_.begin(), features_.end(), [](const TableSourceMeaning& meaning) {
    return meaning.name.size() > 1 && meaning.name[0] == 'c' && meaning.name.find_first_not_of("0123456789", 1) == std::string::npos;
  });
}

// Each by its name, in any order; of equal names the first, the second, ...
void TableReader::find_columns() {
  std::map<std::string, int64_t, std::less<>> from;
  std::vector<std::string> lacking;
  const auto find = [&](TableSourceMeaning& meaning) {
    int64_t& next = from[meaning.name];
    while (next < table_.columns && table_.names[static_cast<size_t>(next)] != meaning.name) ++next;
    if (next < table_.columns) meaning.column = next++;
    else lacking.push_back(meaning.name);
  };
  for (TableSourceMeaning& feature : features_) find(feature);
  if (!target_.name.empty()) find(target_);
  if (!weight_.name.empty()) find(weight_);
  if (lacking.empty()) return;
  throw Error(ErrorKind::data,
              {.where = table_.where,
               .what = lacking.size() == 1 ? "the column " + quoted_list(lacking) + " is missing"
                                           : std::to_string(lacking.size()) + " columns are missing: " + quoted_list(lacking),
               .got = (table_.named ? "the columns " : "no header line, and the columns ") + table_.names_text(),
               .hint = hint_for(lacking)});
}

std::string TableReader::hint_for(const std::vector<std::string>& lacking) const {
  if (table_.columns == 1 && !table_.of_records)
    for (const char separator : {';', '\t', '|'})
      if (table_.names[0].find(separator) != std::string::npos || table_.cell(0, 0).find(separator) != std::string_view::npos)
        return std::string("its fields seem to be separated by '") + (separator == '\t' ? "\\t" : std::string(1, separator)) +
               "': write them with '" + config_.string("delimiter", ",") + "', as in the training data";
  const std::string nearest = nearest_hint(lacking[0], table_.names);
  if (!nearest.empty()) return "for '" + lacking[0] + "': " + nearest;
  return table_.named ? "" : "the first line names the columns";
}

}  // namespace perigee
