// {"type": "flip"}: mirrors every other image, drawn per example.
#include <algorithm>

#include "src/data/transforms/image.h"

namespace perigee {
namespace {

class Flip : public Transform {
 public:
  Flip(const Field& field, const ImageSize& size, bool vertical, float probability)
      : field_(field), size_(size), vertical_(vertical), probability_(probability) {}
  Field output() const override { return field_; }
  void apply(const std::byte* in, std::byte* out, Draw& draw) const override {
    const auto* from = reinterpret_cast<const float*>(in);
    auto* to = reinterpret_cast<float*>(out);
    const bool flipped = draw.uniform() < probability_;
    for (int64_t c = 0; c < size_.channels; ++c)
      for (int64_t y = 0; y < size_.height; ++y) {
        const int64_t source = flipped && vertical_ ? size_.height - 1 - y : y;
        const float* line = from + c * size_.pixels() + source * size_.width;
        float* row = to + c * size_.pixels() + y * size_.width;
        if (flipped && !vertical_) std::reverse_copy(line, line + size_.width, row);
        else std::copy(line, line + size_.width, row);
      }
  }
  Motion motion() const override { return Motion::told; }
  PlaneMap placed(Draw& draw) const override {
    if (draw.uniform() >= probability_) return kPlaneAsItIs;
    if (vertical_) return {1, 0, 0, 0, -1, static_cast<double>(size_.height - 1), 0, 0};
    return {-1, 0, static_cast<double>(size_.width - 1), 0, 1, 0, 0, 0};
  }

 private:
  Field field_;
  ImageSize size_;
  bool vertical_;
  float probability_;
};

std::unique_ptr<Transform> open_flip(const Config& config, const DataSource& source, size_t field) {
  const Field& input = source.fields()[field];
  const bool vertical = config.choice("axis") == "vertical";
  return std::make_unique<Flip>(input, image_size(config, input), vertical, static_cast<float>(config.number("probability")));
}

constexpr const char* kFlipPositional[] = {"axis"};
constexpr Option kFlipOptions[] = {{"axis", "name", "horizontal", "the way in which they are mirrored", {}, {"horizontal", "vertical"}},
                                   {"probability", "number", "0.5", "that an image is mirrored", {0, 1}}};

}  // namespace

extern const TransformDef transform_flip;
const TransformDef transform_flip{.type = "flip",
                                  .doc = "Mirrors images at random. Options: axis ('horizontal' or 'vertical'), probability (0.5)",
                                  .schema = {.options = kFlipOptions, .positional = kFlipPositional, .common = &common_transform_schema},
                                  .open = open_flip,
                                  .random = true};

}  // namespace perigee
