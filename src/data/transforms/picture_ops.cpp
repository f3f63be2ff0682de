#include "src/data/transforms/picture_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "kernels/picture_loops.h"
#include "src/core/host_isa.h"

namespace perigee {

void PictureOps::blend(const float* from, float a, float b, float c, float low, float high, float* to) const {
  const int64_t n = size.pixels();
  if (size.channels == 3) return picture_loops(host_isa()).blend(from, a, b, c, low, high, n, to);
  for (int64_t i = 0; i < n; ++i) {
    const float value = (a + b) * from[i] + c;
    to[i] = value > low ? (value < high ? value : high) : low;
  }
}

void PictureOps::brightness(const float* from, float factor, float low, float high, float* to) const {
  blend(from, factor, 0, 0, low, high, to);
}

void PictureOps::saturation(const float* from, float factor, float low, float high, float* to) const {
  blend(from, factor, 1 - factor, 0, low, high, to);
}

void PictureOps::contrast(const float* from, float factor, float low, float high, float* to) const {
  const int64_t n = size.pixels();
  double sum = 0;
  if (size.channels == 3) sum = picture_loops(host_isa()).grey_sum(from, n);
  else
    for (int64_t i = 0; i < n; ++i) sum += from[i];
  blend(from, factor, 0, (1 - factor) * static_cast<float>(sum / static_cast<double>(n)), low, high, to);
}

// Against the mean of 3 x 3 pixels, the middle one five times; the outermost pixels stay.
void PictureOps::sharpen(const float* from, float factor, float* to) const {
  const int64_t w = size.width, h = size.height;
  for (int64_t c = 0; c < size.channels; ++c, from += w * h, to += w * h) {
    std::copy(from, from + w * h, to);
    for (int64_t y = 1; y + 1 < h; ++y) {
      const float *x = from + y * w, *above = x - w, *below = x + w;
      float* row = to + y * w;
#pragma omp simd
      for (int64_t i = 1; i < w - 1; ++i) {
        const float around =
            ((above[i - 1] + above[i]) + (above[i + 1] + x[i - 1])) + ((x[i + 1] + below[i - 1]) + (below[i] + below[i + 1]));
        const float blurred = (around + 5 * x[i]) * (1 / 13.f), value = blurred + factor * (x[i] - blurred);
        row[i] = value > 0 ? (value < top ? value : top) : 0;
      }
    }
  }
}

void PictureOps::autocontrast(const float* from, float* to) const {
  const int64_t n = size.pixels();
  for (int64_t c = 0; c < size.channels; ++c, from += n, to += n) {
    float low[8], high[8];
    std::fill(low, low + 8, from[0]), std::fill(high, high + 8, from[0]);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
      for (int k = 0; k < 8; ++k) {
        const float value = from[i + k];
        low[k] = value < low[k] ? value : low[k], high[k] = value > high[k] ? value : high[k];
      }
    for (; i < n; ++i) low[0] = std::min(low[0], from[i]), high[0] = std::max(high[0], from[i]);
    const float least = *std::min_element(low, low + 8), most = *std::max_element(high, high + 8);
    const float factor = most > least ? top / (most - least) : 1, base = most > least ? least : 0;
    for (i = 0; i < n; ++i) to[i] = (from[i] - base) * factor;
  }
}

// Levels of 256, as Pillow's ImageOps.equalize.
void PictureOps::equalize(const float* from, float* to) const {
  const int64_t n = size.pixels();
  const float levels = 255 / top, level = top / 255;
  const auto level_of = [&](float value) { return static_cast<size_t>(std::clamp(value * levels + .5f, 0.f, 255.f)); };
  for (int64_t c = 0; c < size.channels; ++c, from += n, to += n) {
    std::array<std::array<int32_t, 256>, 2> counts = {};  // two: a pixel need not wait for the count of the one before
    for (int64_t i = 0; i < n; ++i) ++counts[static_cast<size_t>(i % 2)][level_of(from[i])];
    int64_t last = 0;
    for (size_t k = 0; k < 256; ++k)
      if (counts[0][k] += counts[1][k]; counts[0][k] > 0) last = counts[0][k];
    const int64_t step = (n - last) / 255;
    if (step == 0) {
      std::copy(from, from + n, to);
      continue;
    }
    std::array<float, 256> table;
    int64_t before = step / 2;
    for (size_t k = 0; k < 256; before += counts[0][k++]) table[k] = static_cast<float>(std::min<int64_t>(255, before / step)) * level;
    for (int64_t i = 0; i < n; ++i) to[i] = table[level_of(from[i])];
  }
}

void PictureOps::apply(PictureOp op, float m, const float* from, float* to) const {
  const int64_t n = size.channels * size.pixels();
  const double angle = std::atan(static_cast<double>(m)) * 180 / std::numbers::pi;
  switch (op) {
    case PictureOp::identity: std::copy(from, from + n, to); return;
    case PictureOp::shear_x: return warp_image(from, size, affine_map(size, {.shear_x = angle}, true), sampling, to);
    case PictureOp::shear_y: return warp_image(from, size, affine_map(size, {.shear_y = angle}, true), sampling, to);
    case PictureOp::translate_x:
    case PictureOp::translate_y: {
      const auto way = static_cast<int64_t>(m);
      const int64_t right = op == PictureOp::translate_x ? way : 0, down = way - right;
      return copy_window(from, size, -down, -right, to, size.height, size.width, sampling.fill);
    }
    case PictureOp::rotate: return warp_image(from, size, affine_map(size, {.degrees = -m}), sampling, to);
    case PictureOp::brightness: return brightness(from, 1 + m, 0, top, to);
    case PictureOp::saturation: return saturation(from, 1 + m, 0, top, to);
    case PictureOp::contrast: return contrast(from, 1 + m, 0, top, to);
    case PictureOp::sharpness: return sharpen(from, 1 + m, to);
    case PictureOp::autocontrast: return autocontrast(from, to);
    case PictureOp::equalize: return equalize(from, to);
    case PictureOp::posterize: {
      // The upper bits of a byte: whole multiples of 2^(8 - bits).
      const float steps = static_cast<float>(1 << (8 - static_cast<int>(m))), levels = 255 / top, level = top / 255;
      for (int64_t i = 0; i < n; ++i) {
        const auto byte = static_cast<int32_t>(std::clamp(from[i] * levels + .5f, 0.f, 255.f));
        to[i] = static_cast<float>(static_cast<int32_t>(static_cast<float>(byte) / steps)) * steps * level;
      }
      return;
    }
    case PictureOp::solarize:
      for (int64_t i = 0; i < n; ++i) to[i] = from[i] >= m * top ? top - from[i] : from[i];
      return;
    case PictureOp::invert:
      for (int64_t i = 0; i < n; ++i) to[i] = top - from[i];
      return;
  }
}

Magnitude magnitude_of(PictureOp op, int64_t level, int64_t levels, Space space, const ImageSize& size) {
  const bool wide = space == Space::wide;
  const double share = levels > 1 ? static_cast<double>(level) / static_cast<double>(levels - 1) : 0;
  const auto of = [&](double most) { return Magnitude{static_cast<float>(share * most), true}; };
  switch (op) {
    case PictureOp::shear_x:
    case PictureOp::shear_y: return of(wide ? .99 : .3);
    case PictureOp::translate_x: return of(wide ? 32 : 150. / 331 * static_cast<double>(size.width));
    case PictureOp::translate_y: return of(wide ? 32 : 150. / 331 * static_cast<double>(size.height));
    case PictureOp::rotate: return of(wide ? 135 : 30);
    case PictureOp::brightness:
    case PictureOp::saturation:
    case PictureOp::contrast:
    case PictureOp::sharpness: return of(wide ? .99 : .9);
    case PictureOp::posterize: return {static_cast<float>(std::nearbyint(8 - share * (wide ? 6 : 4))), false};
    case PictureOp::solarize: return {static_cast<float>(1 - share), false};
    default: return {};
  }
}

void check_colours(const Config& config, const ImageSize& size) {
  if (size.channels != 3 && size.channels != 1)
    throw Error(ErrorKind::data,
                {.where = config.where(), .what = "the image has " + std::to_string(size.channels) + " channels", .expected = "1 or 3"});
}

Augment::Augment(const Config& config, const Field& field)
    : field_(field),
      ops_{.size = image_size(config, field), .top = static_cast<float>(config.number("top")), .sampling = sampling_of(config)} {
  check_colours(config, ops_.size);
}

// To and fro between the result and scratch memory, so that the last one writes the result.
void Augment::apply(const std::byte* in, std::byte* out, Draw& draw) const {
  const Scratch scratch(static_cast<size_t>(ops_.size.channels * ops_.size.pixels()) * sizeof(float));
  Drawn drawn[kMost];
  const int count = choose(draw, drawn);
  const auto* from = reinterpret_cast<const float*>(in);
  float *result = reinterpret_cast<float*>(out), *other = reinterpret_cast<float*>(scratch.data());
  if (count == 0) return ops_.apply(PictureOp::identity, 0, from, result);
  for (int i = 0; i < count; ++i) {
    float* to = (count - i) % 2 == 1 ? result : other;
    ops_.apply(drawn[i].op, drawn[i].magnitude, from, to);
    from = to;
  }
}

Augment::Drawn Augment::signed_of(PictureOp op, int64_t level, int64_t levels, Space space, Draw& draw) const {
  const Magnitude magnitude = magnitude_of(op, level, levels, space, ops_.size);
  const bool back = magnitude.either_way && draw.uniform() < .5f;
  return {op, back ? -magnitude.value : magnitude.value};
}

}  // namespace perigee
