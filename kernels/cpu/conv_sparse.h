// Gradients of a convolution from a list of the output gradients that are not zero. Behind a max-pool at least three in four are, so
// a list beats every dense form: one entry costs one pass over its window, whose sums stay in registers for the whole list.
#pragma once

#include "kernels/cpu/conv_geometry.h"
#include "kernels/cpu/conv_simd.h"

#ifdef PERIGEE_CONV_SIMD
namespace perigee {
namespace {

struct Entry {
  float g;
  int32_t at;  // in floats: where its weights (input gradient) or its window (weight gradient) begin
};

// R segments of the window, V vectors of each.
struct SparseCall {
  const Entry* entries;
  int count;
  const float* from;      // what entries point into: packed weights [..][segment][padded length], or the image
  const int32_t* offset;  // the R segments, from an entry's place in the image
  int64_t segment;        // padded length: from one segment to the next in packed weights and sums
  float* to;              // the image's gradient under the window, or the sums [segment][padded length]
  int last;               // lanes of the last vector that count
};
using Sparse = void (*)(const SparseCall&);

// to[window] += sum over entries of g * weights
template <int R, int N>
void sparse_input(const SparseCall& s) {
  V acc[R][N];
#pragma GCC unroll 5
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 14
    for (int v = 0; v < N; ++v) acc[r][v] = v_zero();
#pragma GCC unroll 1
  for (const Entry *e = s.entries, *end = e + s.count; e != end; ++e) {
    const V g = v_set(e->g);
    const float* const w = s.from + e->at;
#pragma GCC unroll 5
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 14
      for (int v = 0; v < N; ++v) acc[r][v] = v_fma(g, v_load(w + r * s.segment + v * kLanes), acc[r][v]);
  }
#pragma GCC unroll 5
  for (int r = 0; r < R; ++r) {
    float* const to = s.to + s.offset[r];
#pragma GCC unroll 14
    for (int v = 0; v + 1 < N; ++v) v_store(to + v * kLanes, v_add(v_load(to + v * kLanes), acc[r][v]));
    float* const last = to + (N - 1) * kLanes;
    if (s.last == kLanes) v_store(last, v_add(v_load(last), acc[r][N - 1]));
    else v_store(last, v_add(v_load(last, s.last), acc[r][N - 1]), s.last);
  }
}

// to[segment][..] += sum over entries of g * window; two or four entries at a time where there are few sums, which wait for each other.
template <int R, int N>
void sparse_weight(const SparseCall& s) {
  constexpr int U = R * N <= 3 ? 4 : R * N <= 7 ? 2 : 1;
  V acc[U][R][N];
#pragma GCC unroll 5
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 14
    for (int v = 0; v < N; ++v) {
      acc[0][r][v] = v_load(s.to + r * s.segment + v * kLanes);
#pragma GCC unroll 4
      for (int u = 1; u < U; ++u) acc[u][r][v] = v_zero();
    }
  const Entry* e = s.entries;
  const float* base[R];
#pragma GCC unroll 5
  for (int r = 0; r < R; ++r) base[r] = s.from + s.offset[r];
  const auto add = [&](V(&sums)[R][N], const Entry& entry) __attribute__((always_inline)) {
    const V g = v_set(entry.g);
    const int64_t at = entry.at;
#pragma GCC unroll 5
    for (int r = 0; r < R; ++r) {
      const float* const row = base[r] + at;
#pragma GCC unroll 14
      for (int v = 0; v + 1 < N; ++v) sums[r][v] = v_fma(g, v_load(row + v * kLanes), sums[r][v]);
      sums[r][N - 1] = v_fma(g, v_load(row + (N - 1) * kLanes, s.last), sums[r][N - 1]);
    }
  };
  int i = 0;
#pragma GCC unroll 1
  for (; i + U <= s.count; i += U)
#pragma GCC unroll 4
    for (int u = 0; u < U; ++u) add(acc[u], e[i + u]);
#pragma GCC unroll 1
  for (; i < s.count; ++i) add(acc[0], e[i]);
#pragma GCC unroll 5
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 14
    for (int v = 0; v < N; ++v) {
#pragma GCC unroll 4
      for (int u = 1; u < U; ++u) acc[0][r][v] = v_add(acc[0][r][v], acc[u][r][v]);
      v_store(s.to + r * s.segment + v * kLanes, acc[0][r][v]);
    }
}

inline constexpr int kSparseRows = 5, kSparseVectors = kLanes == 16 ? 14 : 12;
inline constexpr int kSparseSums = kLanes == 16 ? 28 : 12;

template <bool Weight, int R, int N>
constexpr Sparse sparse_or_null() {
  if constexpr (R * N > kSparseSums || N > kSparseVectors) return nullptr;
  else if constexpr (Weight) return sparse_weight<R, N>;
  else return sparse_input<R, N>;
}
template <bool Weight, int N>
inline constexpr Sparse kSparseColumn[kSparseRows] = {sparse_or_null<Weight, 1, N>(), sparse_or_null<Weight, 2, N>(),
                                                      sparse_or_null<Weight, 3, N>(), sparse_or_null<Weight, 4, N>(),
                                                      sparse_or_null<Weight, 5, N>()};
template <bool Weight>
inline constexpr const Sparse* kSparse[14] = {
    kSparseColumn<Weight, 1>,  kSparseColumn<Weight, 2>,  kSparseColumn<Weight, 3>,  kSparseColumn<Weight, 4>, kSparseColumn<Weight, 5>,
    kSparseColumn<Weight, 6>,  kSparseColumn<Weight, 7>,  kSparseColumn<Weight, 8>,  kSparseColumn<Weight, 9>, kSparseColumn<Weight, 10>,
    kSparseColumn<Weight, 11>, kSparseColumn<Weight, 12>, kSparseColumn<Weight, 13>, kSparseColumn<Weight, 14>};

// A window cut into blocks whose sums fit into registers.
struct SparseBlock {
  int segment, rows;  // first segment and how many
  int vector, vectors;
  int last;
};
struct SparseBlocks {
  int count = 0;
  int64_t padded;  // length of a segment rounded up to lanes
  SparseBlock block[2 * kMaxSegments];
};

// False when there are too many blocks.
inline bool sparse_blocks(const ConvGeometry& g, SparseBlocks* b) {
  b->count = 0;
  b->padded = up(g.length, kLanes);
  const int vectors = static_cast<int>(b->padded / kLanes), parts = (vectors + kSparseVectors - 1) / kSparseVectors;
  const int widest = (vectors + parts - 1) / parts;
  int rows = kSparseSums / widest;
  rows = rows > kSparseRows ? kSparseRows : rows;
  const int down = (g.segments + rows - 1) / rows;
  if (down * parts > 2 * kMaxSegments) return false;
  for (int i = 0; i < down; ++i)
    for (int j = 0; j < parts; ++j) {
      const int segment = g.segments * i / down, vector = vectors * j / parts;
      const int last = j + 1 < parts ? kLanes : static_cast<int>(g.length - (b->padded - kLanes));
      b->block[b->count++] = {segment, g.segments * (i + 1) / down - segment, vector, vectors * (j + 1) / parts - vector, last};
    }
  return true;
}

}  // namespace
}  // namespace perigee
#endif
