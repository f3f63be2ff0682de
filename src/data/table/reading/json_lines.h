// JSON Lines: an object on each line, whose keys are columns.
#pragma once

#include <string>
#include <string_view>

#include "src/data/table/reading/csv_parser.h"

namespace perigee::tables {

// The columns that the first lines of a file have. Error(data) for a line without an object.
TableSchema json_lines_schema(std::string_view head, const std::string& path, int64_t skipped_lines);

// A block of whole lines. A key that the schema does not have is `out->first`, with the column SIZE_MAX.
void parse_json_lines(std::string_view block, const TableSchema& schema, const std::string& where, int64_t first_line, OnMisfit on_misfit,
                      CsvBlock* out);

}  // namespace perigee::tables
