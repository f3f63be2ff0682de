// Loops over columns that many steps need.
#pragma once

#include <cstdint>
#include <vector>

#include "src/data/table/frame.h"

namespace perigee::tables {

// The rows in the order of a column of numbers, times or categories; stable. What is no number, and then what is missing, comes last.
std::vector<int64_t> rows_by_number(const Column& column, bool descending, const std::vector<int64_t>& rows);

// (x - subtract) / divide in place.
void scale_and_move(double subtract, double divide, std::vector<double>& values);
// (x - subtract) / divide of each row; NaN where it is missing.
void scale_and_move(const Column& column, double subtract, double divide, std::vector<double>& out);

}  // namespace perigee::tables
