// Work by rows: a group of threads takes one row, and its members meet in sums and maxima. A group is one thread (where rows of neighbouring
// threads lie side by side in memory), a warp, or a block of kThreads.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/walk.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace perigee {

template <int kGroup>
__device__ int rank_in_group() {
  return static_cast<int>(threadIdx.x) % kGroup;
}
template <int kGroup>
__device__ int64_t group_of_grid() {
  return thread_of_grid() / kGroup;
}
template <int kGroup>
__device__ int64_t groups_of_grid() {
  return threads_of_grid() / kGroup;
}

// One value a warp; not a template, so that the test's stand-in for a GPU can fill it with rubbish.
static __device__ inline double* room_for_groups() {
  __shared__ double room[kThreads / kWarp];
  return room;
}

// Joins the group's values, in all its threads and with the same bits in any order of time; join is commutative.
template <int kGroup, class T, class Join>
__device__ T group_join(T value, Join join) {
  if constexpr (kGroup > 1)
    for (int step = kWarp / 2; step > 0; step /= 2) value = join(value, __shfl_xor_sync(kAllLanes, value, step));
  if constexpr (kGroup > kWarp) {
    static_assert(kGroup == kThreads && sizeof(T) <= sizeof(double));
    T* const room = reinterpret_cast<T*>(room_for_groups());
    __syncthreads();  // the room may still be read by those before
    if (lane_of_warp() == 0) room[warp_of_block()] = value;
    __syncthreads();
    value = room[0];
    for (int warp = 1; warp < kThreads / kWarp; ++warp) value = join(value, room[warp]);
  }
  return value;
}

template <int kGroup, class T>
__device__ T group_sum(T value) {
  return group_join<kGroup>(value, [](T a, T b) { return a + b; });
}

template <int kGroup, class T>
__device__ T group_largest(T value) {
  return group_join<kGroup>(value, [](T a, T b) { return a < b ? b : a; });
}

// Calls f(std::integral_constant<int, kGroup>) with the group that suits rows of n elements that lie `stride` apart.
template <class F>
void with_group(int64_t n, int64_t stride, F f) {
  if (stride != 1 && n > 1) f(std::integral_constant<int, 1>());
  else if (n <= 4096) f(std::integral_constant<int, kWarp>());
  else f(std::integral_constant<int, kThreads>());
}

constexpr int64_t blocks_for_rows(int64_t rows, int group) { return blocks_for(rows * group); }

}  // namespace perigee
