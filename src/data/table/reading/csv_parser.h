// Rows of CSV (RFC 4180 and its dialects) straight into typed columns. Speed: 8 bytes at a time where fields are plain, exact conversion of
// decimal numbers (Eisel, Lemire: Number Parsing at a Gigabyte per Second, 2021); whatever is quoted or odd takes a slower way.
#pragma once

#include <string>
#include <string_view>

#include "src/core/error.h"
#include "src/data/table/frame.h"

namespace perigee::tables {

inline constexpr size_t kCsvPadding = 32;  // bytes of zero behind a block, which are read

// A cell that is not of its column's type.
struct Misfit {
  int64_t line = -1, row = 0;  // from 0 in the block; line -1: there is none
  size_t column = 0;
  std::string text;
};

// "houses.csv:7: the value does not fit the column 'rooms'", with the place of the row. `missing`: how a missing value is written.
Error misfit_error(std::string place, const ColumnSpec& spec, std::string_view text,
                   const char* missing = "name what stands for a missing value: missing_values");

inline constexpr const char* kWriteNull = "write null for a missing value";

enum class OnMisfit {
  stop,
  missing,  // and some of the cells are kept, as examples
  keep      // missing, and all of the cells are kept
};
inline constexpr size_t kMostMisfits = 100;  // that a block keeps as examples
inline size_t most_misfits(OnMisfit on_misfit) { return on_misfit == OnMisfit::keep ? size_t{1} << 20 : kMostMisfits; }

struct CsvBlock {
  Frame frame;
  int64_t lines = 0;  // line breaks in it
  Misfit first;       // the first cell that does not fit
  std::vector<Misfit> misfit_cells;
  std::vector<int64_t> misfits;  // how many, for each column; empty: none
};

// For each column of the text its number in the schema, -1 for none.
struct CsvPlan {
  const TableSchema* schema = nullptr;
  const Dialect* dialect = nullptr;
  std::vector<int64_t> column_of;
};

// `block` has whole rows, and kCsvPadding zeros stand behind it. Error(data) with `where` and line first_line + n for rows of
// another number of fields and quotes that do not match.
void parse_csv_block(std::string_view block, const CsvPlan& plan, const std::string& where, int64_t first_line, OnMisfit on_misfit,
                     CsvBlock* out);

}  // namespace perigee::tables
