// {"type": "normalize", "mean": [0.49, 0.48, 0.45], "std": [0.25, 0.24, 0.26]}: (x - mean) / std with values that are known beforehand.
#include "src/data/transforms/affine.h"

namespace perigee {
namespace {

std::unique_ptr<Transform> open_normalize_transform(const Config& config, const DataSource& source, size_t field) {
  std::vector<float> mean = floats_of(config, "mean"), factors = floats_of(config, "std");
  if (mean.empty()) config.fail("mean", "is missing", "", "a number or one per channel");
  if (factors.empty()) config.fail("std", "is missing", "", "a number or one per channel");
  if (mean.size() == 1) mean.resize(factors.size(), mean[0]);
  if (factors.size() == 1) factors.resize(mean.size(), factors[0]);
  if (mean.size() != factors.size())
    config.fail("std", "has another length than 'mean'", std::to_string(factors.size()), std::to_string(mean.size()));
  std::vector<float> offsets(factors.size());
  for (size_t i = 0; i < factors.size(); ++i) {
    if (!(factors[i] > 0)) config.fail("std", "must be positive");
    factors[i] = 1 / factors[i];
    offsets[i] = -mean[i] * factors[i];
  }
  return std::make_unique<AffineTransform>(config, source.fields()[field], std::move(factors), std::move(offsets), Json());
}

constexpr const char* kNormalizePositional[] = {"mean", "std"};
constexpr Option kNormalizeOptions[] = {{"mean", "number or list of numbers", nullptr, "one for all, or one per channel"},
                                        {"std", "number or list of numbers", nullptr, "one for all, or one per channel"}};

}  // namespace

extern const TransformDef transform_normalize;
const TransformDef transform_normalize{
    .type = "normalize",
    .doc = "(x - mean) / std. Options: mean, std: a number or one per channel",
    .schema = {.options = kNormalizeOptions, .positional = kNormalizePositional, .common = &common_transform_schema},
    .open = open_normalize_transform};

}  // namespace perigee
