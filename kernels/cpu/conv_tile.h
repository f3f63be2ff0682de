// The inner product of all convolutions: a tile of R rows x Q columns of output positions times NV vectors of output channels stays in
// registers while the window is walked; each weight vector is loaded once for all positions, each input once for all channels.
#pragma once

#include <type_traits>

#include "kernels/cpu/conv_simd.h"

#ifdef PERIGEE_CONV_SIMD
namespace perigee {
namespace {

struct TileCall {
  const float* x;         // input under the first position
  int64_t x_row, x_col;   // floats from one position to the next
  const int32_t* offset;  // the window's segments
  int segments, length;
  const float* w;     // [segment][k][NV * kLanes]
  const float* bias;  // NV * kLanes, or null
  float floor;        // 0 for relu, else -infinity
  float* y;
  int64_t y_row, y_col;
  int last;  // lanes of the last vector that are channels
};
using Tile = void (*)(const TileCall&);

// Column q of a run: base + q * d, from the odd multiples of d and the scales that an address can hold.
struct Columns {
  long d1, d3, d5, d7, d9, d11;
};

template <int Q>
inline V spread_column(const char* base, const Columns& c) {
  if constexpr (Q == 0) return v_spread(base);
  if constexpr (Q == 1) return v_spread<1>(base, c.d1);
  if constexpr (Q == 2) return v_spread<2>(base, c.d1);
  if constexpr (Q == 3) return v_spread<1>(base, c.d3);
  if constexpr (Q == 4) return v_spread<4>(base, c.d1);
  if constexpr (Q == 5) return v_spread<1>(base, c.d5);
  if constexpr (Q == 6) return v_spread<2>(base, c.d3);
  if constexpr (Q == 7) return v_spread<1>(base, c.d7);
  if constexpr (Q == 8) return v_spread<8>(base, c.d1);
  if constexpr (Q == 9) return v_spread<1>(base, c.d9);
  if constexpr (Q == 10) return v_spread<2>(base, c.d5);
  if constexpr (Q == 11) return v_spread<1>(base, c.d11);
}

template <int R, int Q, int NV, int r = 0, int q = 0>
inline void tile_step(V (&acc)[R][Q][NV], const V (&w)[NV], const char* const (&x)[R], const Columns& c) {
  const V b = spread_column<q>(x[r], c);
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) acc[r][q][v] = v_fma(b, w[v], acc[r][q][v]);
  if constexpr (q + 1 < Q) tile_step<R, Q, NV, r, q + 1>(acc, w, x, c);
  else if constexpr (r + 1 < R) tile_step<R, Q, NV, r + 1, 0>(acc, w, x, c);
}

template <int R, int Q, int NV>
void tile(const TileCall& t) {
  V acc[R][Q][NV];
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) {
    const V start = t.bias ? v_load(t.bias + v * kLanes) : v_zero();
#pragma GCC unroll 3
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 12
      for (int q = 0; q < Q; ++q) acc[r][q][v] = start;
  }
  Columns c;
  c.d1 = t.x_col * static_cast<long>(sizeof(float));
  c.d3 = 3 * c.d1, c.d5 = 5 * c.d1, c.d7 = 7 * c.d1, c.d9 = 9 * c.d1, c.d11 = 11 * c.d1;
  const float* w = t.w;
  for (int s = 0; s < t.segments; ++s) {
    const char* x[R];
#pragma GCC unroll 3
    for (int r = 0; r < R; ++r) x[r] = reinterpret_cast<const char*>(t.x + t.offset[s] + r * t.x_row);
    const float* const end = w + static_cast<long>(t.length) * NV * kLanes;
#pragma GCC unroll 1
    for (; w != end; w += NV * kLanes) {
      V wv[NV];
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) wv[v] = v_load(w + v * kLanes);
      tile_step<R, Q, NV>(acc, wv, x, c);
#pragma GCC unroll 3
      for (int r = 0; r < R; ++r) x[r] += sizeof(float);
    }
  }
  const V floor = v_set(t.floor);
  const auto store = [&](auto whole) __attribute__((always_inline)) {
#pragma GCC unroll 3
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 12
      for (int q = 0; q < Q; ++q) {
        float* const y = t.y + r * t.y_row + q * t.y_col;
#pragma GCC unroll 4
        for (int v = 0; v + 1 < NV; ++v) v_store(y + v * kLanes, v_max(floor, acc[r][q][v]));
        const V last = v_max(floor, acc[r][q][NV - 1]);
        if constexpr (decltype(whole)::value) v_store(y + (NV - 1) * kLanes, last);
        else v_store(y + (NV - 1) * kLanes, last, t.last);
      }
  };
  if (t.last == kLanes) store(std::true_type());
  else store(std::false_type());
}

inline constexpr int kTileRows = 3, kTileColumns = 12, kTileVectors = 3;

template <int R, int Q, int NV>
constexpr Tile tile_or_null() {
  if constexpr (R * Q * NV <= kAccumulators) return tile<R, Q, NV>;
  else return nullptr;
}

template <int NV, int R>
inline constexpr Tile kTileRun[kTileColumns] = {tile_or_null<R, 1, NV>(),  tile_or_null<R, 2, NV>(),  tile_or_null<R, 3, NV>(),
                                                tile_or_null<R, 4, NV>(),  tile_or_null<R, 5, NV>(),  tile_or_null<R, 6, NV>(),
                                                tile_or_null<R, 7, NV>(),  tile_or_null<R, 8, NV>(),  tile_or_null<R, 9, NV>(),
                                                tile_or_null<R, 10, NV>(), tile_or_null<R, 11, NV>(), tile_or_null<R, 12, NV>()};
inline constexpr const Tile* kTiles[kTileVectors][kTileRows] = {{kTileRun<1, 1>, kTileRun<1, 2>, kTileRun<1, 3>},
                                                                {kTileRun<2, 1>, kTileRun<2, 2>, kTileRun<2, 3>},
                                                                {kTileRun<3, 1>, kTileRun<3, 2>, kTileRun<3, 3>}};

// A few channels that fill no vector, as dot products: lanes are places in the window. w is [T][segment][length rounded up to lanes].
template <int T, int Q>
void dot_tile(const TileCall& t) {
  V acc[T][Q];
#pragma GCC unroll 4
  for (int i = 0; i < T; ++i)
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) acc[i][q] = v_zero();
  const int64_t padded = up(t.length, kLanes), channel = padded * t.segments;
  const int rest = static_cast<int>(t.length % kLanes);
  const float* w = t.w;
  for (int s = 0; s < t.segments; ++s, w += padded) {
    const float* const x = t.x + t.offset[s];
    int k = 0;
#pragma GCC unroll 1
    for (; k + kLanes <= t.length; k += kLanes) {
      V wv[T];
#pragma GCC unroll 4
      for (int i = 0; i < T; ++i) wv[i] = v_load(w + i * channel + k);
#pragma GCC unroll 4
      for (int q = 0; q < Q; ++q) {
        const V b = v_load(x + q * t.x_col + k);
#pragma GCC unroll 4
        for (int i = 0; i < T; ++i) acc[i][q] = v_fma(b, wv[i], acc[i][q]);
      }
    }
    if (rest == 0) continue;
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) {
      const V b = v_load(x + q * t.x_col + k, rest);
#pragma GCC unroll 4
      for (int i = 0; i < T; ++i) acc[i][q] = v_fma(b, v_load(w + i * channel + k), acc[i][q]);
    }
  }
#pragma GCC unroll 4
  for (int q = 0; q < Q; ++q)
#pragma GCC unroll 4
    for (int i = 0; i < T; ++i) {
      const float y = v_sum(acc[i][q]) + (t.bias ? t.bias[i] : 0.0f);
      t.y[q * t.y_col + i] = y < t.floor ? t.floor : y;
    }
}

inline constexpr int kDotChannels = 4, kDotColumns = 4;
template <int T>
inline constexpr Tile kDotRun[kDotColumns] = {dot_tile<T, 1>, dot_tile<T, 2>, dot_tile<T, 3>, dot_tile<T, 4>};
inline constexpr const Tile* kDotTiles[kDotChannels] = {kDotRun<1>, kDotRun<2>, kDotRun<3>, kDotRun<4>};

#ifdef __AVX512F__
// At most four channels, where a position's window row and those of its three neighbours fit into one vector (few input channels): lanes
// are four neighbouring positions times four channels. w is [segment][k][position][channel], the same for each position.
template <int R, int Q>
void quad_tile(const TileCall& t, int columns) {
  V acc[R][Q];
  const V start = t.bias ? _mm512_broadcast_f32x4(_mm_loadu_ps(t.bias)) : v_zero();
#pragma GCC unroll 2
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 6
    for (int q = 0; q < Q; ++q) acc[r][q] = start;
  const int col = static_cast<int>(t.x_col), rest = columns - 4 * (Q - 1);
  const __m512i first = _mm512_mullo_epi32(_mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3), _mm512_set1_epi32(col));
  const float* w = t.w;
  for (int s = 0; s < t.segments; ++s) {
    V x[R][Q];
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 6
      for (int q = 0; q < Q; ++q)
        x[r][q] = v_load(t.x + t.offset[s] + r * t.x_row + 4 * q * t.x_col, t.length + col * (q + 1 < Q ? 3 : rest - 1));
    __m512i at = first;
#pragma GCC unroll 1
    for (int k = 0; k < t.length; ++k, w += kLanes) {
      const V wv = v_load(w);
#pragma GCC unroll 2
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 6
        for (int q = 0; q < Q; ++q) acc[r][q] = v_fma(_mm512_permutexvar_ps(at, x[r][q]), wv, acc[r][q]);
      at = _mm512_add_epi32(at, _mm512_set1_epi32(1));
    }
  }
  const auto channels = static_cast<__mmask8>((1u << t.last) - 1);
  const V floor = v_set(t.floor);
#pragma GCC unroll 2
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 6
    for (int q = 0; q < Q; ++q) {
      const V v = v_max(floor, acc[r][q]);
      float* const y = t.y + r * t.y_row + 4 * q * t.y_col;
      _mm_mask_storeu_ps(y, channels, _mm512_castps512_ps128(v));
      if (q + 1 < Q || rest > 1) _mm_mask_storeu_ps(y + t.y_col, channels, _mm512_extractf32x4_ps(v, 1));
      if (q + 1 < Q || rest > 2) _mm_mask_storeu_ps(y + 2 * t.y_col, channels, _mm512_extractf32x4_ps(v, 2));
      if (q + 1 < Q || rest > 3) _mm_mask_storeu_ps(y + 3 * t.y_col, channels, _mm512_extractf32x4_ps(v, 3));
    }
}
using QuadTile = void (*)(const TileCall&, int columns);
inline constexpr int kQuadRows = 2, kQuadColumns = 6;
inline constexpr QuadTile kQuadTiles[kQuadRows][kQuadColumns] = {
    {quad_tile<1, 1>, quad_tile<1, 2>, quad_tile<1, 3>, quad_tile<1, 4>, quad_tile<1, 5>, quad_tile<1, 6>},
    {quad_tile<2, 1>, quad_tile<2, 2>, quad_tile<2, 3>, quad_tile<2, 4>, quad_tile<2, 5>, quad_tile<2, 6>}};
#endif

}  // namespace
}  // namespace perigee
#endif
