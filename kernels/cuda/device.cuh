// Shared by all kernels: a thread's index, and sums, maxima and scans over a warp or a block.
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

// 16 bytes that are read and written at once, on such a border.
template <class T>
struct alignas(16) Vector {
  static constexpr int kLanes = 16 / static_cast<int>(sizeof(T));
  T lane[kLanes];
};

inline bool on_vector_border(const void* memory) { return reinterpret_cast<uintptr_t>(memory) % 16 == 0; }

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

// The largest value of all threads of a block, in all of them. Every thread calls it; `room` is one word of shared memory for each warp, which the caller
// does not touch before its next __syncthreads.
__device__ inline uint32_t block_largest(uint32_t value, uint32_t* room) {
  value = __reduce_max_sync(kAllLanes, value);
  if (lane_of_warp() == 0) room[warp_of_block()] = value;
  __syncthreads();
  for (int warp = 0; warp < static_cast<int>(blockDim.x / kWarp); ++warp) value = max(value, room[warp]);
  return value;
}

// Items of one array become what those before them join to, and items[n] what all do. One block works; `room` is one item of shared memory
// for each thread. A thread joins a run of neighbours alone, so that the steps between threads are few.
template <class Item, class Join>
__device__ void block_scan(Item* items, int64_t n, Item nothing, Join join, Item* room) {
  const int self = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int64_t each = (n + threads - 1) / threads, begin = min(n, self * each), end = min(n, begin + each);
  Item own = nothing;
  for (int64_t i = begin; i < end; ++i) own = join(own, items[i]);
  room[self] = own;
  __syncthreads();
  for (int step = 1; step < threads; step *= 2) {
    if (self >= step) own = join(room[self - step], own);
    __syncthreads();
    room[self] = own;
    __syncthreads();
  }
  Item before = self > 0 ? room[self - 1] : nothing;
  for (int64_t i = begin; i < end; ++i) {
    const Item item = items[i];
    items[i] = before;
    before = join(before, item);
  }
  if (self == threads - 1) items[n] = own;
}

}  // namespace perigee
