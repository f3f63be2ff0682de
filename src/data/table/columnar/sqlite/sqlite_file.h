// A table of an SQLite 3 database as columns. Read by our own reader: the format is fixed for good, a mapped file is read by several threads, and
// a hostile one cannot do more than what is checked here. What is not in the file itself (views, virtual tables, a write-ahead log) is refused.
#pragma once

#include <memory>

#include "src/data/table/columnar/columnar.h"

namespace perigee::tables::sqlite {

std::unique_ptr<ColumnarFile> open_sqlite(const ColumnarInput& input);

}  // namespace perigee::tables::sqlite
