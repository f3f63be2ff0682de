// Steps whose rows look only so many rows back and ahead, on a table without sequences that comes in chunks: what is held is a window of rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "src/data/table/spill/frame_sink.h"

namespace perigee::tables {

struct Neighbours {
  int64_t before = 0, after = 0;  // rows that a row looks at
  bool trim = false;              // the first `before` and the last `after` rows of the table go
};

// `apply` computes a whole table, whose rows stay as many as they are.
std::unique_ptr<FrameSink> spilled_neighbours(Neighbours reach, std::function<void(Frame&)> apply, UseFrame next);

}  // namespace perigee::tables
