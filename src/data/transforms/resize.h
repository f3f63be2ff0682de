// A transform that gives images another size, by `fit` or of a random part: resize and resized_crop.
#pragma once

#include <optional>

#include "src/data/transforms/image.h"

namespace perigee {

class Resize : public Transform {
 public:
  Resize(const Config& config, const Field& field, const FitOptions& fit, std::optional<RandomPart> part)
      : output_(with_size(field, fit.height, fit.width)), size_(image_size(config, field)), fit_(fit), part_(part) {}
  Field output() const override { return output_; }
  bool draws() const override { return part_.has_value(); }
  void apply(const std::byte* in, std::byte* out, Draw& draw) const override {
    std::optional<ImagePart> part;
    if (part_) part = part_->draw(size_.height, size_.width, draw);
    fit_planes(reinterpret_cast<const float*>(in), size_.channels, size_.height, size_.width, fit_, part ? &*part : nullptr,
               reinterpret_cast<float*>(out));
  }
  Motion motion() const override { return Motion::told; }
  PlaneMap placed(Draw& draw) const override {
    std::optional<ImagePart> part;
    if (part_) part = part_->draw(size_.height, size_.width, draw);
    return fitted_plane(fit_place(size_.height, size_.width, fit_, part ? &*part : nullptr));
  }

 private:
  Field output_;
  ImageSize size_;
  FitOptions fit_;
  std::optional<RandomPart> part_;
};

inline constexpr Option kSizeOption = {"size", "integer or {height, width}", nullptr, "of the result", {1, 8192}};
FitOptions size_option(const Config& config, Fit fit);

}  // namespace perigee
