// {"type": "resized_crop", "size": [32, 32]}: a random part of each image, resized: torchvision's RandomResizedCrop.
#include "src/data/transforms/resize.h"

namespace perigee {
namespace {

std::unique_ptr<Transform> open_resized_crop(const Config& config, const DataSource& source, size_t field) {
  std::optional<RandomPart> part;
  if (config.boolean("random")) part.emplace(config);
  return std::make_unique<Resize>(config, source.fields()[field], size_option(config, Fit::crop), part);
}

constexpr const char* kResizedCropPositional[] = {"size"};
constexpr Option kResizedCropOptions[] = {
    kSizeOption, kRandomPartOptions[0], kRandomPartOptions[1], {"random", "boolean", "true", "false: the middle"}};

}  // namespace

extern const TransformDef transform_resized_crop;
const TransformDef transform_resized_crop{
    .type = "resized_crop",
    .doc = "Resizes a random part of images. Options: size, area ({0.08, 1}), ratio ({3/4, 4/3}), random (true; false: the middle)",
    .schema = {.options = kResizedCropOptions, .positional = kResizedCropPositional, .common = &common_transform_schema},
    .open = open_resized_crop,
    .random = true};

}  // namespace perigee
