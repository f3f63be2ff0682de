// Shared by the factorizations. They compute in f64 whatever is stored, as the reference does, in work memory by columns: shared memory
// where it is enough, else scratch. A warp works on a column, and row i always belongs to lane i % 32, so that a warp never waits for
// itself; threads of a block meet at barriers. All sums have one order. What has no result (a singular matrix, one that is not positive
// definite, NaN where there are no values then) is NaN in all of that matrix's results, and in no other's.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/wide/wide.cuh"
#include "kernels/registry.h"

namespace perigee {

constexpr int kLinalgThreads = 512;  // at most
constexpr int kLinalgRoom = 2048;    // numbers of shared memory: blocks of small matrices share a multiprocessor
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

struct LinalgCall {
  View in[2], out[3];
  double* scratch = nullptr;  // null: shared memory is enough
  int64_t count = 0;          // matrices
  int64_t size = 0;           // numbers of work memory of one
  int rows = 0, columns = 0, sides = 0;
  int parts = 1;                     // blocks that share a matrix
  int first = 0, last = 0, job = 0;  // of factorizations (linalg_factors.cu)
  unsigned stages = 0;
};

// One matrix, column (dims = 1) or number (dims = 0) of a batch, as the call has it.
struct Plane {
  __device__ Plane(const View& view, int dims, int64_t matrix)
      : data(view.data),
        place(wide_place(view, view.rank - dims, matrix, -1)),
        row(dims > 0 ? view.strides[view.rank - dims] : 0),
        column(dims == 2 ? view.strides[view.rank - 1] : 0),
        wide(view.dtype == Dtype::f64) {}
  __device__ double load(int64_t i, int64_t j = 0) const {
    const int64_t at = place + i * row + j * column;
    return wide ? static_cast<const double*>(data)[at] : double{static_cast<const float*>(data)[at]};
  }
  __device__ void store(double x, int64_t i = 0, int64_t j = 0) const {
    const int64_t at = place + i * row + j * column;
    if (wide) static_cast<double*>(data)[at] = x;
    else static_cast<float*>(data)[at] = static_cast<float>(x);
  }
  void* data;
  int64_t place, row, column;
  bool wide;
};

__device__ inline int warps_of_block() { return static_cast<int>(blockDim.x) / kWarp; }

static __device__ inline double* linalg_room() {
  __shared__ double room[kLinalgRoom];
  return room;
}
static __device__ inline double* linalg_meeting() {
  __shared__ double room[kLinalgThreads / kWarp];
  return room;
}

__device__ inline double larger(double a, double b) { return b > a || b != b ? b : a; }  // keeps a NaN

// Joins the values of all threads of the block; every thread gets the result.
template <class Join>
__device__ double block_join(double value, Join join) {
  double* const room = linalg_meeting();
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) value = join(value, __shfl_xor_sync(kAllLanes, value, step));
  if (lane_of_warp() == 0) room[warp_of_block()] = value;
  __syncthreads();
  value = room[0];
#pragma unroll 1
  for (int warp = 1; warp < warps_of_block(); ++warp) value = join(value, room[warp]);
  __syncthreads();  // the room is free again
  return value;
}
static __device__ __attribute__((noinline)) double sum_of_block(double value) {
  return block_join(value, [](double a, double b) { return a + b; });
}
static __device__ __attribute__((noinline)) double largest_of_block(double value) { return block_join(value, larger); }

// --- Householder's reflections: H = 1 - tau v v^T with v_k = 1, zeros before k and the rest below the diagonal of column k ---

// x = H x, by one warp.
static __device__ __attribute__((noinline)) void reflect(const double* v, double tau, double* x, int k, int rows) {
  const int first = k / kWarp * kWarp + lane_of_warp();
  double dot = 0;
#pragma unroll 1
  for (int i = first; i < rows; i += kWarp)
    if (i >= k) dot += i == k ? x[i] : v[i] * x[i];
  dot = warp_sum(dot) * tau;
#pragma unroll 1
  for (int i = first; i < rows; i += kWarp)
    if (i >= k) x[i] -= i == k ? dot : v[i] * dot;
}

// Columns [begin, end) become reflections below the diagonal, and R on it and above (LAPACK's geqr2 and its signs).
static __device__ __attribute__((noinline)) void qr_panel(double* a, int rows, int begin, int end, double* taus) {
  const int self = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
#pragma unroll 1
  for (int k = begin; k < end; ++k) {
    double* const v = a + int64_t{k} * rows;
    double largest = 0, sum = 0;
#pragma unroll 1
    for (int i = k + 1 + self; i < rows; i += threads) largest = larger(largest, std::abs(v[i]));
    largest = largest_of_block(largest);
    const double alpha = v[k];
    double tau = 0, beta = alpha;
    if (largest != 0) {
      largest = larger(largest, std::abs(alpha));
#pragma unroll 1
      for (int i = k + self; i < rows; i += threads) sum += v[i] / largest * (v[i] / largest);
      beta = -std::copysign(largest * std::sqrt(sum_of_block(sum)), alpha);
      tau = (beta - alpha) / beta;
#pragma unroll 1
      for (int i = k + 1 + self; i < rows; i += threads) v[i] /= alpha - beta;
    }
    __syncthreads();
    if (self == 0) v[k] = beta, taus[k] = tau;
#pragma unroll 1
    for (int c = k + 1 + warp_of_block(); c < end; c += warps_of_block()) reflect(v, tau, a + int64_t{c} * rows, k, rows);
    __syncthreads();
  }
}

// Column c of Q = H_0 H_1 ... of so many reflections, by one warp.
static __device__ __attribute__((noinline)) void q_column(const double* a, int rows, int reflections, const double* taus, int c,
                                                          double* q) {
#pragma unroll 1
  for (int i = lane_of_warp(); i < rows; i += kWarp) q[i] = i == c;
#pragma unroll 1
  for (int k = min(c, reflections - 1); k >= 0; --k) reflect(a + int64_t{k} * rows, taus[k], q, k, rows);
}

// --- the host's side ---

constexpr int threads_for_linalg(int64_t n) { return n <= 16 ? kWarp : n <= 64 ? 128 : kLinalgThreads; }

inline int64_t matrices_of(const View& view, int dims) {
  int64_t count = 1;
  for (int d = 0; d < view.rank - dims; ++d) count *= view.dims[d];
  return count;
}

// About as many as a GPU runs at once: blocks that go through the matrices one after another need no more memory than that.
constexpr int64_t kLinalgBlocks = 264, kSmallLinalgBlocks = 2112;
inline bool fits_shared_memory(const LinalgCall& call) { return call.parts == 1 && call.size <= kLinalgRoom; }
inline int64_t linalg_blocks(const LinalgCall& call) {
  return call.parts > 1 ? call.count : std::min(call.count, fits_shared_memory(call) ? kSmallLinalgBlocks : kLinalgBlocks);
}

template <LinalgCall (*describe)(const KernelCall&)>
size_t linalg_scratch(const KernelCall& call) {
  const LinalgCall all = describe(call);
  return fits_shared_memory(all) ? 0 : static_cast<size_t>(linalg_blocks(all) * all.size) * sizeof(double);
}

}  // namespace perigee
