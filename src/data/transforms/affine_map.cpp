// {"type": "affine", "degrees": 15, "translate": 0.1, "scale": [0.9, 1.1], "shear": 5}: turns, moves, scales and shears each image.
#include <cmath>

#include "src/data/transforms/geometry.h"

namespace perigee {
namespace {

class AffineMap : public Transform {
 public:
  AffineMap(const Config& config, const Field& field) : field_(field), size_(image_size(config, field)), sampling_(sampling_of(config)) {
    degrees_ = static_cast<float>(config.number("degrees"));
    translate_ = static_cast<float>(config.number("translate"));
    shear_ = static_cast<float>(config.number("shear"));
    read_range(config, "scale", 100, scale_);
  }
  Field output() const override { return field_; }
  void apply(const std::byte* in, std::byte* out, Draw& draw) const override {
    warp_image(reinterpret_cast<const float*>(in), size_, placed(draw), sampling_, reinterpret_cast<float*>(out));
  }
  Motion motion() const override { return Motion::told; }
  PlaneMap placed(Draw& draw) const override {
    AffineParts parts;
    parts.degrees = draw.between(-degrees_, degrees_);
    // torchvision's RandomAffine moves by whole pixels.
    parts.right = std::nearbyint(draw.between(-translate_, translate_) * static_cast<float>(size_.width));
    parts.down = std::nearbyint(draw.between(-translate_, translate_) * static_cast<float>(size_.height));
    parts.scale = draw.between(static_cast<float>(scale_[0]), static_cast<float>(scale_[1]));
    parts.shear_x = draw.between(-shear_, shear_);
    return affine_map(size_, parts);
  }

 private:
  Field field_;
  ImageSize size_;
  Sampling sampling_;
  float degrees_, translate_, shear_;
  double scale_[2] = {1, 1};
};

std::unique_ptr<Transform> open_affine_map(const Config& config, const DataSource& source, size_t field) {
  return std::make_unique<AffineMap>(config, source.fields()[field]);
}

constexpr const char* kAffineMapPositional[] = {"degrees"};
constexpr Option kAffineMapOptions[] = {{"degrees", "number", "10", "largest angle either way", {0, 180}},
                                        {"translate", "number", "0", "largest way, as a share of width and height", {0, 1}},
                                        {"scale", "list of numbers", "{1, 1}", "least and largest enlargement"},
                                        {"shear", "number", "0", "largest angle of x, in degrees", {0, 89}},
                                        kSamplingOptions[0],
                                        kSamplingOptions[1]};

}  // namespace

extern const TransformDef transform_affine_map;
const TransformDef transform_affine_map{
    .type = "affine",
    .doc =
        "Turns, moves, scales and shears images at random, about their middle. Options: degrees (10), translate (0), scale ({1, 1}), "
        "shear (0), interpolation ('bilinear' or 'nearest'), fill (0)",
    .schema = {.options = kAffineMapOptions, .positional = kAffineMapPositional, .common = &common_transform_schema},
    .open = open_affine_map,
    .random = true};

}  // namespace perigee
