// {"type": "shift", "pixels": 2}: moves each image by up to so many whole pixels in each direction.
#include "src/data/transforms/image.h"

namespace perigee {
namespace {

class Shift : public Transform {
 public:
  Shift(const Field& field, const ImageSize& size, int64_t down, int64_t right, float fill)
      : field_(field), size_(size), down_(down), right_(right), fill_(fill) {}
  Field output() const override { return field_; }
  void apply(const std::byte* in, std::byte* out, Draw& draw) const override {
    const int64_t top = draw.integer(2 * down_ + 1) - down_, left = draw.integer(2 * right_ + 1) - right_;
    copy_window(reinterpret_cast<const float*>(in), size_, top, left, reinterpret_cast<float*>(out), size_.height, size_.width, fill_);
  }
  Motion motion() const override { return Motion::told; }
  PlaneMap placed(Draw& draw) const override {
    const int64_t top = draw.integer(2 * down_ + 1) - down_, left = draw.integer(2 * right_ + 1) - right_;
    return {1, 0, static_cast<double>(left), 0, 1, static_cast<double>(top), 0, 0};
  }

 private:
  Field field_;
  ImageSize size_;
  int64_t down_, right_;
  float fill_;
};

std::unique_ptr<Transform> open_shift(const Config& config, const DataSource& source, size_t field) {
  const Field& input = source.fields()[field];
  const ImageSize size = image_size(config, input);
  const std::vector<int64_t> pixels = config.integers("pixels", 2, 2);
  if (pixels[0] < 0 || pixels[0] > size.height || pixels[1] < 0 || pixels[1] > size.width)
    config.fail("pixels", "is out of range", "", "0 to the size of the image");
  return std::make_unique<Shift>(input, size, pixels[0], pixels[1], static_cast<float>(config.number("fill")));
}

constexpr const char* kShiftPositional[] = {"pixels"};
constexpr Option kShiftOptions[] = {{"pixels", "integer or {height, width}", "2", "largest way: down and right", {0}},
                                    {"fill", "number", "0", "value of new pixels"}};

}  // namespace

extern const TransformDef transform_shift;
const TransformDef transform_shift{.type = "shift",
                                   .doc = "Moves images at random. Options: pixels (2, or {down, right}), fill (0)",
                                   .schema = {.options = kShiftOptions, .positional = kShiftPositional, .common = &common_transform_schema},
                                   .open = open_shift,
                                   .random = true};

}  // namespace perigee
