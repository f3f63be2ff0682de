#include "src/data/table/examples/table_source.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "src/core/error.h"
#include "src/data/arrays.h"
#include "src/data/table/examples/table_reader.h"
#include "src/data/table/time_text.h"
#include "src/io/csv.h"

namespace perigee {
namespace {

constexpr int64_t kMostTableElements = int64_t{1} << 34;

}  // namespace

TableReader::TableReader(const Config& config, const Table& table, TableUse use) : config_(config), table_(table), use_(use) {
  own_markers_ = config.has("missing_values");
  missing_markers_ =
      own_markers_ ? config.string_list("missing_values") : std::vector<std::string>{"", "NA", "N/A", "NaN", "nan", "null", "?"};
  policy_ = config.choice("missing", "error", {"error", "mean", "skip"});
  const bool fitted = config.has("fitted");
  if (fitted) take_fitted(config.element(*config.raw("fitted"), "fitted"));
  else choose_columns();
  if (!table.refused.empty()) first_bad_ = Error(ErrorKind::data, {.what = table.refused.begin()->second});
  bad_ = table.refused;
  choose_rows();
  if (!fitted) infer();
}

SourcePtr TableReader::make() {
  int64_t rows = rows_.size(), width = 0, elements = 0;
  for (const TableSourceMeaning& meaning : features_) width += meaning.width();
  if (__builtin_mul_overflow(width, rows, &elements) || elements > kMostTableElements)
    throw Error(ErrorKind::resources, {.where = table_.where,
                                       .what = "the table is too large",
                                       .got = std::to_string(rows) + " rows of " + std::to_string(width) + " numbers"});
  Tensor x;
  for (size_t bad = SIZE_MAX; bad != bad_.size();) {  // once more without the rows that could not be read
    bad = bad_.size();
    rows = rows_.size();
    unknown_.assign(features_.size(), {});
    x = rows_tensor<float>(Dtype::f32, {rows, width}, [this](int64_t row, float* out) {
      attempt(row, [&] {
        for (size_t f = 0; f < features_.size(); ++f) {
          write_feature(f, row, out);
          out += features_[f].width();
        }
      });
    });
    if (bad != bad_.size()) leave_out_bad();
  }
  std::vector<NamedArray> arrays;
  arrays.push_back({.name = "x", .values = std::move(x), .where = table_.where});
  if (target_.column >= 0) arrays.push_back(target_array());
  if (weight_.column >= 0) arrays.push_back(weight_array());
  if (use_ == TableUse::records)
    arrays.push_back({.name = kRowField, .values = Tensor::from<int64_t>({rows}, rows_.list()), .where = table_.where});
  const std::string kind = table_.of_records ? "records " : "csv ";
  return arrays_source(kind + table_.where, std::move(arrays), fitted(), remarks());
}

std::string TableReader::at(int64_t row, int64_t column) const {
  return table_.place(row) + ": column '" + table_.names[static_cast<size_t>(column)] + "'";
}

bool TableReader::is_missing(std::string_view cell) const {
  return cell.data() == nullptr || std::find(missing_markers_.begin(), missing_markers_.end(), cell) != missing_markers_.end();
}

bool TableReader::is_missing(int64_t row, int64_t column) const {
  const TableNumbers* numbers = table_.numbers_of(column);
  if (numbers == nullptr) return is_missing(table_.cell(row, column));
  if (std::isnan(numbers->values[static_cast<size_t>(row)])) return true;
  return own_markers_ && is_missing(text_of_number(*numbers, row));
}

std::string TableReader::text_of_number(const TableNumbers& numbers, int64_t row) {
  const double value = numbers.values[static_cast<size_t>(row)] + 0.0;  // -0 is 0
  if (std::isnan(value)) return "";
  char digits[40];
  const auto end = numbers.whole ? std::to_chars(digits, digits + sizeof digits, static_cast<int64_t>(value))
                                 : std::to_chars(digits, digits + sizeof digits, value);
  return {digits, end.ptr};
}

// The cell, or the number as a text, which `kept` holds.
std::string_view TableReader::text_at(int64_t row, int64_t column, std::string& kept) const {
  const TableNumbers* numbers = table_.numbers_of(column);
  if (numbers == nullptr) return table_.cell(row, column);
  return kept = text_of_number(*numbers, row);
}

void TableReader::check_record(int64_t row) const {
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

// False: it has a missing value, or no target, without which a row is never used. Refuses such rows, as told.
bool TableReader::is_whole(int64_t row) {
  if (table_.of_records) check_record(row);
  int64_t missing = -1;
  for (const TableSourceMeaning& feature : features_)
    if (missing < 0 && policy_ != "mean" && is_missing(row, feature.column)) missing = feature.column;
  const bool no_target = target_.column >= 0 && is_missing(row, target_.column);
  if (no_target) missing = target_.column, ++without_target_;
  if (weight_.column >= 0 && is_missing(row, weight_.column)) missing = weight_.column;
  std::string kept;
  if (missing >= 0 && policy_ == "error")
    throw Error(ErrorKind::data, {.where = at(row, missing),
                                  .what = "the value is missing",
                                  .got = "'" + std::string(text_at(row, missing, kept)) + "'",
                                  .hint = no_target ? "missing = \"skip\" leaves rows without a target out"
                                          : use_ == TableUse::records
                                              ? "write one, or train again with missing = \"mean\", which fills such values in here too"
                                              : "missing = \"mean\" fills such values in, missing = \"skip\" leaves their rows out"});
  return missing < 0;
}

void TableReader::choose_rows() {
  for (int64_t r = 0; r < table_.rows; ++r)
    attempt(r, [&] {
      if (!bad_.contains(r) && is_whole(r)) rows_.add(r);
    });
  if (rows_.size() > 0) return;
  if (first_bad_) throw Error(*first_bad_);
  const bool without = without_target_ == table_.rows;
  throw Error(ErrorKind::data,
              {.where = table_.where,
               .what = without ? "no row has a value of the target '" + target_.name + "'" : "every row has a missing value",
               .hint = without ? "name another column: target = \"...\"" : ""});
}

void TableReader::leave_out_bad() {
  UsedRows rest;
  for (int64_t i = 0; i < rows_.size(); ++i)
    if (!bad_.contains(rows_[i])) rest.add(rows_[i]);
  rows_ = std::move(rest);
  if (rows_.size() == 0) throw Error(*first_bad_);
}

int64_t TableReader::category_of(const TableSourceMeaning& meaning, std::string_view word) {
  for (size_t i = 0; i < meaning.categories.size(); ++i)
    if (meaning.categories[i] == word) return static_cast<int64_t>(i);
  return -1;
}

double TableReader::number_at(const TableSourceMeaning& meaning, int64_t row) const {
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
                 .expected = "a number",
                 .hint = without_decimal_comma(cell).empty() ? "" : "write its decimals behind a point, as the training data have them"});
  return value;
}

// A word that the training part did not have is none of its categories: all zeros, and counted.
void TableReader::write_feature(size_t feature, int64_t row, float* out) {
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

NamedArray TableReader::weight_array() const {
  return {.name = "weight",
          .values = rows_tensor<float>(Dtype::f32, {rows_.size()},
                                       [this](int64_t row, float* out) { *out = static_cast<float>(number_at(weight_, row)); }),
          .where = table_.where,
          .role = FieldRole::weight};
}

NamedArray TableReader::target_array() const {
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

Json TableReader::remarks() const {
  Json columns = Json::object();
  for (size_t f = 0; f < unknown_.size(); ++f)
    if (unknown_[f].count > 0)
      columns.set(features_[f].name, Json(Json::Object{{"count", unknown_[f].count}, {"example", unknown_[f].example}}));
  const int64_t skipped = table_.rows - rows_.size() - std::ssize(bad_);
  if (columns.as_object().empty() && skipped == 0 && bad_.empty()) return {};
  Json all(Json::Object{{"rows", table_.rows}, {"skipped", skipped}, {"without_target", without_target_}, {"unknown", std::move(columns)}});
  Json bad = Json::array();
  int64_t before = 0;
  for (const auto& [row, message] : bad_) {
    while (before < rows_.size() && rows_[before] < row) ++before;
    bad.push(Json(Json::Object{{"row", row}, {"before", before}, {"message", message}}));
  }
  if (!bad_.empty()) all.set("bad", std::move(bad));
  return all;
}

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

}  // namespace perigee
