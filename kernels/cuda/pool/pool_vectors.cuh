// Pooling of images with channels last, 16 bytes of channels a thread: what it takes to find a window is then a small part of the work, and
// elements of a row are read a few together. An element by itself (pool.cu) costs so many instructions, a division for each dimension and
// an offset for each element of the window, that they take longer than memory does.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/divisor.cuh"
#include "kernels/cuda/elementwise/lanes.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/ops/pool.h"

namespace perigee {

constexpr int64_t kMostVectors = INT32_MAX;  // of an image: their numbers have 32 bits

struct PoolVectors {
  const void *from = nullptr, *argmax = nullptr;  // x; or dy, and what its windows chose
  void *to = nullptr, *chosen = nullptr;
  Dtype dtype = Dtype::f32;
  int32_t n = 0;                   // vectors of the result
  Divisor vectors, columns, rows;  // of the result
  int32_t from_rows = 0, from_columns = 0;
  int32_t kernel[2], stride[2], before[2];
  Divisor stride_of[2];
  bool max = false, average = false, whole = false, accumulate = false;  // whole: averages count what lies in the padding
};

// Elements a window has inside the image, along one dimension: [first, end), counted from the window's own first.
struct Reach {
  int begin, first, end;  // begin: where the window begins, in the image
  __device__ Reach(const PoolVectors& call, int dimension, int window, int size)
      : begin(window * call.stride[dimension] - call.before[dimension]) {
    first = max(0, -begin), end = min(call.kernel[dimension], size - begin);
  }
  __device__ int count() const { return max(0, end - first); }
};

// The factor of a window's sum.
static __device__ __attribute__((noinline)) float window_scale(const PoolVectors& call, Reach down, Reach right) {
  if (!call.average) return 1;
  const int count = call.whole ? call.kernel[0] * call.kernel[1] : down.count() * right.count();
  return count > 0 ? 1.0f / static_cast<float>(count) : 0.0f;
}

__global__ void __launch_bounds__(kThreads) pool_vectors_kernel(const __grid_constant__ PoolVectors call) {
  begin_kernel();
  constexpr int kAhead = 3;
  const auto vectors = static_cast<int>(call.vectors.by);
#pragma unroll 1
  for (auto i = static_cast<uint32_t>(thread_of_grid()); i < static_cast<uint32_t>(call.n); i += static_cast<uint32_t>(threads_of_grid())) {
    uint32_t rest = i;
    const int vector = call.vectors.take(rest), column = call.columns.take(rest), row = call.rows.take(rest);
    const Reach down(call, 0, row, call.from_rows), right(call, 1, column, call.from_columns);
    float value[kLanes];
    uint32_t where[kLanes] = {};
    bool any = !call.max;
    for (float& one : value) one = any ? 0 : float_from_bits(0x7fc00000u);  // NaN: smaller than nothing
#pragma unroll 1
    for (int r = down.first; r < down.end; ++r) {
      const int line = (static_cast<int>(rest) * call.from_rows + down.begin + r) * call.from_columns + right.begin;
#pragma unroll 1
      for (int first = right.first; first < right.end; first += kAhead) {
        uint4 read[kAhead];
        for (int k = 0; k < kAhead; ++k) read[k] = load_vector(call.from, (line + min(first + k, right.end - 1)) * vectors + vector);
        int left = min(kAhead, right.end - first);
        auto q = static_cast<uint32_t>(r * call.kernel[1] + first);
#pragma unroll 1
        do {  // not unrolled, as each_row of batch_norm_vectors.cuh
          float x[kLanes];
          unpack(read[0], call.dtype, x);
          if (call.max) {
            for (int l = 0; l < kLanes; ++l) {
              const bool better = (!any | (value[l] == value[l])) & !(x[l] <= value[l]);  // NaN wins, so that it is seen
              value[l] = better ? x[l] : value[l], where[l] = better ? q : where[l];
            }
          } else {
            for (int l = 0; l < kLanes; ++l) value[l] += x[l];
          }
          for (int k = 1; k < kAhead; ++k) read[k - 1] = read[k];
          any = true, ++q;
        } while (--left > 0);
      }
    }
    const float scale = window_scale(call, down, right);
    for (float& one : value) one = any ? one * scale : 0;
    store_vector(call.to, i, packed(value, call.dtype));
    if (call.chosen == nullptr) continue;
    const auto four = [&](int l) { return where[l] | where[l + 1] << 8 | where[l + 2] << 16 | where[l + 3] << 24; };
    if (call.dtype == Dtype::f32) static_cast<uint32_t*>(call.chosen)[i] = four(0);
    else static_cast<uint2*>(call.chosen)[i] = {four(0), four(4)};
  }
}

// Windows over a place of the image, along one dimension: [first, last].
struct Windows {
  int at, first, last;  // at: the place, counted from the padding's edge
  __device__ Windows(const PoolVectors& call, int dimension, int place, int windows) : at(place + call.before[dimension]) {
    const int beyond = at - call.kernel[dimension];  // the last place that the first window may not begin before
    first = beyond < 0 ? 0 : static_cast<int>(call.stride_of[dimension].of(static_cast<uint32_t>(beyond))) + 1;
    last = min(static_cast<int>(call.stride_of[dimension].of(static_cast<uint32_t>(at))), windows - 1);
  }
};

__global__ void __launch_bounds__(kThreads) pool_grad_vectors_kernel(const __grid_constant__ PoolVectors call) {
  begin_kernel();
  constexpr int kAhead = 2;
  const auto vectors = static_cast<int>(call.vectors.by), rows = static_cast<int>(call.rows.by),
             columns = static_cast<int>(call.columns.by);
  const bool wide = call.dtype == Dtype::f32;
#pragma unroll 1
  for (auto i = static_cast<uint32_t>(thread_of_grid()); i < static_cast<uint32_t>(call.n); i += static_cast<uint32_t>(threads_of_grid())) {
    uint32_t rest = i;
    const int vector = call.vectors.take(rest), column = call.columns.take(rest), row = call.rows.take(rest);
    const Windows down(call, 0, row, call.from_rows), right(call, 1, column, call.from_columns);
    float sum[kLanes] = {};
#pragma unroll 1
    for (int a = down.last; a >= down.first; --a) {  // so that the element is a later one of each window, as in the reference
      const int line = (static_cast<int>(rest) * call.from_rows + a) * call.from_columns;
#pragma unroll 1
      for (int last = right.last; last >= right.first; last -= kAhead) {
        uint4 read[kAhead];
        uint2 chosen[kAhead] = {};
        for (int k = 0; k < kAhead; ++k) {
          const int window = (line + max(last - k, right.first)) * vectors + vector;
          read[k] = load_vector(call.from, window);
          if (!call.max) continue;
          if (wide) chosen[k].x = static_cast<const uint32_t*>(call.argmax)[window];
          else chosen[k] = static_cast<const uint2*>(call.argmax)[window];
        }
        int j = last;
#pragma unroll 1
        do {
          float dy[kLanes];
          unpack(read[0], call.dtype, dy);
          if (call.max) {
            const auto q = static_cast<uint32_t>((down.at - a * call.stride[0]) * call.kernel[1] + right.at - j * call.stride[1]);
            const uint32_t other[2] = {chosen[0].x ^ q * 0x01010101u, chosen[0].y ^ q * 0x01010101u};  // where it chose q, a byte is zero
            for (int l = 0; l < kLanes; ++l) sum[l] += (other[l / 4] & 0xffu << 8 * (l % 4)) == 0 ? dy[l] : 0;
          } else {
            const float scale = window_scale(call, {call, 0, a, rows}, {call, 1, j, columns});
            for (int l = 0; l < kLanes; ++l) sum[l] += dy[l] * scale;
          }
          for (int k = 1; k < kAhead; ++k) read[k - 1] = read[k], chosen[k - 1] = chosen[k];
        } while (--j > last - kAhead && j >= right.first);
      }
    }
    if (call.accumulate) {
      float there[kLanes];
      unpack(load_vector(call.to, i), call.dtype, there);
      for (int l = 0; l < kLanes; ++l) sum[l] += there[l];
    }
    store_vector(call.to, i, packed(sum, call.dtype));
  }
}

// Describes a call by its images, `from` being read; false where they are not such. `numbers` is of argmax, or empty.
inline bool pool_vectors(const PoolParams& p, const View& from, const View& to, const View& numbers, PoolVectors* made) {
  const int lanes = lanes_of(from.dtype);
  if (p.kind == PoolKind::pnorm || p.dilation[0] != 1 || p.dilation[1] != 1 || !has_lanes(from.dtype) || from.dims[1] % lanes != 0)
    return false;
  for (const View* image : {&from, &to}) {
    if (image->dtype != from.dtype || !image->channels_last() || !on_vector_border(image->data)) return false;
    if (image->elements() == 0 || image->elements() / lanes > kMostVectors) return false;
  }
  if (numbers.data != nullptr &&
      (numbers.dtype != Dtype::u8 || !numbers.channels_last() || reinterpret_cast<uintptr_t>(numbers.data) % 8 != 0))
    return false;
  *made = {.from = from.data,
           .to = to.data,
           .dtype = from.dtype,
           .n = static_cast<int32_t>(to.elements() / lanes),
           .vectors = Divisor(to.dims[1] / lanes),
           .columns = Divisor(to.dims[3]),
           .rows = Divisor(to.dims[2]),
           .from_rows = static_cast<int32_t>(from.dims[2]),
           .from_columns = static_cast<int32_t>(from.dims[3]),
           .kernel = {p.kernel[0], p.kernel[1]},
           .stride = {p.stride[0], p.stride[1]},
           .before = {p.padding[0], p.padding[2]},
           .stride_of = {Divisor(p.stride[0]), Divisor(p.stride[1])},
           .max = p.kind == PoolKind::max,
           .average = p.kind == PoolKind::average,
           .whole = p.count_include_pad != 0};
  return true;
}

}  // namespace perigee
