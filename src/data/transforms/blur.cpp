// {"type": "blur", "kernel": 5, "deviation": [0.1, 2]}: blurs each image by a Gaussian whose deviation is drawn.
#include <algorithm>

#include "src/data/transforms/image.h"
#include "src/io/picture/resample.h"

namespace perigee {
namespace {

class Blur : public Transform {
 public:
  Blur(const Config& config, const Field& field)
      : field_(field),
        size_(image_size(config, field)),
        reach_(config.integer("kernel") / 2),
        probability_(static_cast<float>(config.number("probability"))) {
    if (config.integer("kernel") % 2 == 0) config.fail("kernel", "has no middle", std::to_string(2 * reach_), "an odd number");
    read_range(config, "deviation", 1e3, deviation_);
  }
  Field output() const override { return field_; }
  void apply(const std::byte* in, std::byte* out, Draw& draw) const override {
    const auto* from = reinterpret_cast<const float*>(in);
    auto* to = reinterpret_cast<float*>(out);
    if (draw.uniform() >= probability_) {
      std::copy(from, from + size_.channels * size_.pixels(), to);
      return;
    }
    const double deviation = draw.between(static_cast<float>(deviation_[0]), static_cast<float>(deviation_[1]));
    thread_local ResampleTaps rows, columns;
    ResampleCall call{.row = size_.width,
                      .rows = rows.gauss(deviation, reach_, size_.height),
                      .columns = columns.gauss(deviation, reach_, size_.width),
                      .to_plane = size_.pixels(),
                      .to_row = size_.width};
    for (int64_t c = 0; c < size_.channels; ++c) {
      call.from = from + c * size_.pixels(), call.to = to + c * size_.pixels();
      resample(call, false);
    }
  }

 private:
  Field field_;
  ImageSize size_;
  int64_t reach_;
  float probability_;
  double deviation_[2] = {.1, 2};
};

std::unique_ptr<Transform> open_blur(const Config& config, const DataSource& source, size_t field) {
  return std::make_unique<Blur>(config, source.fields()[field]);
}

constexpr const char* kBlurPositional[] = {"kernel"};
constexpr Option kBlurOptions[] = {{"kernel", "integer", "5", "pixels that it spans, odd", {1, 255}},
                                   {"deviation", "list of numbers", "{0.1, 2}", "least and largest, in pixels"},
                                   {"probability", "number", "1", "that an image is changed", {0, 1}}};

}  // namespace

extern const TransformDef transform_blur;
const TransformDef transform_blur{.type = "blur",
                                  .doc = "Blurs images by Gaussians. Options: kernel (5), deviation ({0.1, 2}), probability (1)",
                                  .schema = {.options = kBlurOptions, .positional = kBlurPositional, .common = &common_transform_schema},
                                  .open = open_blur,
                                  .random = true};

}  // namespace perigee
