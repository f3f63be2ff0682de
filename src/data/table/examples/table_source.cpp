#include "src/data/table/examples/table_source.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>

#include "src/core/warning.h"
#include "src/data/arrays.h"
#include "src/data/table/time_text.h"
#include "src/io/csv.h"

namespace perigee {
namespace {

constexpr size_t kMaxCategories = 1000;
constexpr int64_t kNumbersToAWord = 9;          // a column with so many numbers for each other text looks like one of numbers
constexpr size_t kFewTableSourceIntegers = 50;  // a target with at most so many different integers is a class
constexpr size_t kManyWords = 50;               // so many that are different, in most rows another one, are names and not categories
constexpr int64_t kMaxElements = int64_t{1} << 34;

// How one column becomes numbers.
struct TableSourceMeaning {
  int64_t column = -1;
  std::string name;
  bool category = false;
  std::vector<std::string> categories;  // sorted
  double mean = 0;                      // for missing numbers
  std::optional<std::string> date;      // how its dates are written; none: it has none
  int64_t width() const { return category ? static_cast<int64_t>(categories.size()) : 1; }
};

// Values of one column that are none of its categories.
struct Unknown {
  int64_t count = 0;
  std::string example;
};

std::string quoted_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name.substr(0, 60) + "'";
  return text;
}

// Rows that are used: a list, unless they are all.
class UsedRows {
 public:
  void add(int64_t row) {
    if (list_.empty() && row == count_) return void(++count_);
    if (list_.empty()) {
      list_.resize(static_cast<size_t>(count_));
      std::iota(list_.begin(), list_.end(), 0);
    }
    list_.push_back(row);
    ++count_;
  }
  int64_t size() const { return count_; }
  int64_t operator[](int64_t i) const { return list_.empty() ? i : list_[static_cast<size_t>(i)]; }
  std::vector<int64_t> list() const {
    std::vector<int64_t> all;
    for (int64_t i = 0; i < count_; ++i) all.push_back((*this)[i]);
    return all;
  }

 private:
  std::vector<int64_t> list_;
  int64_t count_ = 0;
};

class TableReader {
 public:
  TableReader(const Config& config, const Table& table, TableUse use) : config_(config), table_(table), use_(use) {
    own_markers_ = config.has("missing_values");
    missing_markers_ =
        own_markers_ ? config.string_list("missing_values") : std::vector<std::string>{"", "NA", "N/A", "NaN", "nan", "null", "?"};
    policy_ = config.choice("missing", "error", {"error", "mean", "skip"});
    const bool fitted = config.has("fitted");
    if (fitted) take_fitted(config.element(*config.raw("fitted"), "fitted"));
    else choose_columns();
    choose_rows();
    if (!fitted) infer();
  }

  SourcePtr make() {
    const int64_t rows = rows_.size();
    int64_t width = 0, elements = 0;
    for (const TableSourceMeaning& meaning : features_) width += meaning.width();
    if (__builtin_mul_overflow(width, rows, &elements) || elements > kMaxElements)
      throw Error(ErrorKind::resources, {.where = table_.where,
                                         .what = "the table is too large",
                                         .got = std::to_string(rows) + " rows of " + std::to_string(width) + " numbers"});
    unknown_.resize(features_.size());
    Tensor x = rows_tensor<float>(Dtype::f32, {rows, width}, [this](int64_t row, float* out) {
      for (size_t f = 0; f < features_.size(); ++f) {
        write_feature(f, row, out);
        out += features_[f].width();
      }
    });
    std::vector<NamedArray> arrays;
    arrays.push_back({.name = "x", .values = std::move(x), .where = table_.where});
    if (target_.column >= 0) arrays.push_back(target_array());
    if (weight_.column >= 0) arrays.push_back(weight_array());
    if (use_ == TableUse::records)
      arrays.push_back({.name = kRowField, .values = Tensor::from<int64_t>({rows}, rows_.list()), .where = table_.where});
    const std::string kind = table_.of_records ? "records " : "csv ";
    return arrays_source(kind + table_.where, std::move(arrays), fitted(), remarks());
  }

 private:
  std::string at(int64_t row, int64_t column) const {
    return table_.place(row) + ": column '" + table_.names[static_cast<size_t>(column)] + "'";
  }

  // --- Columns, as the options choose them -------------------------------------------------------------------------------------

  // A file that is cut at the wrong character has one column, and is no header where that one is a line of names.
  std::string delimiter_of_line() const {
    const std::string first = table_.named ? table_.names[0] : std::string(table_.cell(0, 0));
    return table_.of_records || table_.columns > 1 ? "" : delimiter_hint(first, config_.string("delimiter", ",")[0]);
  }

  [[noreturn]] void no_such_column(const char* key, const std::string& name) const {
    bool in_first_line = false;
    for (int64_t c = 0; c < table_.columns && !table_.named; ++c) in_first_line |= table_.cell(0, c) == name;
    if (in_first_line && table_.rows == 1)
      config_.fail(key, "names a column of a table that has no rows", table_.where + " with a header line alone",
                   "at least one row below it");
    std::string hint = delimiter_of_line();
    if (hint.empty()) hint = in_first_line ? "the first line has this name: header = true" : nearest_hint(name, table_.names);
    if (hint.empty() && !table_.named) hint = "write a first line of names into the file, or give a number: " + std::string(key) + " = -1";
    config_.fail(key, "names a column that the table does not have",
                 "'" + name + "' of " + table_.where + (table_.named ? "" : ", which has no header line"),
                 "one of " + table_.names_text(16), hint);
  }

  int64_t column_of(const Json& json, const char* key) const {
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

  std::vector<int64_t> columns_of(const char* key) const {
    const Json* list = config_.raw(key);
    std::vector<int64_t> columns;
    if (list == nullptr || list->is_null()) return columns;
    if (!list->is_array()) return {column_of(*list, key)};
    for (const Json& item : list->as_array()) columns.push_back(column_of(item, key));
    return columns;
  }

  bool without_target() const {
    const Json* target = config_.raw("target");
    return use_ == TableUse::records || (target != nullptr && target->is_bool() && !target->as_bool());
  }

  void choose_columns() {
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
        if (c != target_.column && c != weight_.column && std::find(dropped.begin(), dropped.end(), c) == dropped.end())
          chosen.push_back(c);
    for (const int64_t c : chosen) features_.push_back({.column = c, .name = table_.names[static_cast<size_t>(c)]});
    if (target_.column >= 0) target_.name = table_.names[static_cast<size_t>(target_.column)];
    if (features_.empty())
      config_.fail("features", "leaves no column to learn from", table_.where + " with the columns " + table_.names_text(), "",
                   delimiter_of_line());
    categorical_ = columns_of("categorical");
    dates_ = columns_of("dates");
    task_ = config_.choice("task", "auto", {"auto", "classify", "regress"});
  }

  // --- Columns, as the training part had them ----------------------------------------------------------------------------------

  static TableSourceMeaning meaning_of(const Config& config) {
    TableSourceMeaning meaning{.name = config.string("name")};
    meaning.category = config.has("categories");
    meaning.categories = config.string_list("categories");
    meaning.mean = config.number("mean", 0);
    if (config.has("date")) meaning.date = config.string("date");
    return meaning;
  }

  void take_fitted(const Config& config) {
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
  bool numbered() const {
    return std::all_of(features_.begin(), features_.end(), [](const TableSourceMeaning& meaning) {
      return meaning.name.size() > 1 && meaning.name[0] == 'c' && meaning.name.find_first_not_of("0123456789", 1) == std::string::npos;
    });
  }

  // Each by its name, in any order; of equal names the first, the second, ...
  void find_columns() {
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

  std::string hint_for(const std::vector<std::string>& lacking) const {
    if (table_.columns == 1 && !table_.of_records)
      for (const char separator : {';', '\t', '|'})
        if (table_.names[0].find(separator) != std::string::npos || table_.cell(0, 0).find(separator) != std::string_view::npos)
          return std::string("its fields seem to be separated by '") + (separator == '\t' ? "\\t" : std::string(1, separator)) +
                 "': write them with '" + config_.string("delimiter", ",") + "', as in the training data";
    const std::string nearest = nearest_hint(lacking[0], table_.names);
    if (!nearest.empty()) return "for '" + lacking[0] + "': " + nearest;
    return table_.named ? "" : "the first line names the columns";
  }

  // --- Rows --------------------------------------------------------------------------------------------------------------------

  bool is_missing(std::string_view cell) const {
    return cell.data() == nullptr || std::find(missing_markers_.begin(), missing_markers_.end(), cell) != missing_markers_.end();
  }
  bool is_missing(int64_t row, int64_t column) const {
    const TableNumbers* numbers = table_.numbers_of(column);
    if (numbers == nullptr) return is_missing(table_.cell(row, column));
    if (std::isnan(numbers->values[static_cast<size_t>(row)])) return true;
    return own_markers_ && is_missing(text_of_number(*numbers, row));
  }

  static std::string text_of_number(const TableNumbers& numbers, int64_t row) {
    const double value = numbers.values[static_cast<size_t>(row)] + 0.0;  // -0 is 0
    if (std::isnan(value)) return "";
    char digits[40];
    const auto end = numbers.whole ? std::to_chars(digits, digits + sizeof digits, static_cast<int64_t>(value))
                                   : std::to_chars(digits, digits + sizeof digits, value);
    return {digits, end.ptr};
  }
  // The cell, or the number as a text, which `kept` holds.
  std::string_view text_at(int64_t row, int64_t column, std::string& kept) const {
    const TableNumbers* numbers = table_.numbers_of(column);
    if (numbers == nullptr) return table_.cell(row, column);
    return kept = text_of_number(*numbers, row);
  }

  void check_record(int64_t row) const {
    std::vector<std::string> lacking;
    for (const TableSourceMeaning& feature : features_)
      if (table_.numbers_of(feature.column) == nullptr && is_no_cell(table_.cell(row, feature.column))) lacking.push_back(feature.name);
    if (target_.column >= 0 && table_.numbers_of(target_.column) == nullptr && is_no_cell(table_.cell(row, target_.column)))
      lacking.push_back(target_.name);
    if (lacking.empty()) return;
    throw Error(
        ErrorKind::data,
        {.where = table_.place(row), .what = "the record lacks " + quoted_list(lacking), .hint = "null says that a value is not known"});
  }

  // Leaves out rows with missing values, or refuses them, as told; a row without its target is never used.
  void choose_rows() {
    for (int64_t r = 0; r < table_.rows; ++r) {
      if (table_.of_records) check_record(r);
      int64_t missing = -1;
      for (const TableSourceMeaning& feature : features_)
        if (missing < 0 && policy_ != "mean" && is_missing(r, feature.column)) missing = feature.column;
      const bool no_target = target_.column >= 0 && is_missing(r, target_.column);
      if (no_target) missing = target_.column, ++without_target_;
      if (weight_.column >= 0 && is_missing(r, weight_.column)) missing = weight_.column;
      std::string kept;
      if (missing >= 0 && policy_ == "error")
        throw Error(ErrorKind::data, {.where = at(r, missing),
                                      .what = "the value is missing",
                                      .got = "'" + std::string(text_at(r, missing, kept)) + "'",
                                      .hint = "missing = \"mean\" fills such values in, missing = \"skip\" leaves their rows out"});
      if (missing < 0) rows_.add(r);
    }
    if (rows_.size() == 0) throw Error(ErrorKind::data, {.where = table_.where, .what = "every row has a missing value"});
  }

  // --- The columns' meaning ----------------------------------------------------------------------------------------------------

  // Numbers if every cell is one. Words are sorted, numbers that serve as categories by value.
  void infer(TableSourceMeaning& meaning, bool is_target) const {
    if (std::find(dates_.begin(), dates_.end(), meaning.column) != dates_.end()) return infer_dates(meaning);
    if (const TableNumbers* numbers = table_.numbers_of(meaning.column)) return infer_numbers(meaning, *numbers, is_target);
    double sum = 0, value = 0;
    int64_t count = 0, words = 0, first_word = -1;
    bool whole = true;
    std::map<std::string, double, std::less<>> different;
    for (int64_t i = 0; i < rows_.size(); ++i) {
      const int64_t r = rows_[i];
      const std::string_view cell = table_.cell(r, meaning.column);
      if (is_missing(cell)) continue;
      if (csv_number(cell, value)) sum += value, ++count, whole &= std::trunc(value) == value;
      else if (value = 0; words++ == 0) first_word = r;
      if (different.size() <= kMaxCategories && !different.contains(cell)) different.emplace(cell, value);
    }
    const bool numbers = words == 0;
    refuse_decimal_commas(meaning, first_word);
    const bool told = std::find(categorical_.begin(), categorical_.end(), meaning.column) != categorical_.end();
    const bool few = whole && different.size() <= kFewTableSourceIntegers;
    meaning.category = is_target ? (task_ == "classify" || (task_ == "auto" && (!numbers || few))) : told || !numbers;
    if (is_target && task_ == "regress" && !numbers)
      throw Error(ErrorKind::data, {.where = at(first_word, meaning.column),
                                    .what = "the target is not a number in every row",
                                    .got = "'" + std::string(table_.cell(first_word, meaning.column)).substr(0, 60) + "'",
                                    .expected = "a number",
                                    .hint = "missing_values names what stands for a missing one"});
    if (!told && words > 0 && count >= kNumbersToAWord * words) warn_of_words(meaning, first_word, words, words + count);
    meaning.mean = count > 0 ? sum / static_cast<double>(count) : 0;
    if (!meaning.category) return;
    if (different.size() > kMaxCategories) too_many_categories(meaning);
    if (!told && !is_target) warn_of_many_words(meaning, different.size());
    std::vector<std::pair<double, std::string>> sorted;
    for (const auto& [word, number] : different) sorted.emplace_back(numbers ? number : 0, word);
    std::sort(sorted.begin(), sorted.end());
    for (auto& [number, word] : sorted) meaning.categories.push_back(std::move(word));
  }

  // The same of numbers that were never texts.
  void infer_numbers(TableSourceMeaning& meaning, const TableNumbers& numbers, bool is_target) const {
    const bool told = std::find(categorical_.begin(), categorical_.end(), meaning.column) != categorical_.end();
    double sum = 0;
    int64_t count = 0;
    bool whole = true;
    std::map<double, std::string> different;
    for (int64_t i = 0; i < rows_.size(); ++i) {
      const int64_t r = rows_[i];
      if (is_missing(r, meaning.column)) continue;
      const double value = numbers.values[static_cast<size_t>(r)];
      sum += value, ++count, whole &= std::trunc(value) == value;
      if ((is_target || told) && different.size() <= kMaxCategories && !different.contains(value))
        different.emplace(value, text_of_number(numbers, r));
    }
    meaning.mean = count > 0 ? sum / static_cast<double>(count) : 0;
    const bool few = whole && different.size() <= kFewTableSourceIntegers;
    meaning.category = is_target ? task_ == "classify" || (task_ == "auto" && few) : told;
    if (!meaning.category) return;
    if (different.size() > kMaxCategories) too_many_categories(meaning);
    for (auto& [value, text] : different) meaning.categories.push_back(std::move(text));
  }

  [[noreturn]] void too_many_categories(const TableSourceMeaning& meaning) const {
    throw Error(
        ErrorKind::data,
        {.where = table_.where,
         .what = "column '" + meaning.name + "' has more than " + std::to_string(kMaxCategories) + " different values",
         .hint = are_dates(meaning) ? date_hint(meaning.name) : "leave it out with 'drop', or see why it is not a number in every row"});
  }

  bool are_dates(const TableSourceMeaning& meaning) const {
    if (table_.numbers_of(meaning.column) != nullptr) return false;
    tables::DateFormats formats;
    for (int64_t i = 0; i < rows_.size(); ++i) {
      const std::string_view cell = table_.cell(rows_[i], meaning.column);
      if (!is_missing(cell) && !formats.take(cell)) return false;
    }
    return true;
  }

  // A table with steps comes here as records.
  std::string date_hint(const std::string& name) const {
    if (!table_.of_records) return "dates = { \"" + name + "\" } makes numbers of them, drop leaves them out";
    return "a step makes numbers of them: steps = { { derive = { [\"" + name + "\"] = \"year(`" + name + "`)\" } } }";
  }

  // One feature for each date or name learns nothing of others, and a network knows the training rows by heart.
  void warn_of_many_words(const TableSourceMeaning& meaning, size_t different) const {
    const std::string column = table_.where + ": column '" + meaning.name + "' has ", count = std::to_string(different);
    if (different > 1 && are_dates(meaning))
      warn(column + "dates, and each of the " + count + " different ones becomes a feature of its own; " + date_hint(meaning.name));
    else if (different > kManyWords && 2 * different > static_cast<size_t>(rows_.size()))
      warn(column + count + " different texts in " + std::to_string(rows_.size()) +
           " rows, and each becomes a feature of its own; drop = { \"" + meaning.name +
           "\" } leaves it out, categorical says that it is meant");
  }

  void infer_dates(TableSourceMeaning& meaning) const {
    tables::DateFormats formats;
    for (int64_t i = 0; i < rows_.size(); ++i) {
      const int64_t r = rows_[i];
      const std::string_view cell = table_.cell(r, meaning.column);
      if (!is_missing(cell) && !formats.take(cell))
        no_date(r, meaning, "a date, written as the rows above, such as 2023-05-09 or 09.05.2023");
    }
    if (formats.ambiguous())
      throw Error(ErrorKind::data, {.where = table_.where + ": column '" + meaning.name + "'",
                                    .what = "what is the day of its dates, and what is the month, cannot be told",
                                    .got = "'" + std::string(table_.cell(rows_[0], meaning.column)).substr(0, 40) + "'",
                                    .hint = "write them as 2023-05-09"});
    meaning.date = formats.left()[0];
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < rows_.size(); ++i)
      if (const auto year = tables::year_of_date(table_.cell(rows_[i], meaning.column), *meaning.date)) sum += *year, ++count;
    meaning.mean = count > 0 ? sum / static_cast<double>(count) : 0;
  }

  [[noreturn]] void no_date(int64_t row, const TableSourceMeaning& meaning, std::string expected) const {
    std::string kept;
    throw Error(ErrorKind::data, {.where = at(row, meaning.column),
                                  .what = "this is no date",
                                  .got = "'" + std::string(text_at(row, meaning.column, kept)).substr(0, 40) + "'",
                                  .expected = std::move(expected)});
  }

  // Numbers with decimal commas would be categories, each different number one of them.
  void refuse_decimal_commas(const TableSourceMeaning& meaning, int64_t first_word) const {
    if (first_word < 0 || std::find(categorical_.begin(), categorical_.end(), meaning.column) != categorical_.end()) return;
    double value = 0;
    for (int64_t i = 0; i < rows_.size(); ++i) {
      const int64_t r = rows_[i];
      const std::string_view cell = table_.cell(r, meaning.column);
      if (!is_missing(cell) && !csv_number(cell, value) && without_decimal_comma(cell).empty()) return;
    }
    throw Error(ErrorKind::data, {.where = at(first_word, meaning.column),
                                  .what = "the numbers have decimal commas",
                                  .got = "'" + std::string(table_.cell(first_word, meaning.column)).substr(0, 60) + "'",
                                  .expected = "decimal points",
                                  .hint = decimal_hint(meaning.name)});
  }

  // A table with steps comes here as records.
  std::string decimal_hint(const std::string& name) const {
    const std::string names = "; categorical says that names are meant";
    if (!table_.of_records) return "decimal = \",\" reads them" + names;
    return "a step makes numbers of them: steps = { { derive = { [\"" + name + "\"] = \"real(replace(`" + name + "`, ',', '.'))\" } } }" +
           names;
  }

  // One odd cell makes categories of a column of numbers, each different number one of them.
  void warn_of_words(const TableSourceMeaning& meaning, int64_t row, int64_t words, int64_t rows) const {
    const std::string word = "'" + std::string(table_.cell(row, meaning.column)).substr(0, 60) + "'";
    warn(at(row, meaning.column) + " is taken as categories: " + std::to_string(words) + " of its " + std::to_string(rows) +
         (words == 1 ? " values is no number, " : " values are no numbers, such as ") + word +
         "; missing_values counts such texts as missing, and categorical says that names are meant");
  }

  void infer() {
    if (!table_.equal_name.empty()) warn(line_of_equal_names(table_.where, table_.equal_name));
    for (TableSourceMeaning& feature : features_) infer(feature, false);
    if (target_.column >= 0) infer(target_, true);
  }

  static Json json_of(const TableSourceMeaning& meaning) {
    Json json = Json::object();
    json.set("name", meaning.name);
    if (meaning.category) {
      Json list = Json::array();
      for (const auto& word : meaning.categories) list.push(word);
      json.set("categories", std::move(list));
    } else {
      json.set("mean", meaning.mean);
      if (meaning.date) json.set("date", *meaning.date);
    }
    return json;
  }

  Json fitted() const {
    Json json = Json::object(), list = Json::array();
    for (const TableSourceMeaning& feature : features_) list.push(json_of(feature));
    json.set("type", "csv");
    json.set("columns", std::move(list));
    if (target_.column >= 0) json.set("target", json_of(target_));
    if (!weight_.name.empty()) json.set("weight", weight_.name);
    return json;
  }

  // --- Numbers -----------------------------------------------------------------------------------------------------------------

  static int64_t category_of(const TableSourceMeaning& meaning, std::string_view word) {
    for (size_t i = 0; i < meaning.categories.size(); ++i)
      if (meaning.categories[i] == word) return static_cast<int64_t>(i);
    return -1;
  }

  double number_at(const TableSourceMeaning& meaning, int64_t row) const {
    const TableNumbers* numbers = table_.numbers_of(meaning.column);
    if (numbers != nullptr && !meaning.date)
      return is_missing(row, meaning.column) ? meaning.mean : numbers->values[static_cast<size_t>(row)];
    std::string kept;
    const std::string_view cell = text_at(row, meaning.column, kept);
    double value = 0;
    if (is_missing(cell)) return meaning.mean;
    if (meaning.date) {
      const auto year = tables::year_of_date(cell, *meaning.date);
      if (!year) no_date(row, meaning, "a date as in the training data: " + tables::example_of_date(*meaning.date));
      return *year;
    }
    if (!csv_number(cell, value))
      throw Error(ErrorKind::data,
                  {.where = at(row, meaning.column),
                   .what = "this is no number",
                   .got = "'" + std::string(cell.substr(0, 40)) + "'",
                   .hint = without_decimal_comma(cell).empty() ? "" : "write its decimals behind a point, as the training data have them"});
    return value;
  }

  // A word that the training part did not have is none of its categories: all zeros, and counted.
  void write_feature(size_t feature, int64_t row, float* out) {
    const TableSourceMeaning& meaning = features_[feature];
    if (!meaning.category) {
      *out = static_cast<float>(number_at(meaning, row));
      return;
    }
    std::string kept;
    const std::string_view cell = text_at(row, meaning.column, kept);
    const int64_t category = category_of(meaning, cell);
    if (category >= 0) out[category] = 1;
    else if (!is_missing(cell) && ++unknown_[feature].count == 1) unknown_[feature].example = std::string(cell.substr(0, 40));
  }

  // fill(row, out) for each row that is used; outside the memory where the table is.
  template <class T, class F>
  Tensor rows_tensor(Dtype dtype, const Shape& shape, F fill) const {
    if (table_.stored != nullptr)
      return table_.stored->tensor(dtype, shape, [&](int64_t i, std::byte* out) { fill(rows_[i], reinterpret_cast<T*>(out)); });
    Tensor values(dtype, shape);
    const int64_t width = shape.elements() / shape[0];
    for (int64_t i = 0; i < shape[0]; ++i) fill(rows_[i], values.data<T>() + i * width);
    return values;
  }

  NamedArray weight_array() const {
    return {.name = "weight",
            .values = rows_tensor<float>(Dtype::f32, {rows_.size()},
                                         [this](int64_t row, float* out) { *out = static_cast<float>(number_at(weight_, row)); }),
            .where = table_.where,
            .role = FieldRole::weight};
  }

  NamedArray target_array() const {
    NamedArray array{.name = "y", .label = target_.category, .where = table_.where};
    if (!target_.category) {
      array.values = rows_tensor<float>(Dtype::f32, {rows_.size(), 1},
                                        [this](int64_t row, float* out) { *out = static_cast<float>(number_at(target_, row)); });
      return array;
    }
    array.class_names = target_.categories;
    std::string kept;
    array.values = rows_tensor<int64_t>(Dtype::i64, {rows_.size()}, [&](int64_t row, int64_t* out) {
      const std::string_view word = text_at(row, target_.column, kept);
      *out = category_of(target_, word);
      if (*out < 0)
        throw Error(ErrorKind::data, {.where = at(row, target_.column),
                                      .what = "this class is not in the training part",
                                      .got = "'" + std::string(word.substr(0, 40)) + "'",
                                      .hint = nearest_hint(word, target_.categories)});
    });
    return array;
  }

  Json remarks() const {
    Json columns = Json::object();
    for (size_t f = 0; f < unknown_.size(); ++f)
      if (unknown_[f].count > 0)
        columns.set(features_[f].name, Json(Json::Object{{"count", unknown_[f].count}, {"example", unknown_[f].example}}));
    const int64_t skipped = table_.rows - rows_.size();
    if (columns.as_object().empty() && skipped == 0) return {};
    return Json(
        Json::Object{{"rows", table_.rows}, {"skipped", skipped}, {"without_target", without_target_}, {"unknown", std::move(columns)}});
  }

  const Config& config_;
  const Table& table_;
  const TableUse use_;
  std::vector<std::string> missing_markers_;
  bool own_markers_ = false;  // and not the usual ones, of which no number is one
  std::string policy_, task_ = "auto";
  std::vector<TableSourceMeaning> features_;
  TableSourceMeaning target_, weight_;
  std::vector<int64_t> categorical_, dates_;
  UsedRows rows_;
  int64_t without_target_ = 0;    // rows that are not, for that reason
  std::vector<Unknown> unknown_;  // of each feature
};

int64_t count_in(const Json& remarks, const char* key) {
  const Json* count = remarks.find(key);
  return count != nullptr && count->is_int() ? count->as_int() : 0;
}

}  // namespace

SourcePtr table_source(const Config& config, const Table& table, TableUse use) { return TableReader(config, table, use).make(); }

CsvFormat csv_format(const Config& config) {
  const std::string delimiter = config.string("delimiter", ",");
  if (delimiter.size() != 1 || delimiter[0] == '"' || delimiter[0] == '\n' || delimiter[0] == '\r')
    config.fail("delimiter", "must be one character", "'" + delimiter + "'");
  CsvFormat format{.delimiter = delimiter[0]};
  format.decimal = config.string("decimal", ".") == "," ? ',' : '.';
  if (format.decimal == ',' && format.delimiter == ',')
    config.fail("decimal", "is the delimiter too", "','", "", "fields with decimal commas are separated otherwise: delimiter = \";\"");
  if (config.has("header")) format.header = config.boolean("header", false);
  if (const Json* fitted = config.raw("fitted"); fitted != nullptr)
    if (const Json* columns = fitted->find("columns"); columns != nullptr && columns->is_array())
      for (const Json& column : columns->as_array())
        if (const Json* name = column.find("name"); name != nullptr && name->is_string()) format.expected.push_back(name->as_string());
  return format;
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
