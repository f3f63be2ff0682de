// The tiles of gemm.h, compiled once for each instruction set: every kernel that multiplies shares them.
#include "kernels/cpu/gemm.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE::gemm {
namespace {

// MR rows, NV vectors; Part: of the last vector only `last` lanes exist.
template <int MR, int NV, bool ContiguousK, bool Part>
__attribute__((noinline)) void tile(const Product& p, int64_t i, int64_t j, int last) {
  Vec acc[MR][NV] = {};
  const int64_t ldb = p.ldb, s = p.a_stride, s3 = 3 * s;
  const float* b = p.b + j;
  // With contiguous k, rows 4q .. 4q + 3 are reached from one pointer by 0, s, 2 s, 3 s: few registers hold all rows' addresses.
  constexpr int kBases = ContiguousK ? (MR + 3) / 4 : 1;
  const float* a[kBases];
  for (int q = 0; q < kBases; ++q) a[q] = ContiguousK ? p.a + (i + 4 * q) * s : p.a + i;
  const auto step = [&](const float* row, int u) __attribute__((always_inline)) {
    Vec v[NV];
#pragma GCC unroll 8
    for (int n = 0; n < NV; ++n) v[n] = Part && n == NV - 1 ? load_first(row + n * kLanes, last) : load(row + n * kLanes);
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) {
      const int r = m % 4;
      const float x = ContiguousK ? a[m / 4][(r == 0 ? 0 : r == 1 ? s : r == 2 ? 2 * s : s3) + u] : a[0][m];
#pragma GCC unroll 8
      for (int n = 0; n < NV; ++n) acc[m][n] += v[n] * x;
    }
  };
  int64_t k = p.k;
  if (ContiguousK) {
    for (; k >= 4; k -= 4) {
      step(b, 0);
      step(b + ldb, 1);
      step(b + 2 * ldb, 2);
      step(b + 3 * ldb, 3);
      b += 4 * ldb;
#pragma GCC unroll 4
      for (int q = 0; q < kBases; ++q) a[q] += 4;
    }
    for (; k > 0; --k, b += ldb) {
      step(b, 0);
      for (int q = 0; q < kBases; ++q) ++a[q];
    }
  } else {
    for (; k > 0; --k, b += ldb) {
      step(b, 0);
      a[0] += s;
    }
  }
  float* c = p.c + i * p.ldc + j;
#pragma GCC unroll 8
  for (int n = 0; n < NV; ++n) {
    const bool part = Part && n == NV - 1;
    Vec bias = {};
    if (p.finish.bias) bias = part ? load_first(p.finish.bias + j + n * kLanes, last) : load(p.finish.bias + j + n * kLanes);
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) {
      float* to = c + m * p.ldc + n * kLanes;
      Vec v = acc[m][n] + bias;
      if (p.finish.resume) v += part ? load_first(to, last) : load(to);
      if (p.finish.relu) v = relu(v);
      if (p.finish.accumulate) v += part ? load_first(to, last) : load(to);
      if (part) store_first(to, v, last);
      else store(to, v);
    }
  }
}

// All rows of the columns from j on, NV vectors wide.
template <int NV, bool ContiguousK, bool Part>
void column_panel(const Product& p, int64_t j, int last) {
  constexpr int MR = tile_rows(NV);
  int64_t i = 0;
  for (; i + MR <= p.m; i += MR) tile<MR, NV, ContiguousK, Part>(p, i, j, last);
  for (; i + 4 <= p.m; i += 4) tile<4, NV, ContiguousK, Part>(p, i, j, last);
  for (; i < p.m; ++i) tile<1, NV, ContiguousK, Part>(p, i, j, last);
}

template <bool ContiguousK, bool Part>
void column_panel(const Product& p, int64_t j, int vectors, int last) {
  switch (vectors) {
    case 1: return column_panel<1, ContiguousK, Part>(p, j, last);
    case 2: return column_panel<2, ContiguousK, Part>(p, j, last);
    case 3: return column_panel<3, ContiguousK, Part>(p, j, last);
    default: return column_panel<4, ContiguousK, Part>(p, j, last);
  }
}

template <int MR, bool ContiguousK>
PERIGEE_INLINE void row_of_tiles(const Product& p, const Panels& panels, int64_t i) {
  for (int64_t q = 0; q < panels.count; ++q) {
    const int64_t j = panels.first(q);
    const int last = panels.last(q);
    switch (panels.width(q) * 2 + (last == kLanes ? 0 : 1)) {
      case 2: tile<MR, 1, ContiguousK, false>(p, i, j, last); break;
      case 3: tile<MR, 1, ContiguousK, true>(p, i, j, last); break;
      case 4: tile<MR, 2, ContiguousK, false>(p, i, j, last); break;
      case 5: tile<MR, 2, ContiguousK, true>(p, i, j, last); break;
      case 6: tile<MR, 3, ContiguousK, false>(p, i, j, last); break;
      default: tile<MR, 3, ContiguousK, true>(p, i, j, last); break;
    }
  }
}

// So many k at once that a panel of B stays in the second-level cache while all rows of A go over it.
constexpr int64_t kBlock = 1024;

}  // namespace

template <bool ContiguousK>
void multiply(const Product& p, bool packed, int most) {
  const Panels panels(p.n, most);
  const int64_t block = p.finish.relu && p.finish.accumulate ? p.k : kBlock;  // what is added behind relu cannot be resumed
  Product part = p;
  for (int64_t q = 0; q < panels.count; ++q) {
    const int64_t j = panels.first(q);
    const int width = panels.width(q), last = panels.last(q);
    if (packed) part.ldb = width * kLanes;
    int64_t k = 0;
    do {
      part.k = p.k - k < block ? p.k - k : block;
      part.a = p.a + k * (ContiguousK ? 1 : p.a_stride);
      part.b = p.b + k * part.ldb + (packed ? j * p.k - j : 0);
      const bool ends = k + part.k == p.k;
      part.finish = {.accumulate = p.finish.accumulate && k == 0,
                     .bias = ends ? p.finish.bias : nullptr,
                     .relu = ends && p.finish.relu,
                     .resume = k > 0};
      if (last == kLanes) column_panel<ContiguousK, false>(part, j, width, last);
      else column_panel<ContiguousK, true>(part, j, width, last);
      k += block;
    } while (k < p.k);
  }
}

template <bool ContiguousK>
void multiply_by_rows(const Product& p) {
  const Panels panels(p.n, kPanelVectors);
  int64_t i = 0;
  for (; i + kPanelRows <= p.m; i += kPanelRows) row_of_tiles<kPanelRows, ContiguousK>(p, panels, i);
  for (; i + 4 <= p.m; i += 4) row_of_tiles<4, ContiguousK>(p, panels, i);
  for (; i < p.m; ++i) row_of_tiles<1, ContiguousK>(p, panels, i);
}

template void multiply<true>(const Product&, bool, int);
template void multiply<false>(const Product&, bool, int);
template void multiply_by_rows<true>(const Product&);
template void multiply_by_rows<false>(const Product&);

void transpose_copy(const float* from, int64_t from_stride, int64_t rows, int64_t columns, float* to, int64_t to_stride, bool pad) {
  for (int64_t r = 0; r < rows; r += kLanes) {
    const int height = static_cast<int>(rows - r < kLanes ? rows - r : kLanes);
    for (int64_t c = 0; c < columns; c += kLanes) {
      const int width = static_cast<int>(columns - c < kLanes ? columns - c : kLanes);
      Vec v[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        const float* row = from + (r + i) * from_stride + c;
        v[i] = i >= height ? Vec{} : width == kLanes ? load(row) : load_first(row, width);
      }
      transpose(v);
      for (int i = 0; i < width; ++i) {
        float* row = to + (c + i) * to_stride + r;
        if (pad || height == kLanes) store(row, v[i]);
        else store_first(row, v[i], height);
      }
    }
  }
}

}  // namespace PERIGEE_CPU_NAMESPACE::gemm
}  // namespace perigee
