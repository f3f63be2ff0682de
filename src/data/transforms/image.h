// Shared by the transforms of images: f32 fields of C,H,W or H,W.
#pragma once

#include "src/data/transform.h"

namespace perigee {

struct ImageSize {
  int64_t channels = 1, height = 0, width = 0;
  int64_t pixels() const { return height * width; }
};

// Error(data) when the field is no f32 image.
ImageSize image_size(const Config& config, const Field& field);
Field with_size(const Field& field, int64_t height, int64_t width);

// to[y][x] = from[y + top][x + left] in each channel, `fill` where that lies outside.
void copy_window(const float* from, const ImageSize& size, int64_t top, int64_t left, float* to, int64_t height, int64_t width, float fill);

}  // namespace perigee
