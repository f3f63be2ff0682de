// Passes around the products of dense layers that cuBLASLt does not take: activations, their slopes, and sums of columns.
#pragma once

#include "kernels/cuda/runtime/queue.h"
#include "kernels/ops/linear.h"
#include "kernels/view.h"

namespace perigee {

struct LinearRows {
  void* data = nullptr;
  int64_t row_stride = 0, column_stride = 0;
};

// to = gelu(from), or to = from times the slope of the activation below, of which `kept` says where (kernels/ops/linear.h).
struct LinearPass {
  Dtype dtype = Dtype::f32;  // f32, f16 or bf16; of everything here
  int64_t rows = 0, columns = 0;
  LinearRows from, to, kept;  // `to` may be `from`; without `kept`: the activation's value
  LinearActivation activation = LinearActivation::none;
};
void queue_linear_pass(const LinearPass& call, CudaQueue& queue);

struct LinearSums {
  Dtype dtype = Dtype::f32;  // as above; sums run in f32
  int64_t rows = 0, columns = 0;
  LinearRows dz;
  void* sums = nullptr;  // [columns]
  int64_t sums_stride = 1;
  bool accumulate = false;  // sums are added to what is there
  void* partial = nullptr;  // linear_partial_bytes()
};
size_t linear_partial_bytes(int64_t rows, int64_t columns);
void queue_linear_sums(const LinearSums& call, CudaQueue& queue);

}  // namespace perigee
