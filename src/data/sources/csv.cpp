// {"type": "csv", "file": "iris.csv", "target": -1}: a table. Numbers become elements of x, words become one-hot groups of x; the target is a
// class (words, or few different integers) or a number. What was inferred is fitted(): another part of the data is read by it.
#include <algorithm>
#include <cmath>
#include <map>

#include "src/data/arrays.h"
#include "src/io/compress.h"
#include "src/io/csv.h"

namespace perigee {
namespace {

constexpr size_t kMaxCategories = 1000;
constexpr size_t kFewIntegers = 50;  // a target with at most so many different integers is a class
constexpr int64_t kMaxElements = int64_t{1} << 34;

// How one column becomes numbers.
struct Meaning {
  int64_t column = 0;
  std::string name;
  bool category = false;
  std::vector<std::string> categories;  // sorted
  double mean = 0;                      // for missing numbers
  int64_t width() const { return category ? static_cast<int64_t>(categories.size()) : 1; }
};

class CsvSource {
 public:
  CsvSource(const Config& config, const std::string& folder)
      : config_(config), path_(path_in(folder, config.string("file"))), content_(FileContent::open(path_, uint64_t{1} << 34)) {
    read_table();
    for (const auto& marker : config.has("missing_values") ? config.string_list("missing_values")
                                                           : std::vector<std::string>{"", "NA", "N/A", "NaN", "nan", "null", "?"})
      missing_markers_.push_back(marker);
    policy_ = config.choice("missing", "error", {"error", "mean", "skip"});
    choose_columns();
    choose_rows();
    if (config.has("fitted")) take_fitted(config.element(*config.raw("fitted"), "fitted"));
    else infer();
  }

  SourcePtr make() const {
    int64_t width = 0, elements = 0;
    for (const Meaning& meaning : features_) width += meaning.width();
    const auto rows = static_cast<int64_t>(rows_.size());
    if (__builtin_mul_overflow(width, rows, &elements) || elements > kMaxElements)
      throw Error(ErrorKind::resources, {.where = path_,
                                         .what = "the table is too large",
                                         .got = std::to_string(rows) + " rows of " + std::to_string(width) + " numbers"});
    std::vector<NamedArray> arrays;
    Tensor x(Dtype::f32, {rows, width});
    for (int64_t i = 0; i < rows; ++i) {
      float* out = x.data<float>() + i * width;
      for (const Meaning& meaning : features_) {
        write_feature(meaning, rows_[static_cast<size_t>(i)], out);
        out += meaning.width();
      }
    }
    arrays.push_back({.name = "x", .values = std::move(x), .where = path_});
    if (target_.column >= 0) arrays.push_back(target_array());
    return arrays_source("csv " + path_, std::move(arrays), fitted());
  }

 private:
  std::string at(int64_t row, int64_t column) const {
    return path_ + ":" + std::to_string(table_.lines[static_cast<size_t>(row)]) + ": column '" + names_[static_cast<size_t>(column)] + "'";
  }

  void read_table() {
    const std::string text = config_.string("delimiter", ",");
    if (text.size() != 1 || text[0] == '"' || text[0] == '\n' || text[0] == '\r')
      config_.fail("delimiter", "must be one character", "'" + text + "'");
    const std::string_view content = as_text(content_.bytes());
    if (config_.has("header")) {
      table_ = parse_csv(content, path_, text[0], config_.boolean("header", false));
    } else {
      table_ = parse_csv(content, path_, text[0], false);
      if (first_row_is_header()) table_ = parse_csv(content, path_, text[0], true);
    }
    if (table_.rows == 0) throw Error(ErrorKind::data, {.where = path_, .what = "the table has no rows"});
    names_ = table_.header;
    for (int64_t c = 0; names_.size() < static_cast<size_t>(table_.columns); ++c) names_.push_back("c" + std::to_string(c));
  }

  // Only words in the first row, and a number below one of them.
  bool first_row_is_header() const {
    if (table_.rows < 2) return false;
    double ignored = 0;
    bool number_below = false;
    for (int64_t c = 0; c < table_.columns; ++c) {
      if (table_.cell(0, c).empty() || csv_number(table_.cell(0, c), ignored)) return false;
      number_below |= csv_number(table_.cell(1, c), ignored);
    }
    return number_below;
  }

  int64_t column_of(const Json& json, const char* key) const {
    if (json.is_string()) {
      for (size_t c = 0; c < names_.size(); ++c)
        if (names_[c] == json.as_string()) return static_cast<int64_t>(c);
      config_.fail(key, "names a column that the table does not have", "'" + json.as_string() + "'", "",
                   nearest_hint(json.as_string(), names_));
    }
    const auto index = json.is_int() ? json.as_int() : INT64_MIN;
    const int64_t column = index < 0 && index != INT64_MIN ? index + table_.columns : index;
    if (column < 0 || column >= table_.columns)
      config_.fail(key, "is no column", json.dump(),
                   "a name, or a number from " + std::to_string(-table_.columns) + " to " + std::to_string(table_.columns - 1));
    return column;
  }

  std::vector<int64_t> columns_of(const char* key) const {
    const Json* list = config_.raw(key);
    std::vector<int64_t> columns;
    if (list == nullptr || list->is_null()) return columns;
    if (!list->is_array()) return {column_of(*list, key)};
    for (const Json& item : list->as_array()) columns.push_back(column_of(item, key));
    return columns;
  }

  void choose_columns() {
    const Json* target = config_.raw("target");
    const bool none = target != nullptr && target->is_bool() && !target->as_bool();
    target_.column = none ? -1 : target == nullptr || target->is_null() ? table_.columns - 1 : column_of(*target, "target");
    std::vector<int64_t> chosen = columns_of("features");
    const std::vector<int64_t> dropped = columns_of("drop");
    if (!config_.has("features"))
      for (int64_t c = 0; c < table_.columns; ++c)
        if (c != target_.column && std::find(dropped.begin(), dropped.end(), c) == dropped.end()) chosen.push_back(c);
    for (const int64_t c : chosen) features_.push_back({.column = c, .name = names_[static_cast<size_t>(c)]});
    if (target_.column >= 0) target_.name = names_[static_cast<size_t>(target_.column)];
    if (features_.empty()) {
      std::string columns;
      for (const auto& name : names_) columns += (columns.empty() ? "'" : ", '") + name + "'";
      config_.fail("features", "leaves no column to learn from", path_ + " with the columns " + columns, "",
                   delimiter_hint(as_text(content_.bytes()), config_.string("delimiter", ",")[0]));
    }
    categorical_ = columns_of("categorical");
    task_ = config_.choice("task", "auto", {"auto", "classify", "regress"});
  }

  bool is_missing(std::string_view cell) const {
    return std::find(missing_markers_.begin(), missing_markers_.end(), cell) != missing_markers_.end();
  }

  // Leaves out rows with missing values, or refuses them, as told; a row without its target is never used.
  void choose_rows() {
    for (int64_t r = 0; r < table_.rows; ++r) {
      int64_t missing = -1;
      for (const Meaning& feature : features_)
        if (missing < 0 && policy_ != "mean" && is_missing(table_.cell(r, feature.column))) missing = feature.column;
      if (target_.column >= 0 && is_missing(table_.cell(r, target_.column))) missing = target_.column;
      if (missing >= 0 && policy_ == "error")
        throw Error(ErrorKind::data, {.where = at(r, missing),
                                      .what = "the value is missing",
                                      .got = "'" + std::string(table_.cell(r, missing)) + "'",
                                      .hint = "missing = \"mean\" fills such values in, missing = \"skip\" leaves their rows out"});
      if (missing < 0) rows_.push_back(r);
    }
    if (rows_.empty()) throw Error(ErrorKind::data, {.where = path_, .what = "every row has a missing value"});
  }

  // Numbers if every cell is one. Words are sorted, numbers that serve as categories by value.
  void infer(Meaning& meaning, bool is_target) const {
    double sum = 0, value = 0;
    int64_t count = 0;
    bool numbers = true, whole = true;
    std::map<std::string, double, std::less<>> different;
    for (const int64_t r : rows_) {
      const std::string_view cell = table_.cell(r, meaning.column);
      if (is_missing(cell)) continue;
      if (numbers && csv_number(cell, value)) sum += value, ++count, whole &= std::trunc(value) == value;
      else numbers = false, value = 0;
      if (different.size() <= kMaxCategories && !different.contains(cell)) different.emplace(cell, value);
    }
    const bool told = std::find(categorical_.begin(), categorical_.end(), meaning.column) != categorical_.end();
    const bool few = whole && different.size() <= kFewIntegers;
    meaning.category = is_target ? (task_ == "classify" || (task_ == "auto" && (!numbers || few))) : told || !numbers;
    if (is_target && task_ == "regress" && !numbers)
      throw Error(ErrorKind::data, {.where = path_, .what = "the target '" + meaning.name + "' is not a number in every row"});
    meaning.mean = count > 0 ? sum / static_cast<double>(count) : 0;
    if (!meaning.category) return;
    if (different.size() > kMaxCategories)
      throw Error(ErrorKind::data,
                  {.where = path_,
                   .what = "column '" + meaning.name + "' has more than " + std::to_string(kMaxCategories) + " different values",
                   .hint = "leave it out with 'drop', or see why it is not a number in every row"});
    std::vector<std::pair<double, std::string>> sorted;
    for (const auto& [word, number] : different) sorted.emplace_back(numbers ? number : 0, word);
    std::sort(sorted.begin(), sorted.end());
    for (auto& [number, word] : sorted) meaning.categories.push_back(std::move(word));
  }

  void infer() {
    for (Meaning& feature : features_) infer(feature, false);
    if (target_.column >= 0) infer(target_, true);
  }

  static Json json_of(const Meaning& meaning) {
    Json json = Json::object();
    json.set("name", meaning.name);
    if (meaning.category) {
      Json list = Json::array();
      for (const auto& word : meaning.categories) list.push(word);
      json.set("categories", std::move(list));
    } else {
      json.set("mean", meaning.mean);
    }
    return json;
  }

  Json fitted() const {
    Json json = Json::object(), list = Json::array();
    for (const Meaning& feature : features_) list.push(json_of(feature));
    json.set("type", "csv");
    json.set("columns", std::move(list));
    if (target_.column >= 0) json.set("target", json_of(target_));
    return json;
  }

  static void take_fitted(const Config& config, Meaning& meaning) {
    const std::string name = config.string("name");
    if (name != meaning.name) config.fail("name", "is not the table's column", "'" + meaning.name + "'", "'" + name + "'");
    meaning.category = config.has("categories");
    meaning.categories = config.string_list("categories");
    meaning.mean = config.number("mean", 0);
  }

  void take_fitted(const Config& config) {
    const Json* list = config.raw("columns");
    if (list == nullptr || !list->is_array() || list->as_array().size() != features_.size())
      config.fail("columns", "are not as many as the table's", "", std::to_string(features_.size()));
    for (size_t i = 0; i < features_.size(); ++i) take_fitted(config.element(list->as_array()[i], "columns"), features_[i]);
    if (target_.column >= 0) take_fitted(config.object("target"), target_);
  }

  static int64_t category_of(const Meaning& meaning, std::string_view word) {
    for (size_t i = 0; i < meaning.categories.size(); ++i)
      if (meaning.categories[i] == word) return static_cast<int64_t>(i);
    return -1;
  }

  double number_at(const Meaning& meaning, int64_t row) const {
    const std::string_view cell = table_.cell(row, meaning.column);
    double value = 0;
    if (is_missing(cell)) return meaning.mean;
    if (!csv_number(cell, value))
      throw Error(ErrorKind::data,
                  {.where = at(row, meaning.column), .what = "this is no number", .got = "'" + std::string(cell.substr(0, 40)) + "'"});
    return value;
  }

  // A word that the training part did not have is none of its categories: all zeros.
  void write_feature(const Meaning& meaning, int64_t row, float* out) const {
    if (!meaning.category) {
      *out = static_cast<float>(number_at(meaning, row));
      return;
    }
    const int64_t category = category_of(meaning, table_.cell(row, meaning.column));
    if (category >= 0) out[category] = 1;
  }

  NamedArray target_array() const {
    const auto rows = static_cast<int64_t>(rows_.size());
    NamedArray array{.name = "y", .label = target_.category, .where = path_};
    if (!target_.category) {
      array.values = Tensor(Dtype::f32, {rows, 1});
      for (int64_t i = 0; i < rows; ++i)
        array.values.data<float>()[i] = static_cast<float>(number_at(target_, rows_[static_cast<size_t>(i)]));
      return array;
    }
    array.class_names = target_.categories;
    array.values = Tensor(Dtype::i64, {rows});
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = rows_[static_cast<size_t>(i)];
      const std::string_view word = table_.cell(row, target_.column);
      const int64_t category = category_of(target_, word);
      if (category < 0)
        throw Error(ErrorKind::data, {.where = at(row, target_.column),
                                      .what = "this class is not in the training part",
                                      .got = "'" + std::string(word.substr(0, 40)) + "'",
                                      .hint = nearest_hint(word, target_.categories)});
      array.values.data<int64_t>()[i] = category;
    }
    return array;
  }

  const Config& config_;
  std::string path_;
  FileContent content_;
  CsvTable table_;
  std::vector<std::string> names_, missing_markers_;
  std::string policy_, task_;
  std::vector<Meaning> features_;
  Meaning target_;
  std::vector<int64_t> categorical_;
  std::vector<int64_t> rows_;  // those that are used
};

SourcePtr open(const Config& config, const std::string& folder) { return CsvSource(config, folder).make(); }

constexpr const char* kPositional[] = {"file"};
constexpr Option kOptions[] = {{"file", "file", nullptr, "the table, also .gz"},
                               {"target", "column", "the last column", "what is foretold: a name or number; false: none"},
                               {"features", "list of columns", "all others", "what it is foretold from"},
                               {"drop", "list of columns", "[]", "columns that are left out"},
                               {"categorical", "list of columns", "[]", "columns of numbers that are names"},
                               {"header", "boolean", "found out", "the first line names the columns"},
                               {"delimiter", "string", ",", "the character between two fields"},
                               {"missing", "name", "error", "what becomes of a gap", {}, {"error", "mean", "skip"}},
                               {"missing_values", "list of names", "the empty text, NA, NaN, null, ?", "how a gap is written"},
                               {"task", "name", "auto", "whether the target is a class", {}, {"auto", "classify", "regress"}},
                               {"fitted", "table", "none", "what was learned from the training part"}};

}  // namespace

extern const SourceDef source_csv;
const SourceDef source_csv{
    .type = "csv",
    .doc =
        "A table 'file' (also .gz). Options: target (the last column; a name or number; false: none), features, drop, categorical, "
        "header (found out), delimiter (','), missing ('error', 'mean' or 'skip'), missing_values, task ('auto', 'classify' or 'regress')",
    .schema = {.options = kOptions, .positional = kPositional},
    .open = open};

}  // namespace perigee
