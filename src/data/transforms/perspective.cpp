// {"type": "perspective", "distortion": 0.5}: moves the corners of every other image inwards, as if it were seen from aside.
#include <algorithm>

#include "src/data/transforms/geometry.h"

namespace perigee {
namespace {

class Perspective : public Transform {
 public:
  Perspective(const Config& config, const Field& field)
      : field_(field),
        size_(image_size(config, field)),
        sampling_(sampling_of(config)),
        probability_(static_cast<float>(config.number("probability"))) {
    const double distortion = config.number("distortion");
    down_ = static_cast<int64_t>(distortion * static_cast<double>(size_.height / 2)) + 1;
    right_ = static_cast<int64_t>(distortion * static_cast<double>(size_.width / 2)) + 1;
  }
  Field output() const override { return field_; }
  void apply(const std::byte* in, std::byte* out, Draw& draw) const override {
    const auto* from = reinterpret_cast<const float*>(in);
    auto* to = reinterpret_cast<float*>(out);
    const PlaneMap map = placed(draw);
    if (map == kPlaneAsItIs) std::copy(from, from + size_.channels * size_.pixels(), to);
    else warp_image(from, size_, map, sampling_, to);
  }
  Motion motion() const override { return Motion::told; }
  PlaneMap placed(Draw& draw) const override {
    if (draw.uniform() >= probability_) return kPlaneAsItIs;
    double corners[4][2];
    for (int i = 0; i < 4; ++i) {
      const int64_t x = draw.integer(right_), y = draw.integer(down_);
      corners[i][0] = static_cast<double>(i == 1 || i == 2 ? size_.width - 1 - x : x);
      corners[i][1] = static_cast<double>(i >= 2 ? size_.height - 1 - y : y);
    }
    return perspective_map(size_, corners);
  }

 private:
  Field field_;
  ImageSize size_;
  Sampling sampling_;
  float probability_;
  int64_t down_, right_;  // pixels that a corner may move, and one
};

std::unique_ptr<Transform> open_perspective(const Config& config, const DataSource& source, size_t field) {
  return std::make_unique<Perspective>(config, source.fields()[field]);
}

constexpr const char* kPerspectivePositional[] = {"distortion"};
constexpr Option kPerspectiveOptions[] = {
    {"distortion", "number", "0.5", "share of the way to the middle that corners move at most", {0, 1}},
    {"probability", "number", "0.5", "that an image is changed", {0, 1}},
    kSamplingOptions[0],
    kSamplingOptions[1]};

}  // namespace

extern const TransformDef transform_perspective;
const TransformDef transform_perspective{
    .type = "perspective",
    .doc = "Tilts images at random. Options: distortion (0.5), probability (0.5), interpolation ('bilinear' or 'nearest'), fill (0)",
    .schema = {.options = kPerspectiveOptions, .positional = kPerspectivePositional, .common = &common_transform_schema},
    .open = open_perspective,
    .random = true};

}  // namespace perigee
