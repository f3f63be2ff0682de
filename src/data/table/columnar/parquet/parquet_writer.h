// Writes Parquet: row groups of 128 Ki rows, a page for each column; texts of few kinds and categories by a dictionary, the rest plain; Zstandard
// where its library is there. Times are milliseconds in UTC, lists have numbers.
#pragma once

#include <memory>
#include <string>

#include "src/data/table/write_table.h"

namespace perigee::tables::parquet {

std::unique_ptr<TableWriter> write_parquet(const std::string& path);

}  // namespace perigee::tables::parquet
