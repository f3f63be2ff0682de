// Pictures of bytes resampled with 16 bits: values are levels in 1/128, shares 1/32768. Sixteen rows at a time, as resample() has eight. To
// the first element its shares of the differences are added, so that one colour stays as it is. A result is a few hundredths of a level
// from what floats give, and all instruction sets have the same bits.
#pragma once

#if defined(__SSSE3__)
#include <immintrin.h>
#endif

#include "kernels/picture_loops.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors go between functions of one file only

namespace perigee {
namespace {

typedef int16_t S16 __attribute__((vector_size(32), aligned(2)));
typedef int32_t S32 __attribute__((vector_size(32)));
typedef int64_t S64 __attribute__((vector_size(32)));
typedef uint8_t U8 __attribute__((vector_size(16), aligned(1)));

constexpr int64_t kLanes = 16, kByteChunk = 512;  // elements of sixteen rows that stay in the first cache
static_assert(kLanes * sizeof(int16_t) == kResampleRows * sizeof(float) && 2 * kLanes <= kResampleSlack, "resample_scratch() has room");
constexpr int16_t kTopLevel = 255 * 128;  // sums of rounded shares may be beyond the ends

S16 load_16(const int16_t* p) { return *reinterpret_cast<const S16*>(p); }
void store_16(int16_t* p, S16 value) { *reinterpret_cast<S16*>(p) = value; }
S16 load_levels(const uint8_t* p) {
#if defined(__AVX2__)
  return reinterpret_cast<S16>(_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))) << 7;
#else
  return __builtin_convertvector(*reinterpret_cast<const U8*>(p), S16) << 7;
#endif
}

// value * share / 32768, rounded.
S16 share_of(S16 value, S16 share) {
#if defined(__AVX2__)
  return reinterpret_cast<S16>(_mm256_mulhrs_epi16(reinterpret_cast<__m256i>(value), reinterpret_cast<__m256i>(share)));
#else
  S16 result;
#if defined(__SSSE3__)
  const auto half = [](const S16& of, int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(&of) + i); };
  for (int i = 0; i < 2; ++i) _mm_storeu_si128(reinterpret_cast<__m128i*>(&result) + i, _mm_mulhrs_epi16(half(value, i), half(share, i)));
#else
  for (int i = 0; i < kLanes; ++i) result[i] = static_cast<int16_t>((value[i] * share[i] + (1 << 14)) >> 15);
#endif
  return result;
#endif
}

S16 spread_16(int16_t value) { return S16{} + value; }

// to[i][k] = from[k][i], sixteen by sixteen.
void turn_16(const int16_t* from, int64_t from_row, int16_t* to, int64_t to_row) {
#if defined(__AVX2__)
  S16 a[16], b[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) a[i] = load_16(from + i * from_row);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    b[i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9, 25, 10, 26, 11, 27);
    b[i + 8] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 4, 20, 5, 21, 6, 22, 7, 23, 12, 28, 13, 29, 14, 30, 15, 31);
  }
  // Pairs of rows, then fours, then eights: b holds columns 0 to 3 and 8 to 11 in its first half, the others in its second.
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const S32 x = reinterpret_cast<S32>(b[2 * i]), y = reinterpret_cast<S32>(b[2 * i + 1]);
    a[i] = reinterpret_cast<S16>(__builtin_shufflevector(x, y, 0, 8, 1, 9, 4, 12, 5, 13));
    a[i + 8] = reinterpret_cast<S16>(__builtin_shufflevector(x, y, 2, 10, 3, 11, 6, 14, 7, 15));
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const S64 x = reinterpret_cast<S64>(a[2 * i]), y = reinterpret_cast<S64>(a[2 * i + 1]);
    b[i] = reinterpret_cast<S16>(__builtin_shufflevector(x, y, 0, 4, 2, 6));
    b[i + 8] = reinterpret_cast<S16>(__builtin_shufflevector(x, y, 1, 5, 3, 7));
  }
  // b[0], b[1]: column 0 (and 8) of rows 0 to 7, 8 to 15; b[2], b[3]: column 4 (12); b[4]: 2 (10); b[6]: 6 (14); b[8]: 1, ...
  constexpr int kColumn[8] = {0, 4, 2, 6, 1, 5, 3, 7};
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const S64 x = reinterpret_cast<S64>(b[2 * i]), y = reinterpret_cast<S64>(b[2 * i + 1]);
    store_16(to + kColumn[i] * to_row, reinterpret_cast<S16>(__builtin_shufflevector(x, y, 0, 1, 4, 5)));
    store_16(to + (kColumn[i] + 8) * to_row, reinterpret_cast<S16>(__builtin_shufflevector(x, y, 2, 3, 6, 7)));
  }
#else
  for (int i = 0; i < 16; ++i)
    for (int k = 0; k < 16; ++k) to[i * to_row + k] = from[k * from_row + i];
#endif
}

// Nothing beyond element n is read: it may be beyond the picture.
template <int kRows>
void mix_bytes(const uint8_t* from, int64_t row, const int16_t* shares, int32_t count, int64_t n, int16_t* to) {
  const int32_t rows = kRows > 0 ? kRows : count;
  const auto mixed = [&](const uint8_t* at) {
    const S16 first = load_levels(at);
    S16 sum = first;
    for (int32_t t = 1; t < rows; ++t) sum += share_of(load_levels(at + t * row) - first, spread_16(shares[t]));
    return sum;
  };
  if (n >= kLanes) {
    for (int64_t i = 0; i < n - kLanes; i += kLanes) store_16(to + i, mixed(from + i));
    return store_16(to + n - kLanes, mixed(from + n - kLanes));
  }
  for (int64_t i = 0; i < n; ++i) {
    int32_t sum = from[i] << 7;
    for (int32_t t = 1; t < rows; ++t) sum += ((from[t * row + i] - from[i]) * shares[t] + (1 << 7)) >> 8;
    to[i] = static_cast<int16_t>(sum);
  }
}

void mix_bytes_down(const uint8_t* from, int64_t row, const int16_t* shares, int32_t count, int64_t n, int16_t* to) {
  switch (count) {
    case 1: return mix_bytes<1>(from, row, shares, count, n, to);
    case 2: return mix_bytes<2>(from, row, shares, count, n, to);
    case 3: return mix_bytes<3>(from, row, shares, count, n, to);
    case 4: return mix_bytes<4>(from, row, shares, count, n, to);
    default: return mix_bytes<0>(from, row, shares, count, n, to);
  }
}

// Sixteen rows, element j of all together in `lines`, are mixed along the rows, some elements at once.
template <int kElements>
void mix_line(const int16_t* from, int64_t step, const int16_t* shares, int32_t count, int16_t* to, int64_t to_step) {
  S16 first[kElements], sum[kElements];
  for (int k = 0; k < kElements; ++k) sum[k] = first[k] = load_16(from + k * kLanes);
  for (int32_t t = 1; t < count; ++t)
    for (int k = 0; k < kElements; ++k) sum[k] += share_of(load_16(from + t * step + k * kLanes) - first[k], spread_16(shares[t]));
  for (int k = 0; k < kElements; ++k) store_16(to + k * to_step, sum[k]);
}

void mix_lines(const ResampleCall& call, const int16_t* lines, int16_t* to) {
  const int64_t c = call.channels, width = call.columns.size;
  for (int64_t x = 0; x < width; ++x) {
    const int16_t* shares = call.columns.shares + x * call.columns.stride;
    const int16_t* from = lines + (call.columns.first[x] - call.columns.first[0]) * c * kLanes;
    const int32_t count = call.columns.count[x];
    int16_t* out = to + (call.mirrored ? width - 1 - x : x) * kLanes;
    if (c == 3) mix_line<3>(from, c * kLanes, shares, count, out, width * kLanes);
    else
      for (int64_t k = 0; k < c; ++k) mix_line<1>(from + k * kLanes, c * kLanes, shares, count, out + k * width * kLanes, 0);
  }
}

// As floats, in their planes.
void lay_planes(const ResampleCall& call, const int16_t* turned, int64_t y0, int64_t rows) {
  const float scale = call.scale / 128;
  const auto level = [&](int16_t value) { return static_cast<float>(value < 0 ? 0 : value < kTopLevel ? value : kTopLevel) * scale; };
  alignas(32) int16_t tile[kLanes][kLanes];
  for (int64_t k = 0; k < call.channels; ++k)
    for (int64_t x = 0; x < call.columns.size; x += kLanes) {
      const int64_t columns = call.columns.size - x < kLanes ? call.columns.size - x : kLanes;
      turn_16(turned + (k * call.columns.size + x) * kLanes, kLanes, tile[0], kLanes);  // beyond the last one there is room
      float* to = call.to + k * call.to_plane + y0 * call.to_row + x;
      for (int64_t r = 0; r < rows; ++r, to += call.to_row) {
        int64_t i = 0;
#if defined(__AVX2__)
        for (; columns - i >= 8; i += 8) {
          const __m128i least = _mm_max_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(tile[r] + i)), _mm_setzero_si128());
          const __m128i value = _mm_min_epi16(least, _mm_set1_epi16(kTopLevel));
          _mm256_storeu_ps(to + i, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(value)), _mm256_set1_ps(scale)));
        }
#endif
        for (; i < columns; ++i) to[i] = level(tile[r][i]);
      }
    }
}

void resample_shares(const ResampleCall& call) {
  const int64_t c = call.channels, width = call.columns.size, begin = call.columns.first[0];
  const int64_t n = (call.columns.first[width - 1] + call.columns.count[width - 1] - begin) * c;
  auto* const lines = reinterpret_cast<int16_t*>(call.scratch);
  int16_t* const turned = lines + (n + kLanes) * kLanes;
  const uint8_t* from = static_cast<const uint8_t*>(call.from) + begin * c;
  alignas(64) int16_t chunk[kLanes][kByteChunk] = {};
  for (int64_t y0 = 0; y0 < call.rows.size; y0 += kLanes) {
    const int64_t rows = call.rows.size - y0 < kLanes ? call.rows.size - y0 : kLanes;
    for (int64_t j0 = 0; j0 < n; j0 += kByteChunk) {
      const int64_t part = n - j0 < kByteChunk ? n - j0 : kByteChunk;
      for (int64_t r = 0; r < rows; ++r)
        mix_bytes_down(from + call.rows.first[y0 + r] * call.row + j0, call.row, call.rows.shares + (y0 + r) * call.rows.stride,
                       call.rows.count[y0 + r], part, chunk[r]);
      for (int64_t j = 0; j < part; j += kLanes) turn_16(chunk[0] + j, kByteChunk, lines + (j0 + j) * kLanes, kLanes);
    }
    mix_lines(call, lines, turned);
    lay_planes(call, turned, y0, rows);
  }
}

}  // namespace
}  // namespace perigee
