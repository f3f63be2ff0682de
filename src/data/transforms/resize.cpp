// {"type": "resize", "size": [32, 32], "fit": "crop"}: another size, antialiased.
#include "src/data/transforms/resize.h"

namespace perigee {

FitOptions size_option(const Config& config, Fit fit) {
  if (!config.has("size")) config.fail("size", "is missing", "", "{height, width}, or one number for both");
  const std::vector<int64_t> size = config.integers("size", 2, 0);
  if (size[0] < 1 || size[1] < 1 || size[0] > 8192 || size[1] > 8192) config.fail("size", "is out of range", "", "1 to 8192");
  return {.fit = fit, .height = size[0], .width = size[1]};
}

namespace {

std::unique_ptr<Transform> open_resize(const Config& config, const DataSource& source, size_t field) {
  const std::string fit = config.choice("fit");
  FitOptions options = size_option(config, fit == "pad" ? Fit::pad : fit == "crop" ? Fit::crop : Fit::squash);
  options.fill = static_cast<float>(config.number("fill"));
  return std::make_unique<Resize>(config, source.fields()[field], options, std::nullopt);
}

constexpr const char* kResizePositional[] = {"size"};
constexpr Option kResizeOptions[] = {
    kSizeOption,
    {"fit",
     "name",
     "squash",
     "how a picture of another shape gets the size: it is stretched; its middle is cut out; bars are added",
     {},
     {"squash", "crop", "pad"}},
    {"fill", "number", "0", "value of the bars"}};

}  // namespace

extern const TransformDef transform_resize;
const TransformDef transform_resize{
    .type = "resize",
    .doc = "Resizes images. Options: size, fit ('squash', 'crop' or 'pad'), fill (0)",
    .schema = {.options = kResizeOptions, .positional = kResizePositional, .common = &common_transform_schema},
    .open = open_resize};

}  // namespace perigee
