// {"type": "scale", "factor": 0.5, "offset": 0}: y = x * factor + offset.
#include "src/data/transforms/affine.h"

namespace perigee {
namespace {

std::unique_ptr<Transform> open_scale(const Config& config, const DataSource& source, size_t field) {
  const auto factor = static_cast<float>(config.number("factor")), offset = static_cast<float>(config.number("offset"));
  return std::make_unique<AffineTransform>(config, source.fields()[field], std::vector{factor}, std::vector{offset}, Json());
}

constexpr const char* kScalePositional[] = {"factor"};
constexpr Option kScaleOptions[] = {{"factor", "number", "1", "multiplies each value"}, {"offset", "number", "0", "is added"}};

}  // namespace

extern const TransformDef transform_scale;
const TransformDef transform_scale{.type = "scale",
                                   .doc = "x * factor + offset. Options: factor (1), offset (0)",
                                   .schema = {.options = kScaleOptions, .positional = kScalePositional, .common = &common_transform_schema},
                                   .open = open_scale};

}  // namespace perigee
