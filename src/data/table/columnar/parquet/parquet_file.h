// Parquet (https://github.com/apache/parquet-format): flat columns, and those of structs, of all types and encodings; a chunk is a row group. Lists and
// maps are refused by name.
#pragma once

#include <span>
#include <string>

#include "src/data/table/columnar/columnar.h"
#include "src/data/table/columnar/parquet/encodings.h"
#include "src/data/table/columnar/parquet/metadata.h"

namespace perigee::tables::parquet {

// From what pages have to what columns have: then `whole`, `real` or `texts` is filled as the leaf's type says.
void convert_values(const Leaf& leaf, Values& values, const Place& place);

// Some rows of a group.
struct RowRange {
  int64_t from = 0, to = 0;
};

// The rows `range` of a column chunk of `rows`, appended to `column`, whose bytes are taken from `room`.
void read_column(std::span<const std::byte> file, const Leaf& leaf, const Chunk& chunk, int64_t rows, const RowRange& range,
                 const std::string& where, Room& room, Column& column);

// `owner` keeps the content alive.
std::unique_ptr<ColumnarFile> open_parquet(const std::string& name, std::span<const std::byte> content, std::shared_ptr<const void> owner);

}  // namespace perigee::tables::parquet
