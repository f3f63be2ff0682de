#include "src/data/transforms/carried.h"

#include <algorithm>
#include <cmath>

namespace perigee {
namespace {

// The other way: from the old picture to the new one. False: the map is no map of a plane.
bool inverse(const PlaneMap& m, double (&out)[9]) {
  const double a = m[0], b = m[1], c = m[2], d = m[3], e = m[4], f = m[5], g = m[6], h = m[7];
  const double adjugate[9] = {e - f * h,     c * h - b,     b * f - c * e, f * g - d,    a - c * g,
                              c * d - a * f, d * h - e * g, b * g - a * h, a * e - b * d};
  std::copy(std::begin(adjugate), std::end(adjugate), out);
  return std::abs(a * adjugate[0] + b * adjugate[3] + c * adjugate[6]) > 1e-12;
}

}  // namespace

void carry_boxes(const float* from, int64_t count, const PlaneMap& map, int64_t height, int64_t width, double visible, float* to) {
  double back[9];
  const bool is_map = inverse(map, back);
  int64_t kept = 0;
  for (int64_t i = 0; i < count && is_map; ++i) {
    const float* box = from + i * kBoxNumbers;
    if (!(box[4] >= 0)) continue;
    double left = HUGE_VAL, top = HUGE_VAL, right = -HUGE_VAL, bottom = -HUGE_VAL;
    for (int corner = 0; corner < 4; ++corner) {
      // Places count from the picture's corner, pixels are seen at their middles.
      const double u = box[corner % 2 == 0 ? 0 : 2] - .5, v = box[corner < 2 ? 1 : 3] - .5, w = back[6] * u + back[7] * v + back[8];
      const double x = (back[0] * u + back[1] * v + back[2]) / w + .5, y = (back[3] * u + back[4] * v + back[5]) / w + .5;
      left = std::min(left, x), right = std::max(right, x), top = std::min(top, y), bottom = std::max(bottom, y);
    }
    const double whole = (right - left) * (bottom - top);
    left = std::max(left, 0.), top = std::max(top, 0.);
    right = std::min(right, static_cast<double>(width)), bottom = std::min(bottom, static_cast<double>(height));
    const double across = right - left, down = bottom - top;
    if (!(across >= 1 && down >= 1 && across * down >= visible * whole)) continue;
    const double numbers[] = {left, top, right, bottom};
    float* out = to + kept++ * kBoxNumbers;
    for (int k = 0; k < 4; ++k) out[k] = static_cast<float>(numbers[k]);
    out[4] = box[4];
  }
  for (; kept < count; ++kept) {
    std::fill_n(to + kept * kBoxNumbers, kBoxNumbers - 1, 0.f);
    to[kept * kBoxNumbers + 4] = -1;
  }
}

void carry_mask(const int64_t* from, int64_t from_height, int64_t from_width, const PlaneMap& map, int64_t height, int64_t width,
                int64_t* to) {
  constexpr double kHalf = .5 + 1e-7;  // where two pixels are equally near it is the further one, however it was rounded
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const auto fx = static_cast<double>(x), fy = static_cast<double>(y);
      const double d = map[6] * fx + map[7] * fy + 1;
      const double u = std::floor((map[0] * fx + map[1] * fy + map[2]) / d + kHalf),
                   v = std::floor((map[3] * fx + map[4] * fy + map[5]) / d + kHalf);
      const bool in = u >= 0 && v >= 0 && u < static_cast<double>(from_width) && v < static_cast<double>(from_height);
      to[y * width + x] = in ? from[static_cast<int64_t>(v) * from_width + static_cast<int64_t>(u)] : 0;
    }
}

}  // namespace perigee
