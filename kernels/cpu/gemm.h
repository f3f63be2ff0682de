// Register tiles of f32 matrix products, the same source for every instruction set (GCC vector extensions). One operand's elements are
// broadcast one by one, the other's rows are loaded as vectors where they lie: of the products that dense layers need only one has
// no operand whose rows can be loaded as vectors, so that hardly anything is ever packed.
//
//   C[i, j] (+)= sum over k of A[i, k] B[k, j]      C: rows of `ldc`, columns contiguous; B: rows of `ldb`, columns contiguous
// A is addressed with contiguous k (rows `a_stride` apart) or with contiguous i (columns `a_stride` apart).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace perigee {
namespace {
namespace gemm {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
constexpr int kAccumulators = 24;  // of 32 registers
#elif defined(__AVX2__)
constexpr int kLanes = 8;
constexpr int kAccumulators = 12;  // of 16
#else
constexpr int kLanes = 4;
constexpr int kAccumulators = 12;
#endif
typedef float Vec __attribute__((vector_size(kLanes * 4), may_alias));
typedef float LooseVec __attribute__((vector_size(kLanes * 4), may_alias, aligned(4)));

#define PERIGEE_INLINE inline __attribute__((always_inline))

PERIGEE_INLINE Vec load(const float* p) { return *reinterpret_cast<const LooseVec*>(p); }
PERIGEE_INLINE void store(float* p, Vec v) { *reinterpret_cast<LooseVec*>(p) = v; }

#if !defined(__AVX512F__) && defined(__AVX2__)
PERIGEE_INLINE __m256i lane_mask(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }
#endif

// The first n lanes; the others are 0 and their memory is not touched.
PERIGEE_INLINE Vec load_first(const float* p, int n) {
#if defined(__AVX512F__)
  return (Vec)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
#elif defined(__AVX2__)
  return (Vec)_mm256_maskload_ps(p, lane_mask(n));
#else
  Vec v = {};
  for (int i = 0; i < n; ++i) v[i] = p[i];
  return v;
#endif
}

PERIGEE_INLINE void store_first(float* p, Vec v, int n) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), (__m512)v);
#elif defined(__AVX2__)
  _mm256_maskstore_ps(p, lane_mask(n), (__m256)v);
#else
  for (int i = 0; i < n; ++i) p[i] = v[i];
#endif
}

PERIGEE_INLINE Vec relu(Vec v) { return v < Vec{} ? Vec{} : v; }  // NaN passes

// The epilogue of a tile whose sums are complete.
struct Finish {
  bool accumulate = false;      // C += result instead of C = result
  const float* bias = nullptr;  // one number per column of C, from the first column on
  bool relu = false;            // of product and bias
  bool resume = false;          // C holds the sum over earlier k: it is part of the product
};

struct Product {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t a_stride = 0;
  const float* b = nullptr;
  int64_t ldb = 0;
  float* c = nullptr;
  int64_t ldc = 0;
  Finish finish;
};

// Rows of tiles that are NV vectors wide.
constexpr int tile_rows(int nv) { return nv == 1 ? (kAccumulators > 12 ? 12 : 8) : kAccumulators / nv; }

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

// Columns cut into nearly equal panels of at most `most` vectors: 500 columns are not 10 panels and a rest that wastes its registers.
struct Panels {
  Panels(int64_t columns, int most) : vectors((columns + kLanes - 1) / kLanes), count((vectors + most - 1) / most), columns(columns) {}
  int64_t first(int64_t q) const { return vectors * q / count * kLanes; }                                   // column
  int width(int64_t q) const { return static_cast<int>(vectors * (q + 1) / count - vectors * q / count); }  // vectors
  int last(int64_t q) const {                                                                               // lanes of its last vector
    const int64_t end = first(q) + width(q) * kLanes;
    return static_cast<int>(end <= columns ? kLanes : columns - end + kLanes);
  }
  int64_t vectors, count, columns;
};

constexpr int kPanelVectors = kAccumulators > 12 ? 3 : 2;
constexpr int kPanelRows = tile_rows(kPanelVectors);

// So many k at once that a panel of B stays in the second-level cache while all rows of A go over it.
constexpr int64_t kBlock = 1024;

// Panel by panel: for products whose B is large and read from far. With `packed`, panel q of B lies at first(q) * k with rows of
// its own width.
template <bool ContiguousK>
void multiply(const Product& p, bool packed = false, int most = kPanelVectors) {
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

// Row by row of tiles: for products whose C is large, so that it is written in order.
template <bool ContiguousK>
void multiply_by_rows(const Product& p) {
  const Panels panels(p.n, kPanelVectors);
  int64_t i = 0;
  for (; i + kPanelRows <= p.m; i += kPanelRows) row_of_tiles<kPanelRows, ContiguousK>(p, panels, i);
  for (; i + 4 <= p.m; i += 4) row_of_tiles<4, ContiguousK>(p, panels, i);
  for (; i < p.m; ++i) row_of_tiles<1, ContiguousK>(p, panels, i);
}

// kLanes x kLanes elements in registers: rows become columns.
template <int Distance, int... Lane>
PERIGEE_INLINE void transpose_stage(Vec (&v)[kLanes], std::integer_sequence<int, Lane...>) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if (i & Distance) continue;
    const Vec x = v[i], y = v[i + Distance];
    v[i] = __builtin_shufflevector(x, y, (Lane & Distance ? kLanes + (Lane ^ Distance) : Lane)...);
    v[i + Distance] = __builtin_shufflevector(x, y, (Lane & Distance ? kLanes + Lane : Lane ^ Distance)...);
  }
}

PERIGEE_INLINE void transpose(Vec (&v)[kLanes]) {
  constexpr std::make_integer_sequence<int, kLanes> lanes;
  transpose_stage<1>(v, lanes);
  transpose_stage<2>(v, lanes);
  if constexpr (kLanes > 4) transpose_stage<4>(v, lanes);
  if constexpr (kLanes > 8) transpose_stage<8>(v, lanes);
}

// to[c * to_stride + r] = from[r * from_stride + c] for r < rows, c < columns; the rest of the last vector of each row of `to` becomes 0
// when `pad` (then `to` has room for whole vectors).
inline void transpose_copy(const float* from, int64_t from_stride, int64_t rows, int64_t columns, float* to, int64_t to_stride, bool pad) {
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

}  // namespace gemm
}  // namespace
}  // namespace perigee
