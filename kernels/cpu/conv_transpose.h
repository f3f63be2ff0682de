// Weights between canonical order (o, c, row, column) and the orders that kernels read and sum in: always a transposition of small
// blocks, here sixteen by sixteen in registers where there are that many.
#pragma once

#include "kernels/cpu/conv_geometry.h"
#include "kernels/cpu/conv_simd.h"

#ifdef PERIGEE_CONV_SIMD
namespace perigee {
namespace {

#ifdef __AVX512F__
inline void transpose_registers(__m512 (&r)[16]) {
  __m512 t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  const auto low = [](__m512 a, __m512 b) { return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))); };
  const auto high = [](__m512 a, __m512 b) { return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))); };
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = low(t[i], t[i + 2]);
    r[i + 1] = high(t[i], t[i + 2]);
    r[i + 2] = low(t[i + 1], t[i + 3]);
    r[i + 3] = high(t[i + 1], t[i + 3]);
  }
  // Now r[4a + b], lane group l, holds rows 4a..4a+3 of column 4l + b: a transposition of groups of four lanes is left.
#pragma GCC unroll 4
  for (int b = 0; b < 4; ++b) {
    const __m512 p = _mm512_shuffle_f32x4(r[b], r[4 + b], 0x88), q = _mm512_shuffle_f32x4(r[b], r[4 + b], 0xdd);
    const __m512 s = _mm512_shuffle_f32x4(r[8 + b], r[12 + b], 0x88), u = _mm512_shuffle_f32x4(r[8 + b], r[12 + b], 0xdd);
    t[b] = _mm512_shuffle_f32x4(p, s, 0x88);
    t[8 + b] = _mm512_shuffle_f32x4(p, s, 0xdd);
    t[4 + b] = _mm512_shuffle_f32x4(q, u, 0x88);
    t[12 + b] = _mm512_shuffle_f32x4(q, u, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = t[i];
}
#endif

// to(j)[i] (+)= from(i)[j] for i < rows, j < columns, both at most 16. `to` has room for `rows` floats.
template <bool Accumulate, class From, class To>
inline void transpose_block(int rows, int columns, From from, To to) {
#ifdef __AVX512F__
  if (rows > 2 && columns > 2) {
    const auto across = static_cast<__mmask16>((1u << columns) - 1), down = static_cast<__mmask16>((1u << rows) - 1);
    __m512 r[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) r[i] = i < rows ? _mm512_maskz_loadu_ps(across, from(i)) : _mm512_setzero_ps();
    transpose_registers(r);
#pragma GCC unroll 16
    for (int j = 0; j < 16; ++j) {
      if (j >= columns) break;
      float* const out = to(j);
      if constexpr (Accumulate) r[j] = _mm512_add_ps(r[j], _mm512_maskz_loadu_ps(down, out));
      if (rows == 16) _mm512_storeu_ps(out, r[j]);
      else _mm512_mask_storeu_ps(out, down, r[j]);
    }
    return;
  }
#endif
  for (int j = 0; j < columns; ++j) {
    float* const out = to(j);
    for (int i = 0; i < rows; ++i)
      if constexpr (Accumulate) out[i] += from(i)[j];
      else out[i] = from(i)[j];
  }
}

// The same for any number of rows and columns: from(i) is row i, to(j, i) the place of column j, row i; rows are cut at multiples of 16.
template <bool Accumulate, class From, class To>
inline void transpose(int64_t rows, int64_t columns, From from, To to) {
  for (int64_t i = 0; i < rows; i += 16)
    for (int64_t j = 0; j < columns; j += 16)
      transpose_block<Accumulate>(
          static_cast<int>(rows - i < 16 ? rows - i : 16),
          static_cast<int>(columns - j < 16 ? columns - j : 16), [&](int a) __attribute__((always_inline)) { return from(i + a) + j; },
          [&](int b) __attribute__((always_inline)) { return to(j + b, i); });
}

// Weights of any strides as canonical ones: themselves, or a copy in `stage`, which has stage_floats() of room.
inline int64_t stage_floats(const View& w) { return w.contiguous() ? 0 : w.elements(); }
inline const float* canonical(const View& w, float* stage) {
  if (w.contiguous()) return w.as<float>();
  float* to = stage;
  for (int64_t o = 0; o < w.dims[0]; ++o)
    for (int64_t c = 0; c < w.dims[1]; ++c)
      for (int64_t i = 0; i < w.dims[2]; ++i)
        for (int64_t j = 0; j < w.dims[3]; ++j)
          *to++ = w.as<float>()[o * w.strides[0] + c * w.strides[1] + i * w.strides[2] + j * w.strides[3]];
  return stage;
}

// One output channel's weights from canonical order into rows of the window: out[segment][padded], gaps untouched.
inline void window_rows(const ConvGeometry& g, const float* w, int64_t padded, float* out) {
  const int64_t taps = g.kh * g.kw, in_row = row_segments(g) ? g.kw : 1;
  transpose<false>(
      g.group_in, taps, [&](int64_t c) { return w + c * taps; },
      [&](int64_t tap, int64_t c) { return out + tap / in_row * padded + tap % in_row * g.group_in + c; });
}

// And back: dw (+)= rows.
template <bool Accumulate>
inline void canonical_weights(const ConvGeometry& g, const float* rows, int64_t padded, float* dw) {
  const int64_t taps = g.kh * g.kw, in_row = row_segments(g) ? g.kw : 1;
  transpose<Accumulate>(
      taps, g.group_in, [&](int64_t tap) { return rows + tap / in_row * padded + tap % in_row * g.group_in; },
      [&](int64_t c, int64_t tap) { return dw + c * taps + tap; });
}

}  // namespace
}  // namespace perigee
#endif
