// What the gradients of linear need before cuBLASLt can multiply: dz of kernels/ops/linear.h, and the sums of its columns.
#pragma once

#include "kernels/cuda/queue.h"
#include "kernels/view.h"

namespace perigee {

struct LinearRows {
  const void* data = nullptr;
  int64_t row_stride = 0, column_stride = 0;
};

struct LinearDz {
  Dtype dtype = Dtype::f32;  // f32, f16 or bf16; of everything here. Sums run in f32
  int64_t rows = 0, columns = 0;
  LinearRows dy;
  LinearRows y;          // without data: dz is dy
  void* dz = nullptr;    // [rows, columns] without gaps; null: not wanted
  void* sums = nullptr;  // [columns]; null: not wanted
  int64_t sums_stride = 1;
  bool accumulate = false;  // sums are added to what is there
  void* partial = nullptr;  // linear_partial_bytes(), when sums are wanted
};

size_t linear_partial_bytes(int64_t rows, int64_t columns);
void queue_linear_dz(const LinearDz& call, CudaQueue& queue);

}  // namespace perigee
