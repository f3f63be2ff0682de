// Measures a column that lies on the disk, for steps.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/data/table/spill/chunk_store.h"

namespace perigee::tables {

// Chunk by chunk.
void each_stored(const ChunkStore& table, size_t column, const std::function<void(const Column&)>& use);
// The finite numbers of a column in ascending order at the places that `places` chooses, ascending, when it knows how many there are.
std::vector<double> sorted_values_at(const ChunkStore& table, size_t column, const TableRoom& room,
                                     const std::function<std::vector<int64_t>(int64_t count)>& places);
// The most frequent value as a text, of equally frequent ones the first; empty where there is none.
std::string most_frequent(const ChunkStore& table, size_t column, const TableRoom& room);

}  // namespace perigee::tables
