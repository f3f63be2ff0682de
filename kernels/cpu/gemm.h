// Register tiles of f32 matrix products, the same source for every instruction set (GCC vector extensions). One operand's elements are
// broadcast one by one, the other's rows are loaded as vectors where they lie: of the products that dense layers need only one has
// no operand whose rows can be loaded as vectors, so that hardly anything is ever packed.
//
//   C[i, j] (+)= sum over k of A[i, k] B[k, j]      C: rows of `ldc`, columns contiguous; B: rows of `ldb`, columns contiguous
// A is addressed with contiguous k (rows `a_stride` apart) or with contiguous i (columns `a_stride` apart).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels/registry.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE::gemm {

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

// Panel by panel: for products whose B is large and read from far. With `packed`, panel q of B lies at first(q) * k with rows of
// its own width.
template <bool ContiguousK>
void multiply(const Product& p, bool packed = false, int most = kPanelVectors);

// Row by row of tiles: for products whose C is large, so that it is written in order.
template <bool ContiguousK>
void multiply_by_rows(const Product& p);

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
void transpose_copy(const float* from, int64_t from_stride, int64_t rows, int64_t columns, float* to, int64_t to_stride, bool pad);

}  // namespace PERIGEE_CPU_NAMESPACE::gemm

namespace gemm = PERIGEE_CPU_NAMESPACE::gemm;

}  // namespace perigee
