// Vectors in memory: rows of `width` numbers, of which the first `size` count and the others are 0.
#pragma once

#include "src/tensor/tensor.h"

namespace perigee {

struct VectorRows {
  VectorRows() = default;
  VectorRows(int64_t rows, int64_t size);              // zeros; Error(resources) where there is no memory for them
  VectorRows slice(int64_t begin, int64_t end) const;  // shares the memory
  float* row(int64_t i) const { return values.data<float>() + i * width; }

  Tensor values;  // f32 [rows, width]
  int64_t rows = 0, size = 0, width = 0;
};

}  // namespace perigee
