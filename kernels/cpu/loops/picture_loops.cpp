// Loops of pictures, eight results at a time. Contraction is off in this file, and sums run in the same order for each instruction set.
#include "kernels/picture_loops.h"

#include <cmath>
#include <type_traits>

#include "kernels/cpu/loops/resample_bytes.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

typedef float F8 __attribute__((vector_size(32), aligned(4)));  // clang takes no alignment from `using`
static_assert(alignof(F8) == alignof(float));

F8 load(const float* p) { return *reinterpret_cast<const F8*>(p); }

void store(float* p, F8 value) { *reinterpret_cast<F8*>(p) = value; }

// to[i][k] = from[k][i], eight by eight. Named values, not arrays: they stay in registers.
void turn(const float* from, int64_t from_row, float* to, int64_t to_row) {
  const auto in = [&](int64_t i) { return load(from + i * from_row); };
  const auto out = [&](int64_t i, F8 value) { store(to + i * to_row, value); };
  const auto low = [](F8 a, F8 b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13); };
  const auto high = [](F8 a, F8 b) { return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15); };
  const auto first = [](F8 a, F8 b) { return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13); };
  const auto second = [](F8 a, F8 b) { return __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15); };
  const auto left = [](F8 a, F8 b) { return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11); };
  const auto right = [](F8 a, F8 b) { return __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15); };
  const F8 a0 = low(in(0), in(1)), a1 = high(in(0), in(1)), a2 = low(in(2), in(3)), a3 = high(in(2), in(3));
  const F8 a4 = low(in(4), in(5)), a5 = high(in(4), in(5)), a6 = low(in(6), in(7)), a7 = high(in(6), in(7));
  const F8 b0 = first(a0, a2), b1 = second(a0, a2), b2 = first(a1, a3), b3 = second(a1, a3);
  const F8 b4 = first(a4, a6), b5 = second(a4, a6), b6 = first(a5, a7), b7 = second(a5, a7);
  out(0, left(b0, b4)), out(1, left(b1, b5)), out(2, left(b2, b6)), out(3, left(b3, b7));
  out(4, right(b0, b4)), out(5, right(b1, b5)), out(6, right(b2, b6)), out(7, right(b3, b7));
}

// to = the sum of one to four rows, or of that and what is there.
template <class T, bool kMore, int kRows>
void mix_rows(const T* from, int64_t row, const float* weights, int64_t n, float* to) {
  const T *a = from, *b = kRows > 1 ? a + row : a, *c = kRows > 2 ? b + row : a, *d = kRows > 3 ? c + row : a;
  const float p = weights[0], q = kRows > 1 ? weights[1] : 0, r = kRows > 2 ? weights[2] : 0, s = kRows > 3 ? weights[3] : 0;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float first = p * static_cast<float>(a[i]);
    float sum = kMore ? to[i] + first : first;
    if (kRows > 1) sum += q * static_cast<float>(b[i]);
    if (kRows > 2) sum += r * static_cast<float>(c[i]);
    if (kRows > 3) sum += s * static_cast<float>(d[i]);
    to[i] = sum;
  }
}

template <class T, bool kMore>
void mix_some(const T* from, int64_t row, const float* weights, int32_t count, int64_t n, float* to) {
  switch (count) {
    case 1: return mix_rows<T, kMore, 1>(from, row, weights, n, to);
    case 2: return mix_rows<T, kMore, 2>(from, row, weights, n, to);
    case 3: return mix_rows<T, kMore, 3>(from, row, weights, n, to);
    default: return mix_rows<T, kMore, 4>(from, row, weights, n, to);
  }
}

// Rows are mixed four at a time.
template <class T>
void mix_down(const T* from, int64_t row, const float* weights, int32_t count, int64_t n, float* to) {
  mix_some<T, false>(from, row, weights, count, n, to);
  for (int32_t t = 4; t < count; t += 4) mix_some<T, true>(from + t * row, row, weights + t, count - t, n, to);
}

// Whether each result is an element, one after the other.
bool are_same(const Taps& taps) {
  for (int64_t i = 0; i < taps.size; ++i)
    if (taps.count[i] != 1 || taps.weights[i * taps.stride] != 1 || taps.first[i] != taps.first[0] + i) return false;
  return true;
}

// A part of the same size: only the order of the elements changes.
template <class T>
void spread(const ResampleCall& call) {
  const int64_t c = call.channels, width = call.columns.size, last = width - 1, step = call.mirrored ? -1 : 1;
  const float scale = call.scale;
  for (int64_t y = 0; y < call.rows.size; ++y) {
    const T* from = static_cast<const T*>(call.from) + (call.rows.first[0] + y) * call.row + call.columns.first[0] * c;
    float* const to = call.to + y * call.to_row + (call.mirrored ? last : 0);
    if (c == 3 && step == 1) {
      float *red = to, *green = to + call.to_plane, *blue = green + call.to_plane;
#pragma omp simd
      for (int64_t x = 0; x < width; ++x) {
        red[x] = static_cast<float>(from[3 * x]) * scale;
        green[x] = static_cast<float>(from[3 * x + 1]) * scale;
        blue[x] = static_cast<float>(from[3 * x + 2]) * scale;
      }
      continue;
    }
    for (int64_t k = 0; k < c; ++k)
      for (int64_t x = 0; x < width; ++x) to[k * call.to_plane + x * step] = static_cast<float>(from[x * c + k]) * scale;
  }
}

constexpr int64_t kChunk = 512;  // elements of eight rows that stay in the first cache

// Eight rows are mixed down their columns and turned, so that element j of all eight lies together; then mixed along the rows.
template <class T>
void resample(const ResampleCall& call) {
  if (are_same(call.rows) && are_same(call.columns)) return spread<T>(call);
  if (std::is_same_v<T, uint8_t> && call.rows.shares != nullptr && call.columns.shares != nullptr) return resample_shares(call);
  const int64_t c = call.channels, width = call.columns.size, begin = call.columns.first[0];
  const int64_t end = call.columns.first[width - 1] + call.columns.count[width - 1], n = (end - begin) * c;
  float *lines = call.scratch, *turned = lines + (n + 8) * 8;
  const T* from = static_cast<const T*>(call.from) + begin * c;
  alignas(64) float chunk[8][kChunk] = {};
  for (int64_t y0 = 0; y0 < call.rows.size; y0 += 8) {
    const int64_t rows = call.rows.size - y0 < 8 ? call.rows.size - y0 : 8;
    for (int64_t j0 = 0; j0 < n; j0 += kChunk) {
      const int64_t part = n - j0 < kChunk ? n - j0 : kChunk;
      for (int64_t r = 0; r < rows; ++r)
        mix_down(from + call.rows.first[y0 + r] * call.row + j0, call.row, call.rows.weights + (y0 + r) * call.rows.stride,
                 call.rows.count[y0 + r], part, chunk[r]);
      for (int64_t j = 0; j < part; j += 8) turn(chunk[0] + j, kChunk, lines + (j0 + j) * 8, 8);
    }
    for (int64_t x = 0; x < width; ++x) {
      const float* weights = call.columns.weights + x * call.columns.stride;
      const float* source = lines + (call.columns.first[x] - begin) * c * 8;
      const int32_t count = call.columns.count[x];
      float* to = turned + (call.mirrored ? width - 1 - x : x) * 8;
      if (c == 3) {
        F8 red = {}, green = {}, blue = {};
        for (int32_t t = 0; t < count; ++t, source += 24) {
          const float weight = weights[t];
          red += weight * load(source), green += weight * load(source + 8), blue += weight * load(source + 16);
        }
        red *= call.scale, green *= call.scale, blue *= call.scale;
        store(to, red), store(to + width * 8, green), store(to + 2 * width * 8, blue);
        continue;
      }
      for (int64_t k = 0; k < c; ++k) {
        F8 sum = {};
        for (int32_t t = 0; t < count; ++t) sum += weights[t] * load(source + (t * c + k) * 8);
        sum *= call.scale;
        store(to + k * width * 8, sum);
      }
    }
    for (int64_t k = 0; k < c; ++k)
      for (int64_t x = 0; x < width; x += 8) {
        const int64_t columns = width - x < 8 ? width - x : 8;
        const float* source = turned + (k * width + x) * 8;  // beyond the last one there is room
        float* to = call.to + k * call.to_plane + y0 * call.to_row + x;
        if (columns == 8 && rows == 8) {
          turn(source, 8, to, call.to_row);
          continue;
        }
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t i = 0; i < columns; ++i) to[r * call.to_row + i] = source[i * 8 + r];
      }
  }
}

constexpr int64_t kSpan = 64;  // pixels whose places are kept at a time

// Where the pixels x0 … x0 + n of a row come from. Far outside is as good as just outside, and fits an integer; behind the eye (d <= 0) nothing
// is seen.
void find(const WarpCall& call, int64_t x0, int64_t y, int64_t n, float* us, float* vs) {
  const float* m = call.matrix;
  const auto w = static_cast<float>(call.width), h = static_cast<float>(call.height), yf = static_cast<float>(y);
  const float my[3] = {m[1] * yf, m[4] * yf, m[7] * yf};
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const auto xf = static_cast<float>(x0 + i);
    const float d = m[6] * xf + my[2] + 1;
    const float u = (m[0] * xf + my[0] + m[2]) / d, v = (m[3] * xf + my[1] + m[5]) / d;
    us[i] = d > 0 && u > -2 ? (u < w + 1 ? u : w + 1) : -2;
    vs[i] = d > 0 && v > -2 ? (v < h + 1 ? v : h + 1) : -2;
  }
}

void warp_nearest(const WarpCall& call, int64_t x0, int64_t y, int64_t n, const float* us, const float* vs) {
  const auto width = static_cast<int32_t>(call.width), height = static_cast<int32_t>(call.height);
  int32_t place[kSpan];
  float seen[kSpan], other[kSpan];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const auto l = static_cast<int32_t>(std::floor(us[i] + .5f)), t = static_cast<int32_t>(std::floor(vs[i] + .5f));
    const bool in = (l >= 0) & (l < width) & (t >= 0) & (t < height);
    place[i] = in ? t * width + l : 0;
    seen[i] = in ? 1 : 0, other[i] = in ? 0 : call.fill;
  }
  for (int64_t c = 0; c < call.channels; ++c) {
    const float* from = call.from + c * call.height * call.width;
    float* to = call.to + (c * call.height + y) * call.width + x0;
    float values[kSpan];
    for (int64_t i = 0; i < n; ++i) values[i] = from[place[i]];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = seen[i] != 0 ? values[i] : other[i];
  }
}

void warp_bilinear(const WarpCall& call, int64_t x0, int64_t y, int64_t n, const float* us, const float* vs) {
  const auto width = static_cast<int32_t>(call.width), height = static_cast<int32_t>(call.height);
  int32_t place[4][kSpan];
  float weight[4][kSpan], rest[kSpan];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float left = std::floor(us[i]), top = std::floor(vs[i]), right_part = us[i] - left, low_part = vs[i] - top;
    const auto l = static_cast<int32_t>(left), t = static_cast<int32_t>(top);
    const bool l_in = (l >= 0) & (l < width), r_in = (l >= -1) & (l < width - 1);
    const bool t_in = (t >= 0) & (t < height), b_in = (t >= -1) & (t < height - 1);
    const int32_t at = t * width + l;
    place[0][i] = l_in & t_in ? at : 0, weight[0][i] = l_in & t_in ? (1 - right_part) * (1 - low_part) : 0;
    place[1][i] = r_in & t_in ? at + 1 : 0, weight[1][i] = r_in & t_in ? right_part * (1 - low_part) : 0;
    place[2][i] = l_in & b_in ? at + width : 0, weight[2][i] = l_in & b_in ? (1 - right_part) * low_part : 0;
    place[3][i] = r_in & b_in ? at + width + 1 : 0, weight[3][i] = r_in & b_in ? right_part * low_part : 0;
    rest[i] = (1 - ((weight[0][i] + weight[1][i]) + (weight[2][i] + weight[3][i]))) * call.fill;
  }
  for (int64_t c = 0; c < call.channels; ++c) {
    const float* from = call.from + c * call.height * call.width;
    float* to = call.to + (c * call.height + y) * call.width + x0;
    float values[4][kSpan];
    for (int64_t i = 0; i < n; ++i)
      for (int k = 0; k < 4; ++k) values[k][i] = from[place[k][i]];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
      to[i] = (weight[0][i] * values[0][i] + weight[1][i] * values[1][i]) + (weight[2][i] * values[2][i] + weight[3][i] * values[3][i]) +
              rest[i];
  }
}

void warp(const WarpCall& call) {
  float us[kSpan], vs[kSpan];
  for (int64_t y = 0; y < call.height; ++y)
    for (int64_t x0 = 0; x0 < call.width; x0 += kSpan) {
      const int64_t n = call.width - x0 < kSpan ? call.width - x0 : kSpan;
      find(call, x0, y, n, us, vs);
      (call.bilinear ? warp_bilinear : warp_nearest)(call, x0, y, n, us, vs);
    }
}

F8 grey(const float* x, int64_t n, int64_t i) { return .299f * load(x + i) + .587f * load(x + n + i) + .114f * load(x + 2 * n + i); }

double grey_sum(const float* x, int64_t n) {
  double sum = 0;
  int64_t i = 0;
  while (i + 8 <= n) {
    F8 lanes = {};
    for (int64_t end = i + 1024; i + 8 <= n && i < end; i += 8) lanes += grey(x, n, i);
    for (int k = 0; k < 8; ++k) sum += lanes[k];
  }
  for (; i < n; ++i) sum += .299f * x[i] + .587f * x[n + i] + .114f * x[2 * n + i];
  return sum;
}

void blend(const float* x, float a, float b, float c, float low, float top, int64_t n, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float add = b * (.299f * x[i] + .587f * x[n + i] + .114f * x[2 * n + i]) + c;
    const float red = a * x[i] + add, green = a * x[n + i] + add, blue = a * x[2 * n + i] + add;
    y[i] = red > low ? (red < top ? red : top) : low;
    y[n + i] = green > low ? (green < top ? green : top) : low;
    y[2 * n + i] = blue > low ? (blue < top ? blue : top) : low;
  }
}

// Hue in sixths of the circle; each colour is then high but where the hue is far from its own (the usual formula of HSV without cases).
void hue(const float* x, float turns, int64_t n, float* y) {
  const float more = 6 * turns + 6;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float r = x[i], g = x[n + i], b = x[2 * n + i];
    const float rg = r > g ? r : g, high = rg > b ? rg : b, gr = r < g ? r : g, low = gr < b ? gr : b, span = high - low;
    const float by = span > 0 ? 1 / span : 0;
    float h = high == r ? (g - b) * by : high == g ? (b - r) * by + 2 : (r - g) * by + 4;
    h += more;
    h -= 6 * std::floor(h * (1 / 6.f));
    const auto colour = [&](float own) {
      float at = h + own;
      at = at >= 6 ? at - 6 : at;
      float down = at < 4 - at ? at : 4 - at;
      down = down < 1 ? (down > 0 ? down : 0) : 1;
      const float value = high - span * down;
      return value > low ? value : low;
    };
    y[i] = colour(5), y[n + i] = colour(3), y[2 * n + i] = colour(1);
  }
}

}  // namespace

extern const PictureLoops PERIGEE_CONCAT(picture_loops, , PERIGEE_ISA);
const PictureLoops PERIGEE_CONCAT(picture_loops, , PERIGEE_ISA){
    .resample_u8 = resample<uint8_t>, .resample_f32 = resample<float>, .warp = warp, .grey_sum = grey_sum, .blend = blend, .hue = hue};

}  // namespace perigee
