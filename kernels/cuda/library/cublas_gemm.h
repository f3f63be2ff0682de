// A matrix product by cuBLASLt, for the kernels of matmul and linear: c = a b, with what cuBLASLt can do in the same pass. Layouts and the
// algorithm that its heuristic chose are kept for calls of the same shape.
#pragma once

#include "kernels/cuda/runtime/queue.h"
#include "kernels/view.h"

namespace perigee {

// Element (i, j) lies at i * row_stride + j * column_stride, in batch number l at l * batch_stride more.
struct GemmMatrix {
  const void* data = nullptr;
  int64_t row_stride = 0, column_stride = 0, batch_stride = 0;
};

struct Gemm {
  Dtype dtype = Dtype::f32;   // of a and b
  Dtype result = Dtype::f32;  // of c, bias, row_sums and kept
  int64_t m = 0, n = 0, k = 0, batches = 1;
  GemmMatrix a;                // m x k
  GemmMatrix b;                // k x n
  GemmMatrix c;                // m x n; written
  bool accumulate = false;     // c += a b
  const void* bias = nullptr;  // [n], added to each row
  bool relu = false;           // of the sum
  void* row_sums = nullptr;    // [m]: sums of a's rows are written there
  // The tanh form of gelu, and m x n elements beside it, columns without gaps and rows a multiple of 8 apart: where they are written, what
  // gelu is taken of; where they are read, the sum is multiplied with gelu's slope there.
  enum class Gelu { none, value, slope } gelu = Gelu::none;
  void* kept = nullptr;  // none: nothing is written
  int64_t kept_stride = 0;
};

// Null when cuBLASLt takes layouts and types; the addresses do not matter, but for whether they are null.
const char* gemm_declines(const Gemm& gemm);
// False when the layouts do not fit or the heuristic knows no algorithm; nothing was queued then. Other failures are the queue's, under
// `kernel`.
bool queue_gemm(const Gemm& gemm, CudaQueue& queue, const char* kernel);
// Reports that a kernel has no algorithm for the call.
void report_no_algorithm(CudaQueue& queue, const char* kernel);

}  // namespace perigee
