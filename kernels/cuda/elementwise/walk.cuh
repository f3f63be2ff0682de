// How the threads of a kernel find their elements in operands of any strides. The host joins dimensions that lie one behind the other in
// all operands and puts them in the output's order in memory, so that neighbouring threads write neighbouring elements; a dense call is left
// with one dimension and no division.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/view.h"

namespace perigee {

__device__ __attribute__((noinline)) inline int64_t divide_wide(int64_t i, int64_t by) { return i / by; }

// i / by, neither more than `most`.
__device__ inline int64_t divide(int64_t i, int64_t by, int64_t most) {
  return most <= INT32_MAX ? static_cast<int64_t>(static_cast<uint32_t>(i) / static_cast<uint32_t>(by)) : divide_wide(i, by);
}

template <int N>
struct Walk {
  int rank = 0;
  int64_t n = 1;  // elements
  int64_t dims[kMaxRank];
  int64_t strides[N][kMaxRank];

  // Operand k is dense in this order.
  bool dense(int k) const { return rank == 0 || (rank == 1 && strides[k][0] == 1); }
  // Operand k is one element for all.
  bool single(int k) const {
    for (int d = 0; d < rank; ++d)
      if (strides[k][d] != 0) return false;
    return true;
  }
};

// The view without dimension `axis`.
inline View without_axis(const View& view, int axis) {
  View rest = view;
  rest.rank = view.rank - 1;
  for (int d = axis; d < rest.rank; ++d) {
    rest.dims[d] = view.dims[d + 1];
    rest.strides[d] = view.strides[d + 1];
  }
  return rest;
}

// Over the elements of `shape`, its dimensions in that order, outermost first; operands broadcast to it as in NumPy. operands[k] may be
// null: its offsets are 0.
template <int N>
Walk<N> make_walk_in_order(const View& shape, const int* order, const View* const (&operands)[N]) {
  Walk<N> walk;
  for (int i = 0; i < shape.rank; ++i) {
    const int d = order[i];
    walk.n *= shape.dims[d];
    if (shape.dims[d] == 1) continue;
    int64_t strides[N];
    for (int k = 0; k < N; ++k) {
      const int own = operands[k] == nullptr ? -1 : d - shape.rank + operands[k]->rank;
      strides[k] = own >= 0 && operands[k]->dims[own] != 1 ? operands[k]->strides[own] : 0;
    }
    bool joins = walk.rank > 0;
    for (int k = 0; k < N && joins; ++k) joins = walk.strides[k][walk.rank - 1] == strides[k] * shape.dims[d];
    const int to = joins ? walk.rank - 1 : walk.rank++;
    walk.dims[to] = joins ? walk.dims[to] * shape.dims[d] : shape.dims[d];
    for (int k = 0; k < N; ++k) walk.strides[k][to] = strides[k];
  }
  return walk;
}

// In the order of `shape` in memory.
template <int N>
Walk<N> make_walk(const View& shape, const View* const (&operands)[N]) {
  int order[kMaxRank];
  for (int i = 0; i < shape.rank; ++i) {
    int at = i;
    for (; at > 0 && shape.strides[order[at - 1]] < shape.strides[i]; --at) order[at] = order[at - 1];
    order[at] = i;
  }
  return make_walk_in_order<N>(shape, order, operands);
}

// Row-major, whatever the order in memory.
template <int N>
Walk<N> make_logical_walk(const View& shape, const View* const (&operands)[N]) {
  constexpr int kOrder[kMaxRank] = {0, 1, 2, 3, 4, 5, 6, 7};
  return make_walk_in_order<N>(shape, kOrder, operands);
}

// The four coordinates of each element of an image, in its order in memory.
inline Walk<4> make_coordinate_walk(const View& image) {
  View coordinates[4];
  for (int d = 0; d < 4; ++d) {
    coordinates[d] = image;
    for (int64_t& stride : coordinates[d].strides) stride = 0;
    coordinates[d].strides[d] = 1;
  }
  return make_walk<4>(image, {&coordinates[0], &coordinates[1], &coordinates[2], &coordinates[3]});
}

// Offsets of element i in the operands. Division by 32 bits is several times as fast as by 64. Loops over dimensions are not unrolled: most
// calls have one or two, and the module is part of what is installed.
template <int N>
__device__ void locate(const Walk<N>& walk, int64_t i, int64_t (&at)[N]) {
  for (int k = 0; k < N; ++k) at[k] = 0;
#pragma unroll 1
  for (int d = walk.rank - 1; d >= 0; --d) {
    int64_t position = i;
    if (d > 0) {
      i = divide(i, walk.dims[d], walk.n);
      position -= i * walk.dims[d];
    }
    for (int k = 0; k < N; ++k) at[k] += position * walk.strides[k][d];
  }
}

}  // namespace perigee
