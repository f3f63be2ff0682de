// How the source "csv" (table_source.h) reads a table: which columns it takes (table_columns.cpp), what they mean (table_meaning.cpp), and the numbers
// that they become (table_source.cpp).
#pragma once

#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/error.h"
#include "src/data/arrays.h"
#include "src/data/table/examples/table_source.h"

namespace perigee {

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

inline constexpr size_t kMostBadRows = 100'000;  // with more the file is another one

// Values of one column that are none of its categories.
struct UnknownValues {
  int64_t count = 0;
  std::string example;
};

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
  TableReader(const Config& config, const Table& table, TableUse use);
  SourcePtr make();

 private:
  std::string at(int64_t row, int64_t column) const;
  static std::string quoted_list(const std::vector<std::string>& names);

  // Columns, in table_columns.cpp
  std::string delimiter_of_line() const;
  [[noreturn]] void no_such_column(const char* key, const std::string& name) const;
  int64_t column_of(const Json& json, const char* key) const;
  std::vector<int64_t> columns_of(const char* key) const;
  bool without_target() const;
  void choose_columns();
  static TableSourceMeaning meaning_of(const Config& config);
  void take_fitted(const Config& config);
  bool numbered() const;
  void find_columns();
  std::string hint_for(const std::vector<std::string>& lacking) const;

  // Rows
  bool is_missing(std::string_view cell) const;
  bool is_missing(int64_t row, int64_t column) const;
  static std::string text_of_number(const TableNumbers& numbers, int64_t row);
  std::string_view text_at(int64_t row, int64_t column, std::string& kept) const;
  void check_record(int64_t row) const;
  bool is_whole(int64_t row);
  void choose_rows();
  // Where answers are wanted, a row that cannot be read ends nothing but itself: it is told in remarks().
  template <class Work>
  void attempt(int64_t row, const Work& work) {
    if (use_ != TableUse::records) return work();
    try {
      work();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data || bad_.size() >= kMostBadRows) throw;
      if (!first_bad_) first_bad_ = error;
      bad_.emplace(row, error.what());
    }
  }
  void leave_out_bad();

  // Their meaning, in table_meaning.cpp
  void infer(TableSourceMeaning& meaning, bool is_target) const;
  void infer_numbers(TableSourceMeaning& meaning, const TableNumbers& numbers, bool is_target) const;
  [[noreturn]] void too_many_categories(const TableSourceMeaning& meaning) const;
  bool are_dates(const TableSourceMeaning& meaning) const;
  std::string date_hint(const std::string& name) const;
  void warn_of_many_words(const TableSourceMeaning& meaning, size_t different) const;
  void infer_dates(TableSourceMeaning& meaning) const;
  [[noreturn]] void no_date(int64_t row, const TableSourceMeaning& meaning, std::string expected) const;
  void refuse_decimal_commas(const TableSourceMeaning& meaning, int64_t first_word) const;
  std::string decimal_hint(const std::string& name) const;
  void warn_of_words(const TableSourceMeaning& meaning, int64_t row, int64_t words, int64_t rows) const;
  void infer();
  static Json json_of(const TableSourceMeaning& meaning);
  Json fitted() const;

  // Numbers
  static int64_t category_of(const TableSourceMeaning& meaning, std::string_view word);
  double number_at(const TableSourceMeaning& meaning, int64_t row) const;
  void write_feature(size_t feature, int64_t row, float* out);
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
  NamedArray weight_array() const;
  NamedArray target_array() const;
  Json remarks() const;

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
  std::map<int64_t, std::string> bad_;  // rows that cannot be read, and why
  std::optional<Error> first_bad_;
  int64_t without_target_ = 0;          // rows that are not, for that reason
  std::vector<UnknownValues> unknown_;  // of each feature
};

}  // namespace perigee
