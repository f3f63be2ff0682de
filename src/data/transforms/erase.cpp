// {"type": "erase"}: paints over a rectangle of every other image, Zhong et al., "Random Erasing Data Augmentation", 2017.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "src/data/transforms/image.h"

namespace perigee {
namespace {

class Erase : public Transform {
 public:
  Erase(const Config& config, const Field& field)
      : field_(field),
        size_(image_size(config, field)),
        probability_(static_cast<float>(config.number("probability"))),
        fill_(static_cast<float>(config.number("fill"))),
        noise_(static_cast<float>(config.number("noise"))) {
    read_range(config, "area", 1, area_);
    read_range(config, "ratio", 1e3, ratio_);
  }
  Field output() const override { return field_; }
  void apply(const std::byte* in, std::byte* out, Draw& draw) const override {
    const auto* from = reinterpret_cast<const float*>(in);
    auto* to = reinterpret_cast<float*>(out);
    std::copy(from, from + size_.channels * size_.pixels(), to);
    if (draw.uniform() >= probability_) return;
    for (int i = 0; i < 10; ++i) {
      const double share = static_cast<double>(size_.pixels()) * (area_[0] + (area_[1] - area_[0]) * draw.uniform());
      const double shape = std::exp(std::log(ratio_[0]) + (std::log(ratio_[1]) - std::log(ratio_[0])) * draw.uniform());
      const auto rows = std::llround(std::sqrt(share * shape)), columns = std::llround(std::sqrt(share / shape));
      if (rows >= size_.height || columns >= size_.width) continue;
      const int64_t top = draw.integer(size_.height - rows + 1), left = draw.integer(size_.width - columns + 1);
      for (int64_t c = 0; c < size_.channels; ++c)
        for (int64_t y = top; y < top + rows; ++y) paint(to + c * size_.pixels() + y * size_.width + left, columns, draw);
      return;
    }
  }

 private:
  void paint(float* row, int64_t columns, Draw& draw) const {
    std::fill(row, row + columns, fill_);
    if (noise_ == 0) return;
    for (int64_t x = 0; x < columns; ++x) {
      const float radius = std::sqrt(-2 * std::log(1 - draw.uniform()));
      row[x] += noise_ * radius * std::cos(2 * std::numbers::pi_v<float> * draw.uniform());
    }
  }

  Field field_;
  ImageSize size_;
  float probability_, fill_, noise_;
  double area_[2] = {.02, .33}, ratio_[2] = {.3, 3.3};
};

std::unique_ptr<Transform> open_erase(const Config& config, const DataSource& source, size_t field) {
  return std::make_unique<Erase>(config, source.fields()[field]);
}

constexpr const char* kErasePositional[] = {"probability"};
constexpr Option kEraseOptions[] = {{"probability", "number", "0.5", "that an image is changed", {0, 1}},
                                    {"area", "list of numbers", "{0.02, 0.33}", "share of the image that is erased: least, most", {0, 1}},
                                    {"ratio", "list of numbers", "{0.3, 3.3}", "height over width of what is erased: least, most"},
                                    {"fill", "number", "0", "value of what is erased"},
                                    {"noise", "number", "0", "deviation of normal noise that is added to it", {0, 1e6}}};

}  // namespace

extern const TransformDef transform_erase;
const TransformDef transform_erase{
    .type = "erase",
    .doc =
        "Erases a rectangle of images at random. Options: probability (0.5), area ({0.02, 0.33}), ratio ({0.3, 3.3}), fill (0), noise (0)",
    .schema = {.options = kEraseOptions, .positional = kErasePositional, .common = &common_transform_schema},
    .open = open_erase,
    .random = true};

}  // namespace perigee
