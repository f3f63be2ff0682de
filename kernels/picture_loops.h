// The inner loops of pictures: resizing and blurring, warping, colours. One table for each instruction set, all with the same bits. They are no
// ops of a graph: pictures are made ready on the host, example by example. Nothing is checked here; indices lie inside what they point to.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace perigee {

// Which elements of a line each of `size` results takes, and how much of each: weights[i * stride + t] of element first[i] + t. Neither
// `first` nor first + count falls. Weights that are a share of one may stand there in 1/32768 too, as `shares`: bytes are then resampled by
// these, which is faster. The first element has what the others leave; a result has at most kMostShares.
struct Taps {
  const int32_t* first = nullptr;
  const int32_t* count = nullptr;
  const float* weights = nullptr;
  const int16_t* shares = nullptr;  // or null
  int64_t stride = 0, size = 0;
};

struct ResampleCall {
  const void* from = nullptr;  // element (y, x, c) at y * row + x * channels + c
  int64_t row = 0, channels = 1;
  Taps rows, columns;
  float scale = 1;
  bool mirrored = false;     // the last column comes first
  float* scratch = nullptr;  // resample_scratch() of them
  float* to = nullptr;       // (c, y, x) at c * to_plane + y * to_row + x
  int64_t to_plane = 0, to_row = 0;
};
constexpr int64_t kResampleRows = 8;    // of floats, or 16 of half their size, are made at a time
constexpr int64_t kResampleSlack = 32;  // elements of these that loops write beyond the end
constexpr int32_t kMostShares = 64;
inline int64_t resample_scratch(int64_t channels, int64_t from_columns, int64_t to_columns) {
  return ((from_columns + 1) * channels + kResampleSlack + (to_columns + 8) * channels) * kResampleRows;
}

// to(y, x) = from at ((m0 x + m1 y + m2) / d, (m3 x + m4 y + m5) / d), d = m6 x + m7 y + 1, in pixels; `fill` outside.
struct WarpCall {
  const float* from = nullptr;
  int64_t channels = 1, height = 0, width = 0;  // of both
  float matrix[8] = {};
  bool bilinear = true;  // else the nearest
  float fill = 0;
  float* to = nullptr;
};

struct PictureLoops {
  void (*resample_u8)(const ResampleCall&) = nullptr;
  void (*resample_f32)(const ResampleCall&) = nullptr;
  void (*warp)(const WarpCall&) = nullptr;
  // For 3 planes of n values each: y = clamp(a * x + b * grey + c, low, top), grey the luminance of ITU-R BT.601. `grey_sum`: also its sum.
  double (*grey_sum)(const float* x, int64_t n) = nullptr;
  void (*blend)(const float* x, float a, float b, float c, float low, float top, int64_t n, float* y) = nullptr;
  // Turns the hue of three planes of n values by `turns` of the whole circle; each pixel keeps its least and its greatest value.
  void (*hue)(const float* x, float turns, int64_t n, float* y) = nullptr;
};

const PictureLoops& picture_loops(Isa isa);  // the widest up to that

}  // namespace perigee
