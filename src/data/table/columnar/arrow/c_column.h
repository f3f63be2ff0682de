// One column of a record batch that lies in another program's structures (ArrowArray): where its numbers are, and what they say. Buffers come
// without their sizes, so that these cannot be checked; all else is.
#pragma once

#include <optional>
#include <string>

#include "src/data/table/columnar/arrow/c_schema.h"

namespace perigee::tables::arrow {

class CColumn {
 public:
  // Finds the leaf's array in the batch and checks it; `where` begins messages. Error(data) where it is not as the schema says.
  CColumn(const ArrowArray& batch, const Leaf& leaf, const std::string& where);

  int64_t rows() const { return rows_; }
  // A copy in the form of a table.
  Column values() const;
  // The places in the dictionary of a column that has one; -1: missing.
  std::vector<int64_t> places() const;
  Column dictionary() const;  // its entries
  bool any_missing() const { return !missing_.empty(); }

  // Numbers of one width where they lie: those of row 0 first, `per_row()` for each row. Null: there are none, or rows without a value.
  const std::byte* numbers() const;
  int64_t per_row() const { return field_->kind == Kind::fixed_list ? field_->width : 1; }
  // The field of these numbers: a list's is that of its items; of a dictionary's places an integer.
  ArrowField number_field() const;

 private:
  [[noreturn]] void wrong(const char* what, const std::string& got = "", const std::string& expected = "") const;
  // Checks sizes, counts and pointers of `array`, which has to have `least` elements.
  void check(const ArrowArray* array, const ArrowField& field, int64_t least) const;
  const void* buffer(const ArrowArray& array, int64_t number, bool any) const;
  void add_missing(const ArrowArray& array, int64_t first, int64_t rows, std::vector<uint8_t>& missing) const;
  Column plain(const ArrowArray& array, const ArrowField& field, int64_t first, int64_t rows, std::vector<uint8_t> missing) const;
  void read_numbers(const ArrowArray& array, const ArrowField& field, int64_t first, Column& column, int64_t rows) const;
  void read_texts(const ArrowArray& array, const ArrowField& field, int64_t first, Column& column, int64_t rows) const;
  void read_views(const ArrowArray& array, int64_t first, Column& column, int64_t rows) const;
  void read_lists(const ArrowArray& array, const ArrowField& field, int64_t first, Column& column, int64_t rows) const;

  const ArrowField* field_;
  std::string where_;
  const ArrowArray* array_ = nullptr;
  int64_t rows_ = 0, first_ = 0;  // the element of row 0
  std::vector<uint8_t> missing_;  // as Column has it, of all levels
};

}  // namespace perigee::tables::arrow
