// {"type": "crop", "size": 32, "pad": 4}: pads the image on all sides, then cuts out a window, at random or in the middle.
#include <algorithm>
#include <utility>

#include "src/data/transforms/image.h"

namespace perigee {
namespace {

class Crop : public Transform {
 public:
  Crop(const Field& field, const ImageSize& size, int64_t height, int64_t width, int64_t pad, bool random, float fill)
      : output_(with_size(field, height, width)), size_(size), height_(height), width_(width), pad_(pad), random_(random), fill_(fill) {}
  Field output() const override { return output_; }
  void apply(const std::byte* in, std::byte* out, Draw& draw) const override {
    const auto [top, left] = corner(draw);
    copy_window(reinterpret_cast<const float*>(in), size_, top, left, reinterpret_cast<float*>(out), height_, width_, fill_);
  }
  Motion motion() const override { return Motion::told; }
  PlaneMap placed(Draw& draw) const override {
    const auto [top, left] = corner(draw);
    return {1, 0, static_cast<double>(left), 0, 1, static_cast<double>(top), 0, 0};
  }

 private:
  // The window's row and column in the picture.
  std::pair<int64_t, int64_t> corner(Draw& draw) const {
    const int64_t rows = size_.height + 2 * pad_ - height_, columns = size_.width + 2 * pad_ - width_;
    const int64_t top = random_ ? draw.integer(rows + 1) : rows / 2, left = random_ ? draw.integer(columns + 1) : columns / 2;
    return {top - pad_, left - pad_};
  }

  Field output_;
  ImageSize size_;
  int64_t height_, width_, pad_;
  bool random_;
  float fill_;
};

std::unique_ptr<Transform> open_crop(const Config& config, const DataSource& source, size_t field) {
  const Field& input = source.fields()[field];
  const ImageSize size = image_size(config, input);
  const int64_t pad = config.integer("pad");
  std::vector<int64_t> window{size.height, size.width};
  if (config.has("size")) window = config.integers("size", 2, 0);
  if (window[0] < 1 || window[1] < 1 || window[0] > size.height + 2 * pad || window[1] > size.width + 2 * pad)
    config.fail("size", "does not fit into the padded image", std::to_string(window[0]) + "x" + std::to_string(window[1]),
                "at most " + Shape{size.height + 2 * pad, size.width + 2 * pad}.text());
  return std::make_unique<Crop>(input, size, window[0], window[1], pad, config.boolean("random"),
                                static_cast<float>(config.number("fill")));
}

constexpr const char* kCropPositional[] = {"size"};
constexpr Option kCropOptions[] = {{"size", "integer or {height, width}", "the image's", "of the window"},
                                   {"pad", "integer", "0", "pixels added on each side first", {0, 4096}},
                                   {"random", "boolean", "true", "false: the middle"},
                                   {"fill", "number", "0", "value of added pixels"}};

}  // namespace

extern const TransformDef transform_crop;
const TransformDef transform_crop{
    .type = "crop",
    .doc = "Pads, then cuts a window. Options: size (the image's), pad (0), random (true; false: the middle), fill (0)",
    .schema = {.options = kCropOptions, .positional = kCropPositional, .common = &common_transform_schema},
    .open = open_crop,
    .random = true};

}  // namespace perigee
