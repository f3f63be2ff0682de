// {"type": "standardize"}: mean 0 and standard deviation 1 over the training part. Constant elements become 0.
#include "src/data/transforms/affine.h"

namespace perigee {
namespace {

std::unique_ptr<Transform> open_standardize(const Config& config, const DataSource& source, size_t field) {
  const Field& input = source.fields()[field];
  const Over over = over_option(config, input);
  Json fitted;
  for (const Option* option : {&kLengthsOption, &kMasksOption}) config.string(option->name, "");  // read where they have no effect, too
  if (config.has("fitted")) {
    fitted = *config.raw("fitted");
  } else {
    const Statistics measured = measure(config, source, field, groups_of(input, over));
    fitted.set("mean", json_of(measured.mean));
    fitted.set("std", json_of(measured.deviation));
  }
  const Config values = config.element(fitted, "fitted");
  const std::vector<float> mean = floats_of(values, "mean");
  std::vector<float> factors = floats_of(values, "std"), offsets(factors.size());
  values.reject_unread();
  if (mean.size() != factors.size()) values.fail("std", "has another length than 'mean'");
  for (size_t i = 0; i < factors.size(); ++i) {
    factors[i] = factors[i] > 0 ? 1 / factors[i] : 1;
    offsets[i] = -mean[i] * factors[i];
  }
  return std::make_unique<AffineTransform>(config, input, std::move(factors), std::move(offsets), std::move(fitted));
}

constexpr Option kStandardizeOptions[] = {
    {"over", "name", "element, of images channel", "what has a mean and deviation of its own", {}, {"element", "channel", "all"}},
    kLengthsOption,
    kMasksOption,
    {"fitted", "table", "none", "mean and deviation, where they are known"}};

}  // namespace

extern const TransformDef transform_standardize;
const TransformDef transform_standardize{.type = "standardize",
                                         .doc =
                                             "Mean 0, deviation 1, as measured on the training part. Where the target is standardized "
                                             "(field = \"y\"), figures are in deviations, and predictions of records in its own unit. "
                                             "Options: over ('element', 'channel' or 'all')",
                                         .schema = {.options = kStandardizeOptions, .common = &common_transform_schema},
                                         .open = open_standardize};

}  // namespace perigee
