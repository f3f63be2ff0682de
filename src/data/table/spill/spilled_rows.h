// Steps on the rows of a table that is larger than the memory, with the bits that they have in memory: see Step::spilled().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/data/table/spill/frame_sink.h"
#include "src/data/table/spill/scratch_file.h"

namespace perigee::tables {

using SinkPtr = std::unique_ptr<FrameSink>;

SinkPtr spilled_sort(const TableRoom& room, std::vector<std::string> names, std::vector<bool> descending, std::string where, UseFrame next);
SinkPtr spilled_rank(const TableRoom& room, std::vector<std::string> names, std::vector<bool> descending, std::string name,
                     std::string where, UseFrame next);
SinkPtr spilled_distinct(const TableRoom& room, std::vector<std::string> names, std::string where, UseFrame next);
SinkPtr spilled_head(int64_t from, int64_t count, UseFrame next);
// Rows that `stays` has, once the number of all rows is known: a mark for each row, asked for in their order.
SinkPtr spilled_choice(const TableRoom& room, std::function<std::function<bool(int64_t row)>(int64_t rows)> stays, UseFrame next);
SinkPtr spilled_sequence(const TableRoom& room, std::vector<std::string> keys, std::vector<std::string> order, std::string where,
                         UseFrame next);

}  // namespace perigee::tables
