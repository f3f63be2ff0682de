// Kernels of f64: loops that are short and right, a thread or a warp for each result, instead of tiles and vectors. f64 serves checks and
// small problems, but every user installs it: these files are PTX alone, which the driver compiles when it is first wanted. All kernels of
// a file have the same signature, and read their operands as the call has them.
#pragma once

#include <cstring>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/reduce/rows.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/registry.h"

namespace perigee {

struct WideCall {
  static constexpr int kMostIn = 7, kMostOut = 4;
  static constexpr size_t kMostParams = 72;
  View in[kMostIn], out[kMostOut];
  int64_t results = 0;  // threads or warps that have one
  bool accumulate = false;
  alignas(8) std::byte params[kMostParams] = {};

  template <class P>
  __device__ const P& as() const {
    return *reinterpret_cast<const P*>(params);
  }
};

using WideKernel = void (*)(WideCall);

// One op's row in a file's table.
struct WideOp {
  const char* name;
  WideKernel kernel;
  int64_t (*results)(const KernelCall&);
  size_t params;  // bytes
  bool per_warp;  // a warp (which is a block) for each result; else a thread
};

inline void run_wide(const WideOp& op, const KernelCall& call) {
  WideCall all;
  for (int i = 0; i < call.n_in && i < WideCall::kMostIn; ++i) all.in[i] = call.in[i];
  for (int i = 0; i < call.n_out && i < WideCall::kMostOut; ++i) all.out[i] = call.out[i];
  all.results = op.results(call);
  all.accumulate = call.accumulate;
  std::memcpy(all.params, call.params, op.params);
  Launches on(*call.queue, op.name);
  on.launch(op.kernel, op.per_warp ? all.results : blocks_for(all.results), op.per_warp ? kWarp : kThreads, all);
}

inline const char* decline_unless_f64(const KernelCall& call) { return call.out[0].dtype == Dtype::f64 ? nullptr : "only f64"; }

// The kernel of row `kIndex` of a file's table. Clang takes no reference to the row itself.
template <const auto& kOps, size_t kIndex>
constexpr Kernel wide_kernel(bool accumulates = false) {
  return {.op = kOps[kIndex].name,
          .name = "wide",
          .backend = Backend::cuda,
          .decline = decline_unless_f64,
          .run = [](const KernelCall& call) { run_wide(kOps[kIndex], call); },
          .accumulates = accumulates};
}

// Calls f(result) for each result that the thread has.
template <class F>
__device__ void for_each_thread(const WideCall& call, F f) {
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < call.results; i += threads_of_grid()) f(i);
}

// Where element i, in row-major order, of the first `rank` dimensions lies; dimension `without` is left out.
__device__ __attribute__((noinline)) inline int64_t wide_place(const View& view, int rank, int64_t i, int without) {
  int64_t place = 0;
#pragma unroll 1
  for (int d = rank - 1; d >= 0; --d) {
    if (d == without) continue;
    place += i % view.dims[d] * view.strides[d];
    i /= view.dims[d];
  }
  return place;
}

__device__ inline double& wide_at(const View& view, int64_t place) { return static_cast<double*>(view.data)[place]; }

__device__ inline double wide_or(const View& view, int64_t i, double absent) {
  return view.data != nullptr ? wide_at(view, i * view.strides[0]) : absent;
}

__device__ inline void wide_put(const View& view, int64_t place, double x, bool accumulate) {
  double& to = wide_at(view, place);
  to = accumulate ? to + x : x;
}

__device__ inline int64_t image_place(const View& view, int64_t n, int64_t c, int64_t row, int64_t column) {
  return n * view.strides[0] + c * view.strides[1] + row * view.strides[2] + column * view.strides[3];
}

// The index of a window's largest element: u8 or i32.
__device__ inline int64_t wide_index(const View& view, int64_t place) {
  return view.dtype == Dtype::u8 ? int64_t{static_cast<const uint8_t*>(view.data)[place]}
                                 : int64_t{static_cast<const int32_t*>(view.data)[place]};
}
__device__ inline void wide_put_index(const View& view, int64_t place, int64_t x) {
  if (view.dtype == Dtype::u8) static_cast<uint8_t*>(view.data)[place] = static_cast<uint8_t>(x);
  else static_cast<int32_t*>(view.data)[place] = static_cast<int32_t>(x);
}

// Functions of many instructions, once in a file.
__device__ __attribute__((noinline)) inline double wide_power(double x, double y) { return std::pow(x, y); }
__device__ __attribute__((noinline)) inline double wide_exp(double x) { return std::exp(x); }

// Calls f(i) for i in [0, n) on the threads of the warp.
template <class F>
__device__ void for_each_of_warp(int64_t n, F f) {
#pragma unroll 1
  for (int64_t i = threadIdx.x; i < n; i += kWarp) f(i);
}

__device__ __attribute__((noinline)) inline double warp_sum(double x) { return group_sum<kWarp>(x); }

inline int64_t wide_elements(const KernelCall& call) { return call.out[0].elements(); }

}  // namespace perigee
