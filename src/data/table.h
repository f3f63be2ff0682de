// A table before its cells become numbers: named columns of text, from a CSV file or from JSON records.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/json.h"
#include "src/tensor/tensor.h"

namespace perigee {

// A column of numbers alone, one for each row; NaN: the value is missing.
struct TableNumbers {
  std::vector<double> values;
  bool whole = false;  // it has integers, which are written as such
};

// Cells of a table that is larger than the memory, and numbers made of them. For one thread.
class CellStore {
 public:
  virtual ~CellStore() = default;
  // Good until another cell of this column is asked for.
  virtual std::string_view cell(int64_t row, int64_t column) = 0;
  virtual int64_t number(int64_t row) = 0;  // of a row where it comes from
  // Outside the memory: fill(i, out) writes the i-th row, which is all zeros before.
  virtual Tensor tensor(Dtype dtype, const Shape& shape, const std::function<void(int64_t row, std::byte* out)>& fill) = 0;
};

struct Table {
  std::string where;               // begins error messages: "iris.csv"
  std::vector<std::string> names;  // of the columns; c0, c1, ... where the data do not name them
  bool named = false;              // the data name their columns
  std::string equal_name;          // that several columns had, before the later ones were renamed; empty: none
  int64_t columns = 0, rows = 0;
  std::vector<std::string_view> cells;  // row-major; in what `owner` holds. No data: null in JSON. kNoCell: the record lacks the key
  std::vector<int64_t> lines;           // of each row's beginning, from 1; for records their numbers
  bool of_records = false;              // JSON, not lines of text
  std::shared_ptr<const void> owner;
  // Columns that steps have left as numbers need no texts: they are here, by column (null: it has cells), and `cells` has the other ones.
  std::vector<std::shared_ptr<const TableNumbers>> numbers;
  std::vector<int64_t> places;             // then: which of the columns in `cells` a column is, and, last, how many these are
  std::map<int64_t, std::string> refused;  // rows that do not fit the schema, and why
  std::shared_ptr<CellStore> stored;       // has the cells and the numbers of the rows, if they are not in `cells` and `lines`

  const TableNumbers* numbers_of(int64_t column) const { return numbers.empty() ? nullptr : numbers[static_cast<size_t>(column)].get(); }
  // For a column that has cells.
  std::string_view cell(int64_t row, int64_t column) const {
    if (stored != nullptr) return stored->cell(row, column);
    if (numbers.empty()) return cells[static_cast<size_t>(row * columns + column)];
    return cells[static_cast<size_t>(row * places.back() + places[static_cast<size_t>(column)])];
  }
  std::string place(int64_t row) const;           // "iris.csv:7", "records: record 7"
  int64_t find(std::string_view name) const;      // -1: there is no such column
  std::string names_text(size_t most = 8) const;  // "'age', 'city'": for errors
};

// The cell of a record that lacks the key: unlike null, nobody said that the value is missing.
bool is_no_cell(std::string_view cell);

struct CsvFormat {
  char delimiter = ',';
  char decimal = '.';                 // or ',': of numbers, "3,5"
  std::optional<bool> header;         // none: found out
  std::vector<std::string> expected;  // columns that the reader knows by name: a first line that names one of them is a header
};

// `text` is CSV (RFC 4180), kept alive by `owner`. Error(data) with the line for what is damaged, or when there are no rows.
Table csv_table(std::string_view text, std::shared_ptr<const void> owner, const std::string& where, const CsvFormat& format);

// One object is one row; a list of them several; an object of lists gives columns. Values are numbers, texts, booleans and null.
// Error(data) that names the record and the key for anything else.
Table json_table(const Json& records, const std::string& where);

// JSON as a document, or as JSON Lines: an object per line. Error(data) with the line for what is damaged.
Json json_records(std::string_view text, const std::string& where);

}  // namespace perigee
