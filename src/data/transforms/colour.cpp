// {"type": "colour", "brightness": 0.2, "contrast": 0.2, "saturation": 0.2, "hue": 0.1}: random factors from 1 - v to 1 + v, and hues turned
// by up to a tenth of the circle. Contrast is about the image's mean luminance, saturation about each pixel's (ITU-R BT.601); saturation
// and hue need three channels. With order = "random" and top = 1 it is torchvision's ColorJitter.
#include <algorithm>
#include <array>
#include <limits>

#include "kernels/picture_loops.h"
#include "src/core/host_isa.h"
#include "src/data/transforms/picture_ops.h"

namespace perigee {
namespace {

enum Change { kBrightness, kContrast, kSaturation, kHue };

class Colour : public Transform {
 public:
  Colour(const Field& field, const ImageSize& size, const std::array<float, 4>& most, bool in_order, float low, float high)
      : field_(field), ops_{.size = size, .sampling = {}}, most_(most), in_order_(in_order), low_(low), high_(high) {}
  Field output() const override { return field_; }

  void apply(const std::byte* in, std::byte* out, Draw& draw) const override {
    std::array<int, 4> order = {kBrightness, kContrast, kSaturation, kHue};
    std::array<float, 4> by;
    for (size_t k = 0; k < 4; ++k) by[k] = draw.between(-most_[k], most_[k]);
    if (!in_order_)
      for (size_t k = 3; k > 0; --k) std::swap(order[k], order[static_cast<size_t>(draw.integer(static_cast<int64_t>(k) + 1))]);
    const Scratch scratch(static_cast<size_t>(ops_.size.channels * ops_.size.pixels()) * sizeof(float));
    const auto* from = reinterpret_cast<const float*>(in);
    float *to = reinterpret_cast<float*>(out), *other = reinterpret_cast<float*>(scratch.data());
    // To and fro, so that the last change writes the result.
    auto left = std::count_if(most_.begin(), most_.end(), [](float each) { return each > 0; });
    if (left == 0) return ops_.apply(PictureOp::identity, 0, from, to);
    for (const int change : order) {
      if (most_[static_cast<size_t>(change)] == 0) continue;
      float* next = left-- % 2 == 1 ? to : other;
      apply_one(change, by[static_cast<size_t>(change)], from, next);
      from = next;
    }
  }

 private:
  void apply_one(int change, float by, const float* from, float* to) const {
    switch (change) {
      case kBrightness: return ops_.brightness(from, 1 + by, low_, high_, to);
      case kContrast: return ops_.contrast(from, 1 + by, low_, high_, to);
      case kSaturation: return ops_.saturation(from, 1 + by, low_, high_, to);
      default: return picture_loops(host_isa()).hue(from, by, ops_.size.pixels(), to);
    }
  }

  Field field_;
  PictureOps ops_;
  std::array<float, 4> most_;
  bool in_order_;
  float low_, high_;
};

std::unique_ptr<Transform> open_colour(const Config& config, const DataSource& source, size_t field) {
  const Field& input = source.fields()[field];
  const ImageSize size = image_size(config, input);
  check_colours(config, size);
  const std::array<float, 4> most = {static_cast<float>(config.number("brightness")), static_cast<float>(config.number("contrast")),
                                     static_cast<float>(config.number_in("saturation", 0, 1, size.channels == 3 ? .2 : 0)),
                                     static_cast<float>(config.number("hue"))};
  for (const char* key : {"saturation", "hue"})
    if (size.channels == 1 && most[key[0] == 'h' ? kHue : kSaturation] > 0) config.fail(key, "needs an image of 3 channels");
  const bool bound = config.has("top");
  const auto high = bound ? static_cast<float>(config.number("top", 1)) : std::numeric_limits<float>::infinity();
  return std::make_unique<Colour>(input, size, most, config.choice("order") == "fixed", bound ? 0 : -high, high);
}

constexpr Option kColourOptions[] = {
    {"brightness", "number", "0.2", "largest change", {0, 1}},
    {"contrast", "number", "0.2", "largest change", {0, 1}},
    {"saturation", "number", "0.2, of grey images 0", "largest change", {0, 1}},
    {"hue", "number", "0", "largest change, as a share of the circle", {0, 0.5}},
    {"order", "name", "fixed", "brightness, contrast, saturation, hue; or another order for each image", {}, {"fixed", "random"}},
    {"top", "number", "none", "values are kept from 0 to this", {1e-6, 1e6}}};

}  // namespace

extern const TransformDef transform_colour;
const TransformDef transform_colour{
    .type = "colour",
    .doc =
        "Random brightness, contrast, saturation and hue. Options: brightness, contrast, saturation (0.2 each), hue (0), order ('fixed' or "
        "'random'), top (none)",
    .schema = {.options = kColourOptions, .common = &common_transform_schema},
    .open = open_colour,
    .random = true};

}  // namespace perigee
