#include <algorithm>
#include <cmath>
#include <vector>

#include "src/io/image.h"

namespace perigee {
namespace {

// Which source pixels each target pixel takes, and how much of each.
struct Taps {
  std::vector<int64_t> first, count;  // per target pixel
  std::vector<float> weights;         // `stride` per target pixel
  int64_t stride = 0;

  // A triangle as wide as a target pixel, at least as a source pixel: bilinear when growing, an average when shrinking.
  void lay(int64_t from, int64_t to) {
    const double ratio = static_cast<double>(from) / static_cast<double>(to), reach = std::max(ratio, 1.0);
    stride = 2 * static_cast<int64_t>(std::ceil(reach)) + 1;
    first.resize(static_cast<size_t>(to));
    count.resize(static_cast<size_t>(to));
    weights.resize(static_cast<size_t>(to * stride));
    for (int64_t i = 0; i < to; ++i) {
      const double centre = (static_cast<double>(i) + .5) * ratio - .5;
      const auto low = std::max<int64_t>(0, static_cast<int64_t>(std::ceil(centre - reach)));
      const auto high = std::min<int64_t>(from - 1, static_cast<int64_t>(std::floor(centre + reach)));
      float* weight = weights.data() + i * stride;
      double sum = 0;
      for (int64_t k = low; k <= high; ++k) {
        weight[k - low] = static_cast<float>(std::max(0.0, 1 - std::fabs(static_cast<double>(k) - centre) / reach));
        sum += weight[k - low];
      }
      for (int64_t k = low; k <= high; ++k) weight[k - low] = static_cast<float>(weight[k - low] / sum);
      first[static_cast<size_t>(i)] = low;
      count[static_cast<size_t>(i)] = high - low + 1;
    }
  }
};

}  // namespace

void resize_image(const Picture& image, int64_t height, int64_t width, float scale, float* planes) {
  const auto* from = reinterpret_cast<const uint8_t*>(image.pixels.data());
  const int64_t c = image.channels;
  if (image.height == height && image.width == width) {
    for (int64_t k = 0; k < c; ++k)
      for (int64_t i = 0; i < height * width; ++i) planes[k * height * width + i] = static_cast<float>(from[i * c + k]) * scale;
    return;
  }
  thread_local Taps rows, columns;
  thread_local std::vector<float> line;
  rows.lay(image.height, height);
  columns.lay(image.width, width);
  line.resize(static_cast<size_t>(image.width * c));
  for (int64_t y = 0; y < height; ++y) {
    std::fill(line.begin(), line.end(), 0.f);
    for (int64_t t = 0; t < rows.count[static_cast<size_t>(y)]; ++t) {
      const uint8_t* source = from + (rows.first[static_cast<size_t>(y)] + t) * image.width * c;
      const float weight = rows.weights[static_cast<size_t>(y * rows.stride + t)];
      for (size_t i = 0; i < line.size(); ++i) line[i] += weight * static_cast<float>(source[i]);
    }
    for (int64_t x = 0; x < width; ++x) {
      const float* weights = columns.weights.data() + x * columns.stride;
      const float* pixels = line.data() + columns.first[static_cast<size_t>(x)] * c;
      for (int64_t k = 0; k < c; ++k) {
        float sum = 0;
        for (int64_t t = 0; t < columns.count[static_cast<size_t>(x)]; ++t) sum += weights[t] * pixels[t * c + k];
        planes[(k * height + y) * width + x] = sum * scale;
      }
    }
  }
}

}  // namespace perigee
