// NumPy's .npz and .npy as columns: arrays of as many rows; each number of a row is a column ("x[0]", "x[1]", ...), or a list where there are many.
#pragma once

#include <memory>

#include "src/data/table/columnar/columnar.h"

namespace perigee::tables {

std::unique_ptr<ColumnarFile> open_arrays(const ColumnarInput& input);

}  // namespace perigee::tables
