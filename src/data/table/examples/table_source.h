// Examples from a table: numbers become elements of x, words one-hot groups of x, the target a class or a number. What the training part
// says of the columns is fitted(); every other table is read by it, its columns found by name.
#pragma once

#include <string>
#include <vector>

#include "src/data/source.h"
#include "src/data/table.h"

namespace perigee {

enum class TableUse {
  examples,  // to train or to judge on: with the target
  records  // to predict: without the target; each example has its row as the field kRowField; rows that cannot be read are left out (bad_rows())
};

// Scalar i64: the row, from 0, that an example came from. Rows with gaps may be left out.
inline constexpr const char* kRowField = "@row";

// `config`: the options of the source "csv". Error(data) that names row and column; one error names all columns that are missing.
SourcePtr table_source(const Config& config, const Table& table, TableUse use);

// How the file of such a source is written; a first line that has one of the fitted columns' names is a header.
CsvFormat csv_format(const Config& config);

// Rows of a table for answers that cannot be read, in order; from the remarks of its source.
struct BadRow {
  int64_t row = 0, before = 0;  // from 0; the examples that come before it
  std::string message;
};
std::vector<BadRow> bad_rows(const Json& remarks);

// SourceTraits::remarks of several sources together, and as one line each for people: values that are no known categories, rows left out.
void add_remarks(Json& sum, const Json& remarks);
std::vector<std::string> remark_lines(const Json& remarks);
// That of them which tells of rows without a target; empty when there are none.
std::string line_of_targets(const Json& remarks);

}  // namespace perigee
