// Loops of pictures, eight results at a time. Contraction is off in this file, and sums run in the same order for each instruction set.
#include "kernels/picture_loops.h"

#include <cmath>
#include <cstring>

#include "kernels/registry.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors go between functions of this file only

namespace perigee {
namespace {

using F8 = float __attribute__((vector_size(32), aligned(4)));
using B8 = uint8_t __attribute__((vector_size(8), aligned(1)));

F8 load(const float* p) { return *reinterpret_cast<const F8*>(p); }
F8 load(const uint8_t* p) {
  B8 bytes;
  std::memcpy(&bytes, p, sizeof bytes);
  return __builtin_convertvector(bytes, F8);
}
template <class T>
F8 load(const T* p, int64_t n) {
  if (n >= 8) return load(p);
  T part[8] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
  return load(part);
}

void transpose(F8 (&m)[8]) {
  F8 a[8], b[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = __builtin_shufflevector(m[2 * i], m[2 * i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    a[2 * i + 1] = __builtin_shufflevector(m[2 * i], m[2 * i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int h = 0; h < 8; h += 4)
    for (int i = 0; i < 2; ++i) {
      b[h + i] = __builtin_shufflevector(a[h + i], a[h + i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      b[h + i + 2] = __builtin_shufflevector(a[h + i], a[h + i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; ++i) {
    m[i] = __builtin_shufflevector(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    m[i + 4] = __builtin_shufflevector(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

// Eight rows are mixed down their columns and turned, so that element j of all eight lies together; then mixed along the rows.
template <class T>
void resample(const ResampleCall& call) {
  const int64_t c = call.channels, width = call.columns.size, begin = call.columns.first[0];
  const int64_t end = call.columns.first[width - 1] + call.columns.count[width - 1], n = (end - begin) * c;
  float *lines = call.scratch, *turned = lines + (n + 8) * 8;
  const T* from = static_cast<const T*>(call.from) + begin * c;
  for (int64_t y0 = 0; y0 < call.rows.size; y0 += 8) {
    const int64_t rows = call.rows.size - y0 < 8 ? call.rows.size - y0 : 8;
    for (int64_t j = 0; j < n; j += 8) {
      F8 block[8] = {};
      for (int64_t r = 0; r < rows; ++r) {
        const T* source = from + call.rows.first[y0 + r] * call.row + j;
        const float* weights = call.rows.weights + (y0 + r) * call.rows.stride;
        F8 sum = {};
        for (int32_t t = 0; t < call.rows.count[y0 + r]; ++t, source += call.row) sum += weights[t] * load(source, n - j);
        block[r] = sum;
      }
      transpose(block);
      std::memcpy(lines + j * 8, block, sizeof block);
    }
    for (int64_t x = 0; x < width; ++x) {
      const float* weights = call.columns.weights + x * call.columns.stride;
      const float* source = lines + (call.columns.first[x] - begin) * c * 8;
      const int64_t at = call.mirrored ? width - 1 - x : x;
      for (int64_t k = 0; k < c; ++k) {
        F8 sum = {};
        for (int32_t t = 0; t < call.columns.count[x]; ++t) sum += weights[t] * load(source + (t * c + k) * 8);
        sum *= call.scale;
        std::memcpy(turned + (k * width + at) * 8, &sum, sizeof sum);
      }
    }
    for (int64_t k = 0; k < c; ++k)
      for (int64_t x = 0; x < width; x += 8) {
        const int64_t columns = width - x < 8 ? width - x : 8;
        F8 block[8] = {};
        std::memcpy(block, turned + (k * width + x) * 8, static_cast<size_t>(columns) * sizeof(F8));
        transpose(block);
        for (int64_t r = 0; r < rows; ++r)
          std::memcpy(call.to + k * call.to_plane + (y0 + r) * call.to_row + x, &block[r], static_cast<size_t>(columns) * sizeof(float));
      }
  }
}

constexpr int64_t kSpan = 64;  // pixels whose places are kept at a time

void warp(const WarpCall& call) {
  const float* m = call.matrix;
  const auto w = static_cast<float>(call.width), h = static_cast<float>(call.height);
  const auto width = static_cast<int32_t>(call.width);
  for (int64_t y = 0; y < call.height; ++y)
    for (int64_t x0 = 0; x0 < call.width; x0 += kSpan) {
      const int64_t n = call.width - x0 < kSpan ? call.width - x0 : kSpan;
      int32_t place[4][kSpan];
      float weight[4][kSpan], rest[kSpan];
      const auto yf = static_cast<float>(y);
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        const auto xf = static_cast<float>(x0 + i);
        const float d = m[6] * xf + m[7] * yf + 1;
        // Far outside is as good as just outside, and fits an integer. Behind the eye (d <= 0) nothing is seen.
        float u = (m[0] * xf + m[1] * yf + m[2]) / d, v = (m[3] * xf + m[4] * yf + m[5]) / d;
        u = d > 0 && u > -2 ? (u < w + 1 ? u : w + 1) : -2;
        v = d > 0 && v > -2 ? (v < h + 1 ? v : h + 1) : -2;
        if (!call.bilinear) u = std::floor(u + .5f), v = std::floor(v + .5f);
        const float left = std::floor(u), top = std::floor(v), right_part = u - left, low_part = v - top;
        const auto l = static_cast<int32_t>(left), t = static_cast<int32_t>(top);
        const bool l_in = l >= 0 && l < width, r_in = l >= -1 && l < width - 1;
        const bool t_in = t >= 0 && t < static_cast<int32_t>(call.height), b_in = t >= -1 && t < static_cast<int32_t>(call.height) - 1;
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
#pragma omp simd
        for (int64_t i = 0; i < n; ++i)
          to[i] = (weight[0][i] * from[place[0][i]] + weight[1][i] * from[place[1][i]]) +
                  (weight[2][i] * from[place[2][i]] + weight[3][i] * from[place[3][i]]) + rest[i];
      }
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
