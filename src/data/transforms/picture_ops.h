// The operations of AutoAugment, RandAugment and TrivialAugment, and of colour jitter, on images of values from 0 to `top`. Their
// meaning is torchvision's (transforms.v2.functional), but results are not rounded to 256 levels.
#pragma once

#include "src/data/transforms/geometry.h"

namespace perigee {

enum class PictureOp {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  saturation,
  contrast,
  sharpness,
  posterize,
  solarize,
  autocontrast,
  equalize,
  invert
};

struct PictureOps {
  ImageSize size;
  float top = 1;
  Sampling sampling;

  // `magnitude`: a tangent, pixels, degrees, a change of a factor of 1, bits, or a share of `top`. Never from == to.
  void apply(PictureOp op, float magnitude, const float* from, float* to) const;

  // Between the image and black, its mean luminance, its luminance, another hue; kept from `low` to `high`. One channel or three.
  void brightness(const float* from, float factor, float low, float high, float* to) const;
  void contrast(const float* from, float factor, float low, float high, float* to) const;
  void saturation(const float* from, float factor, float low, float high, float* to) const;

 private:
  void blend(const float* from, float a, float b, float c, float low, float high, float* to) const;
  void sharpen(const float* from, float factor, float* to) const;
  void equalize(const float* from, float* to) const;
  void autocontrast(const float* from, float* to) const;
};

// Magnitudes by level: that of `level` among `levels`, of RandAugment's table or of TrivialAugment's wide one.
enum class Space { narrow, wide };
struct Magnitude {
  float value = 0;
  bool either_way = false;  // half of them are negative
};
Magnitude magnitude_of(PictureOp op, int64_t level, int64_t levels, Space space, const ImageSize& size);

inline constexpr Option kTopOption = {"top", "number", "1", "greatest value of a pixel, as 255 of bytes", {1e-6, 1e6}};
inline constexpr Option kAugmentOptions[] = {kTopOption,
                                             {"interpolation", "name", "nearest", "of pixels between others", {}, {"nearest", "bilinear"}},
                                             {"fill", "number", "0", "value of new pixels"}};

// A random transform that applies some of these operations, one after the other.
class Augment : public Transform {
 public:
  struct Drawn {
    PictureOp op = PictureOp::identity;
    float magnitude = 0;
  };
  static constexpr int kMost = 16;
  // Error when the field is no image of 1 or 3 channels.
  Augment(const Config& config, const Field& field);
  Field output() const override { return field_; }
  void apply(const std::byte* in, std::byte* out, Draw& draw) const override;
  Motion motion() const override { return Motion::untold; }

 protected:
  virtual int choose(Draw& draw, Drawn (&ops)[kMost]) const = 0;  // how many
  Drawn signed_of(PictureOp op, int64_t level, int64_t levels, Space space, Draw& draw) const;

 private:
  Field field_;
  PictureOps ops_;
};

void check_colours(const Config& config, const ImageSize& size);  // Error when there are neither 1 nor 3 channels

}  // namespace perigee
