// Copies between two strided views of the same shape and dtype: runs where both are contiguous, else small blocks in which one side's
// cache lines are written while the other's are still held. Only for files that are compiled once per instruction set.
#pragma once

#include <cstring>

#include "kernels/cpu/vector_math.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE {

// The common dimensions in the memory order of the target, merged where both sides allow it.
struct CopySpace {
  int rank = 0;
  int64_t dims[kMaxRank] = {}, in[kMaxRank] = {}, out[kMaxRank] = {};
};

inline int64_t distance(int64_t x) { return x < 0 ? -x : x; }

inline CopySpace copy_space(const View& x, const View& y) {
  CopySpace space;
  int order[kMaxRank], n = 0;
  for (int d = 0; d < y.rank; ++d) {
    if (y.dims[d] == 1) continue;
    int at = n++;
    for (; at > 0 && distance(y.strides[order[at - 1]]) < distance(y.strides[d]); --at) order[at] = order[at - 1];
    order[at] = d;
  }
  for (int k = 0; k < n; ++k) {
    const int d = order[k], last = space.rank - 1;
    const bool merges = last >= 0 && space.in[last] == x.strides[d] * x.dims[d] && space.out[last] == y.strides[d] * x.dims[d];
    if (!merges) space.dims[space.rank++] = 1;
    space.dims[space.rank - 1] *= x.dims[d];
    space.in[space.rank - 1] = x.strides[d];
    space.out[space.rank - 1] = y.strides[d];
  }
  return space;
}

template <class T, bool accumulate>
void copy_run(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t n) {
  if (from_stride == 1 && to_stride == 1) {
    if constexpr (accumulate) {
      for (int64_t i = 0; i < n; ++i) to[i] += from[i];
    } else {
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i)
    to[i * to_stride] = accumulate ? static_cast<T>(to[i * to_stride] + from[i * from_stride]) : from[i * from_stride];
}

// Turns 4 x 4 floats: the source is contiguous along rows, the target along columns.
inline void transpose_4x4(const float* from, int64_t from_column, float* to, int64_t to_row) {
  __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + from_column), c = _mm_loadu_ps(from + 2 * from_column),
         d = _mm_loadu_ps(from + 3 * from_column);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(to, a);
  _mm_storeu_ps(to + to_row, b);
  _mm_storeu_ps(to + 2 * to_row, c);
  _mm_storeu_ps(to + 3 * to_row, d);
}

// A source, a target, and how far apart their rows and columns lie.
template <class T>
struct Plane {
  const T* from;
  T* to;
  int64_t from_row, from_column, to_row, to_column;
};

// Element by element for rows [r0, r1) and columns [c0, c1), the longer side innermost.
template <class T, bool accumulate>
void copy_part(const Plane<T>& p, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
  if (c1 - c0 >= r1 - r0) {
    for (int64_t r = r0; r < r1; ++r)
      copy_run<T, accumulate>(p.from + r * p.from_row + c0 * p.from_column, p.from_column, p.to + r * p.to_row + c0 * p.to_column,
                              p.to_column, c1 - c0);
  } else {
    for (int64_t c = c0; c < c1; ++c)
      copy_run<T, accumulate>(p.from + r0 * p.from_row + c * p.from_column, p.from_row, p.to + r0 * p.to_row + c * p.to_column, p.to_row,
                              r1 - r0);
  }
}

// rows x columns, the target's columns innermost, the source's rows: in blocks of 16 rows, so that what a cache line of the source
// holds is used before it is gone.
template <class T, bool accumulate>
void copy_blocks(const Plane<T>& p, int64_t rows, int64_t columns) {
  constexpr int64_t kSide = 16;
  const bool tiles = sizeof(T) == 4 && !accumulate && p.from_row == 1 && p.to_column == 1 && columns >= 4;
  if (columns < 4) return copy_part<T, accumulate>(p, 0, rows, 0, columns);
  for (int64_t r0 = 0; r0 < rows; r0 += kSide) {
    const int64_t r1 = rows - r0 < kSide ? rows : r0 + kSide;
    const int64_t r4 = tiles ? r0 + (r1 - r0) / 4 * 4 : r0, c4 = tiles ? columns / 4 * 4 : 0;
    for (int64_t c = 0; c < c4; c += 4)
      for (int64_t r = r0; r < r4; r += 4)
        transpose_4x4(reinterpret_cast<const float*>(p.from + r + c * p.from_column), p.from_column,
                      reinterpret_cast<float*>(p.to + r * p.to_row + c), p.to_row);
    if (c4 < columns) copy_part<T, accumulate>(p, r0, r4, c4, columns);
    for (int64_t c0 = 0; c0 < columns && r4 < r1; c0 += kSide)
      copy_part<T, accumulate>(p, r4, r1, c0, columns - c0 < kSide ? columns : c0 + kSide);
  }
}

template <class T, bool accumulate>
void copy_views(const View& x, const View& y) {
  for (int d = 0; d < y.rank; ++d)
    if (y.dims[d] == 0) return;
  CopySpace space = copy_space(x, y);
  if (space.rank == 0) return copy_run<T, accumulate>(x.as<T>(), 1, y.as<T>(), 1, 1);
  const int inner = space.rank - 1;
  int rows = -1;  // the dimension along which the source is contiguous, when it is not the target's
  if (space.in[inner] != 1)
    for (int d = 0; d < inner; ++d)
      if (space.in[d] == 1) rows = d;
  int64_t index[kMaxRank] = {};
  while (true) {
    int64_t from = 0, to = 0;
    for (int d = 0; d < inner; ++d) {
      from += index[d] * space.in[d];
      to += index[d] * space.out[d];
    }
    if (rows >= 0)
      copy_blocks<T, accumulate>({x.as<T>() + from, y.as<T>() + to, space.in[rows], space.in[inner], space.out[rows], space.out[inner]},
                                 space.dims[rows], space.dims[inner]);
    else copy_run<T, accumulate>(x.as<T>() + from, space.in[inner], y.as<T>() + to, space.out[inner], space.dims[inner]);
    int d = inner - 1;
    while (d >= 0 && (d == rows || ++index[d] == space.dims[d])) index[d--] = 0;
    if (d < 0) return;
  }
}

// Any dtype; adds only in f32.
inline void strided_copy(const View& x, const View& y, bool accumulate) {
  if (accumulate) return copy_views<float, true>(x, y);
  switch (dtype_bytes(x.dtype)) {
    case 1: return copy_views<uint8_t, false>(x, y);
    case 2: return copy_views<uint16_t, false>(x, y);
    case 4: return copy_views<uint32_t, false>(x, y);
    default: return copy_views<uint64_t, false>(x, y);
  }
}

}  // namespace PERIGEE_CPU_NAMESPACE
}  // namespace perigee
