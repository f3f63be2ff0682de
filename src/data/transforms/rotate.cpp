// {"type": "rotate", "degrees": 10}: turns each image about its middle by a random angle, with bilinear interpolation.
#include <cmath>

#include "src/data/transforms/image.h"

namespace perigee {
namespace {

class Rotate : public Transform {
 public:
  Rotate(const Field& field, const ImageSize& size, float radians, float fill)
      : field_(field), size_(size), radians_(radians), fill_(fill) {}
  Field output() const override { return field_; }

  void apply(const std::byte* in, std::byte* out, Draw& draw) const override {
    const auto* from = reinterpret_cast<const float*>(in);
    auto* to = reinterpret_cast<float*>(out);
    const float angle = draw.between(-radians_, radians_), c = std::cos(angle), s = std::sin(angle);
    const float cx = static_cast<float>(size_.width - 1) / 2, cy = static_cast<float>(size_.height - 1) / 2;
    for (int64_t y = 0; y < size_.height; ++y)
      for (int64_t x = 0; x < size_.width; ++x) {
        const float dx = static_cast<float>(x) - cx, dy = static_cast<float>(y) - cy;
        const float sx = cx + c * dx - s * dy, sy = cy + s * dx + c * dy;
        const float fx = std::floor(sx), fy = std::floor(sy);
        for (int64_t k = 0; k < size_.channels; ++k)
          to[k * size_.pixels() + y * size_.width + x] =
              blend(from + k * size_.pixels(), static_cast<int64_t>(fx), static_cast<int64_t>(fy), sx - fx, sy - fy);
      }
  }
  Motion motion() const override { return Motion::told; }
  PlaneMap placed(Draw& draw) const override {
    const double angle = draw.between(-radians_, radians_), c = std::cos(angle), s = std::sin(angle);
    const double cx = static_cast<double>(size_.width - 1) / 2, cy = static_cast<double>(size_.height - 1) / 2;
    return {c, -s, cx - c * cx + s * cy, s, c, cy - s * cx - c * cy, 0, 0};
  }

 private:
  float at(const float* plane, int64_t x, int64_t y) const {
    return x < 0 || y < 0 || x >= size_.width || y >= size_.height ? fill_ : plane[y * size_.width + x];
  }
  float blend(const float* plane, int64_t x, int64_t y, float a, float b) const {
    const float upper = at(plane, x, y) * (1 - a) + at(plane, x + 1, y) * a;
    const float lower = at(plane, x, y + 1) * (1 - a) + at(plane, x + 1, y + 1) * a;
    return upper * (1 - b) + lower * b;
  }

  Field field_;
  ImageSize size_;
  float radians_, fill_;
};

std::unique_ptr<Transform> open_rotate(const Config& config, const DataSource& source, size_t field) {
  const Field& input = source.fields()[field];
  const double radians = config.number("degrees") * 3.14159265358979323846 / 180;
  return std::make_unique<Rotate>(input, image_size(config, input), static_cast<float>(radians), static_cast<float>(config.number("fill")));
}

constexpr const char* kRotatePositional[] = {"degrees"};
constexpr Option kRotateOptions[] = {{"degrees", "number", "10", "largest angle either way", {0, 180}},
                                     {"fill", "number", "0", "value of new pixels"}};

}  // namespace

extern const TransformDef transform_rotate;
const TransformDef transform_rotate{
    .type = "rotate",
    .doc = "Turns images at random. Options: degrees (10: from -10 to 10), fill (0)",
    .schema = {.options = kRotateOptions, .positional = kRotatePositional, .common = &common_transform_schema},
    .open = open_rotate,
    .random = true};

}  // namespace perigee
