// What kernels share: who a thread is, and sums, largest and scans over a warp or a block.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/half.h"

namespace perigee {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ inline int64_t thread_of_grid() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64_t threads_of_grid() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }
__device__ inline int lane_of_warp() { return static_cast<int>(threadIdx.x % kWarp); }
__device__ inline int warp_of_block() { return static_cast<int>(threadIdx.x / kWarp); }
__device__ inline int64_t warp_of_grid() { return thread_of_grid() / kWarp; }

// Bytes of a payload need no alignment.
template <class T>
__device__ T read_bytes(const std::byte* from) {
  T value;
  memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
__device__ void write_bytes(std::byte* to, T value) {
  memcpy(to, &value, sizeof value);
}

// The sum of the values of this lane and those before it.
__device__ inline int64_t warp_inclusive_sum(int64_t value) {
  for (int step = 1; step < kWarp; step *= 2) {
    const int64_t left = __shfl_up_sync(kAllLanes, value, step);
    if (lane_of_warp() >= step) value += left;
  }
  return value;
}

// Of all threads of a block, in all of them. Every thread calls it; `room` is one word of shared memory for each warp, which the caller
// does not touch before its next __syncthreads.
__device__ inline uint32_t block_largest(uint32_t value, uint32_t* room) {
  value = __reduce_max_sync(kAllLanes, value);
  if (lane_of_warp() == 0) room[warp_of_block()] = value;
  __syncthreads();
  for (int warp = 0; warp < static_cast<int>(blockDim.x / kWarp); ++warp) value = max(value, room[warp]);
  return value;
}

// Sums of the threads before this one; `room` is one T for each thread and holds them with this one's afterwards.
template <class T, class Join>
__device__ T block_exclusive_scan(T value, T* room, Join join) {
  const int self = static_cast<int>(threadIdx.x);
  room[self] = value;
  __syncthreads();
  for (int step = 1; step < static_cast<int>(blockDim.x); step *= 2) {
    if (self >= step) value = join(room[self - step], value);
    __syncthreads();
    room[self] = value;
    __syncthreads();
  }
  return self > 0 ? room[self - 1] : T{};
}

}  // namespace perigee
