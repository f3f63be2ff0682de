// Sums down columns: for each column, kSums sums over many rows. Neighbouring threads take neighbouring columns, so that rows whose columns lie
// side by side in memory are read at full width; the rows of a block are shared among its warps, and the rows of the call among blocks, whose
// sums the last of them adds up in their order. `term(row, column, sums)` adds one element; `result(column, sums)` takes the end.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/walk.cuh"
#include "kernels/cuda/reduce/last_block.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace perigee {

constexpr int kColumnWarps = kThreads / kWarp;
constexpr int64_t kColumnBlocks = 528;              // four for each multiprocessor of the largest device
constexpr int64_t kLeastRows = 16 * kColumnWarps;   // of one block
static_assert(kColumnBlocks / 2 <= kCudaCounters);  // of tiles that have parts

struct ColumnShape {
  int64_t rows = 0, columns = 0;
  int64_t tiles = 0, parts = 1, part_rows = 0;
};

inline ColumnShape column_shape(int64_t rows, int64_t columns) {
  ColumnShape s{.rows = rows, .columns = columns, .tiles = ceil_divide(columns, kWarp)};
  if (s.tiles > 0) s.parts = max(int64_t{1}, min(kColumnBlocks / s.tiles, rows / kLeastRows));
  s.part_rows = ceil_divide(rows, s.parts);
  return s;
}

template <class T, int kSums>
size_t columns_scratch(int64_t rows, int64_t columns) {
  return static_cast<size_t>(column_shape(rows, columns).parts * columns * kSums) * sizeof(T);
}

// Room for two sums in double of each thread.
static __device__ inline double* column_room() {
  __shared__ double room[2 * kThreads];
  return room;
}

// A warp adds up a column's parts.
template <class T, int kSums, class Result>
__device__ void add_column(const T* parts, const ColumnShape& shape, int64_t column, const Result& result) {
  T sum[kSums] = {};
#pragma unroll 2
  for (int64_t part = lane_of_warp(); part < shape.parts; part += kWarp)
    for (int s = 0; s < kSums; ++s) sum[s] += __ldcg(parts + (part * kSums + s) * shape.columns + column);
  for (int other = kWarp / 2; other > 0; other /= 2)
    for (int s = 0; s < kSums; ++s) sum[s] += __shfl_xor_sync(kAllLanes, sum[s], other);
  if (lane_of_warp() == 0) result(column, sum);
}

template <class T, int kSums, class Term, class Result>
__global__ void __launch_bounds__(kThreads) columns_kernel(const __grid_constant__ Term term, const __grid_constant__ Result result,
                                                           ColumnShape shape, T* parts, uint32_t* counters) {
  begin_kernel();
  static_assert(kSums * sizeof(T) <= 2 * sizeof(double));
  const int64_t part = divide(blockIdx.x, shape.tiles, INT32_MAX), tile = blockIdx.x - part * shape.tiles;
  const int64_t column = tile * kWarp + lane_of_warp();
  const int64_t end = min((part + 1) * shape.part_rows, shape.rows);
  T sum[kSums] = {};
  if (column < shape.columns) {
#pragma unroll 1
    for (int64_t row = part * shape.part_rows + warp_of_block(); row < end; row += kColumnWarps) term(row, column, sum);
  }
  T* const room = reinterpret_cast<T*>(column_room());
  for (int s = 0; s < kSums; ++s) room[s * kThreads + threadIdx.x] = sum[s];
  __syncthreads();
  if (warp_of_block() == 0 && column < shape.columns)
    for (int s = 0; s < kSums; ++s) {
      T total = 0;
      for (int warp = 0; warp < kColumnWarps; ++warp) total += room[s * kThreads + warp * kWarp + lane_of_warp()];
      parts[(part * kSums + s) * shape.columns + column] = total;
    }
  if (shape.parts == 1) __syncthreads();
  else if (!last_to_finish(counters + tile, shape.parts)) return;
  const int64_t behind = min((tile + 1) * kWarp, shape.columns);
#pragma unroll 1
  for (int64_t own = tile * kWarp + warp_of_block(); own < behind; own += kColumnWarps) add_column<T, kSums>(parts, shape, own, result);
}

// `scratch` holds columns_scratch<T, kSums>(rows, columns).
template <class T, int kSums, class Term, class Result>
void sum_columns(Launches& on, const Term& term, const Result& result, int64_t rows, int64_t columns, void* scratch) {
  const ColumnShape shape = column_shape(rows, columns);
  on.launch(columns_kernel<T, kSums, Term, Result>, shape.tiles * shape.parts, kThreads, term, result, shape, static_cast<T*>(scratch),
            on.counters());
}

}  // namespace perigee
