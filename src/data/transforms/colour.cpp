// {"type": "colour", "brightness": 0.2, "contrast": 0.2, "saturation": 0.2}: random factors from 1 - v to 1 + v.
// Contrast is about the image's mean luminance, saturation about each pixel's (ITU-R BT.601); saturation needs three channels.
#include "src/data/transforms/image.h"

namespace perigee {
namespace {

class Colour : public Transform {
 public:
  Colour(const Field& field, const ImageSize& size, float brightness, float contrast, float saturation)
      : field_(field), size_(size), brightness_(brightness), contrast_(contrast), saturation_(saturation) {}
  Field output() const override { return field_; }

  void apply(const std::byte* in, std::byte* out, Draw& draw) const override {
    const auto* from = reinterpret_cast<const float*>(in);
    auto* to = reinterpret_cast<float*>(out);
    const float brightness = draw.between(1 - brightness_, 1 + brightness_), contrast = draw.between(1 - contrast_, 1 + contrast_);
    const float saturation = draw.between(1 - saturation_, 1 + saturation_);
    const int64_t n = size_.pixels();
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += luminance(from, i);
    const float mean = brightness * static_cast<float>(sum / static_cast<double>(n));
    for (int64_t i = 0; i < n; ++i) {
      const float grey = brightness * luminance(from, i);
      for (int64_t c = 0; c < size_.channels; ++c) {
        const float value = grey + saturation * (brightness * from[c * n + i] - grey);
        to[c * n + i] = mean + contrast * (value - mean);
      }
    }
  }

 private:
  float luminance(const float* image, int64_t i) const {
    const int64_t n = size_.pixels();
    return size_.channels == 3 ? .299f * image[i] + .587f * image[n + i] + .114f * image[2 * n + i] : image[i];
  }

  Field field_;
  ImageSize size_;
  float brightness_, contrast_, saturation_;
};

std::unique_ptr<Transform> open(const Config& config, const DataSource& source, size_t field) {
  const Field& input = source.fields()[field];
  const ImageSize size = image_size(config, input);
  if (size.channels != 3 && size.channels != 1)
    throw Error(ErrorKind::data,
                {.where = config.where(), .what = "the image has " + std::to_string(size.channels) + " channels", .expected = "1 or 3"});
  const auto brightness = static_cast<float>(config.number("brightness"));
  const auto contrast = static_cast<float>(config.number("contrast"));
  const auto saturation = static_cast<float>(config.number_in("saturation", 0, 1, size.channels == 3 ? .2 : 0));
  if (size.channels == 1 && saturation > 0) config.fail("saturation", "needs an image of 3 channels");
  return std::make_unique<Colour>(input, size, brightness, contrast, saturation);
}

constexpr Option kOptions[] = {{"brightness", "number", "0.2", "largest change", {0, 1}},
                               {"contrast", "number", "0.2", "largest change", {0, 1}},
                               {"saturation", "number", "0.2, of grey images 0", "largest change", {0, 1}}};

}  // namespace

extern const TransformDef transform_colour;
const TransformDef transform_colour{
    .type = "colour",
    .doc = "Random brightness, contrast and saturation. Options: brightness, contrast, saturation (0.2 each)",
    .schema = {.options = kOptions, .common = &common_transform_schema},
    .open = open,
    .random = true};

}  // namespace perigee
