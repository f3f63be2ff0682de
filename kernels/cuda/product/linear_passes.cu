// Activations of dense layers and their slopes, where no epilogue takes them: an element a thread, each read and written once.
// Sums of columns: a block takes 32 columns of a run of rows, a warp reads 32 neighbours of one row. Sums of runs meet in a second, small
// kernel, in the order of the rows, so the result does not depend on which block was first. Floor: dz read once.
#include "kernels/cuda/product/linear_passes.h"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/cuda/elementwise/walk.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace perigee {
namespace {

constexpr int64_t kRunsAtMost = 64;
constexpr int64_t kRowsAtLeast = 64;  // of a run: 8 for each warp
constexpr int kWarps = kThreads / kWarp;

int64_t rows_of_run(int64_t rows) {
  const int64_t even = ceil_divide(rows, kRunsAtMost);
  return even < kRowsAtLeast ? kRowsAtLeast : even;
}
int64_t runs_of(int64_t rows) { return ceil_divide(rows, rows_of_run(rows)); }

__device__ float load(const LinearRows& from, Dtype dtype, int64_t row, int64_t column) {
  return load_element<float>(from.data, dtype, row * from.row_stride + column * from.column_stride);
}

__global__ void __launch_bounds__(kThreads) linear_pass_kernel(LinearPass call) {
  begin_kernel();
  const int64_t n = call.rows * call.columns;
  for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) {
    const int64_t row = divide(i, call.columns, n), column = i - row * call.columns;
    float value = load(call.from, call.dtype, row, column);
    if (call.kept.data == nullptr) {
      value = gelu_value<float>(value, tanh(gelu_argument(value)));
    } else {
      const float kept = load(call.kept, call.dtype, row, column);
      if (call.activation == LinearActivation::gelu_tanh) value *= gelu_slope<float>(kept, tanh(gelu_argument(kept)));
      else if (!(kept > 0)) value = 0;
    }
    store_element<float>(call.to.data, call.dtype, row * call.to.row_stride + column * call.to.column_stride, value);
  }
}

__global__ void __launch_bounds__(kThreads) linear_runs_kernel(LinearSums call, int64_t tiles, int64_t run_rows) {
  begin_kernel();
  __shared__ float sums[kWarps][kWarp];
  const int64_t tile = blockIdx.x % tiles, run = blockIdx.x / tiles;
  const int64_t column = tile * kWarp + lane_of_warp();
  const int64_t end = min(call.rows, (run + 1) * run_rows);
  float sum = 0;
  if (column < call.columns)
    for (int64_t row = run * run_rows + warp_of_block(); row < end; row += kWarps) sum += load(call.dz, call.dtype, row, column);
  sums[warp_of_block()][lane_of_warp()] = sum;
  __syncthreads();
  if (warp_of_block() != 0 || column >= call.columns) return;
  for (int warp = 1; warp < kWarps; ++warp) sum += sums[warp][lane_of_warp()];
  static_cast<float*>(call.partial)[run * call.columns + column] = sum;
}

__global__ void __launch_bounds__(kThreads) linear_sums_kernel(LinearSums call, int64_t runs) {
  begin_kernel();
  const auto* const partial = static_cast<const float*>(call.partial);
  for (int64_t column = thread_of_grid(); column < call.columns; column += threads_of_grid()) {
    float sum = 0;
    for (int64_t run = 0; run < runs; ++run) sum += partial[run * call.columns + column];
    const int64_t at = column * call.sums_stride;
    store_element<float>(call.sums, call.dtype, at, call.accumulate ? load_element<float>(call.sums, call.dtype, at) + sum : sum);
  }
}

}  // namespace

size_t linear_partial_bytes(int64_t rows, int64_t columns) { return static_cast<size_t>(runs_of(rows) * columns) * sizeof(float); }

void queue_linear_pass(const LinearPass& call, CudaQueue& queue) {
  Launches(queue, "linear pass").launch(linear_pass_kernel, blocks_for(call.rows * call.columns), kThreads, call);
}

void queue_linear_sums(const LinearSums& call, CudaQueue& queue) {
  Launches launches(queue, "linear sums");
  const int64_t tiles = ceil_divide(call.columns, kWarp), runs = runs_of(call.rows);
  launches.launch(linear_runs_kernel, tiles * runs, kThreads, call, tiles, rows_of_run(call.rows));
  launches.launch(linear_sums_kernel, blocks_for(call.columns), kThreads, call, runs);
}

}  // namespace perigee
