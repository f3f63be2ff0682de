// The meaning of columns for the source "csv": numbers, years of dates, classes; and warnings about what looks otherwise.
#include <algorithm>
#include <cmath>
#include <map>

#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/data/table/examples/table_reader.h"
#include "src/data/table/time_text.h"
#include "src/io/csv.h"

namespace perigee {
namespace {

constexpr size_t kMaxCategories = 1000;
constexpr int64_t kNumbersToAWord = 9;          // a column with so many numbers for each other text looks like one of numbers
constexpr size_t kFewTableSourceIntegers = 50;  // a target with at most so many different integers is a class
constexpr size_t kManyWords = 50;               // so many that are different, in most rows another one, are names and not categories

}  // namespace

// Numbers if every cell is one. Words are sorted, numbers that serve as categories by value.
void TableReader::infer(TableSourceMeaning& meaning, bool is_target) const {
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
void TableReader::infer_numbers(TableSourceMeaning& meaning, const TableNumbers& numbers, bool is_target) const {
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

void TableReader::too_many_categories(const TableSourceMeaning& meaning) const {
  throw Error(
      ErrorKind::data,
      {.where = table_.where,
       .what = "column '" + meaning.name + "' has more than " + std::to_string(kMaxCategories) + " different values",
       .hint = are_dates(meaning) ? date_hint(meaning.name) : "leave it out with 'drop', or see why it is not a number in every row"});
}

bool TableReader::are_dates(const TableSourceMeaning& meaning) const {
  if (table_.numbers_of(meaning.column) != nullptr) return false;
  tables::DateFormats formats;
  for (int64_t i = 0; i < rows_.size(); ++i) {
    const std::string_view cell = table_.cell(rows_[i], meaning.column);
    if (!is_missing(cell) && !formats.take(cell)) return false;
  }
  return true;
}

// A table with steps comes here as records.
std::string TableReader::date_hint(const std::string& name) const {
  if (!table_.of_records) return "dates = { \"" + name + "\" } makes numbers of them, drop leaves them out";
  return "a step makes numbers of them: steps = { { derive = { [\"" + name + "\"] = \"year(`" + name + "`)\" } } }";
}

// One feature for each date or name learns nothing of others, and a network knows the training rows by heart.
void TableReader::warn_of_many_words(const TableSourceMeaning& meaning, size_t different) const {
  const std::string column = table_.where + ": column '" + meaning.name + "' has ", count = std::to_string(different);
  if (different > 1 && are_dates(meaning))
    warn(column + "dates, and each of the " + count + " different ones becomes a feature of its own; " + date_hint(meaning.name));
  else if (different > kManyWords && 2 * different > static_cast<size_t>(rows_.size()))
    warn(column + count + " different texts in " + std::to_string(rows_.size()) +
         " rows, and each becomes a feature of its own; drop = { \"" + meaning.name +
         "\" } leaves it out, categorical says that it is meant");
}

void TableReader::infer_dates(TableSourceMeaning& meaning) const {
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

void TableReader::no_date(int64_t row, const TableSourceMeaning& meaning, std::string expected) const {
  std::string kept;
  throw Error(ErrorKind::data, {.where = at(row, meaning.column),
                                .what = "this is no date",
                                .got = "'" + std::string(text_at(row, meaning.column, kept)).substr(0, 40) + "'",
                                .expected = std::move(expected)});
}

// Numbers with decimal commas would be categories, each different number one of them.
void TableReader::refuse_decimal_commas(const TableSourceMeaning& meaning, int64_t first_word) const {
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
std::string TableReader::decimal_hint(const std::string& name) const {
  const std::string names = "; commas that part thousands have to leave the file; categorical says that names are meant";
  if (!table_.of_records) return "decimal = \",\" reads them" + names;
  return "a step makes numbers of them: steps = { { derive = { [\"" + name + "\"] = \"real(replace(`" + name + "`, ',', '.'))\" } } }" +
         names;
}

// One odd cell makes categories of a column of numbers, each different number one of them.
void TableReader::warn_of_words(const TableSourceMeaning& meaning, int64_t row, int64_t words, int64_t rows) const {
  const std::string word = "'" + std::string(table_.cell(row, meaning.column)).substr(0, 60) + "'";
  warn(at(row, meaning.column) + " is taken as categories: " + std::to_string(words) + " of its " + std::to_string(rows) +
       (words == 1 ? " values is no number, " : " values are no numbers, such as ") + word +
       "; missing_values counts such texts as missing, and categorical says that names are meant");
}

void TableReader::infer() {
  if (!table_.equal_name.empty()) warn(line_of_equal_names(table_.where, table_.equal_name));
  for (TableSourceMeaning& feature : features_) infer(feature, false);
  if (target_.column >= 0) infer(target_, true);
}

Json TableReader::json_of(const TableSourceMeaning& meaning) {
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

Json TableReader::fitted() const {
  Json json = Json::object(), list = Json::array();
  for (const TableSourceMeaning& feature : features_) list.push(json_of(feature));
  json.set("type", "csv");
  json.set("columns", std::move(list));
  if (target_.column >= 0) json.set("target", json_of(target_));
  if (!weight_.name.empty()) json.set("weight", weight_.name);
  return json;
}

}  // namespace perigee
