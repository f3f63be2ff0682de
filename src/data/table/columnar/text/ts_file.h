// Time series as sktime writes them (.ts): a row for each step, so that {"sequence": "series", "by": "step"} makes sequences of them. Columns
// `series` (from 1), `step` (from 0; a time or a number where steps have one), `dim_0`, `dim_1`, ..., and `label` or `target` where there is one.
#pragma once

#include <memory>

#include "src/data/table/columnar/columnar.h"

namespace perigee::tables {

std::unique_ptr<ColumnarFile> open_ts(const ColumnarInput& input);

}  // namespace perigee::tables
