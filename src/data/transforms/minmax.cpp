// {"type": "minmax", "low": 0, "high": 1}: the training part's least and greatest values become low and high. Constants become low.
#include "src/data/transforms/affine.h"

namespace perigee {
namespace {

std::unique_ptr<Transform> open_minmax(const Config& config, const DataSource& source, size_t field) {
  const Field& input = source.fields()[field];
  const Over over = over_option(config, input);
  const auto low = static_cast<float>(config.number("low")), high = static_cast<float>(config.number("high"));
  Json fitted;
  for (const Option* option : {&kLengthsOption, &kMasksOption}) config.string(option->name, "");  // read where they have no effect, too
  if (config.has("fitted")) {
    fitted = *config.raw("fitted");
  } else {
    const Statistics measured = measure(config, source, field, groups_of(input, over));
    fitted.set("min", json_of(measured.low));
    fitted.set("max", json_of(measured.high));
  }
  const Config values = config.element(fitted, "fitted");
  const std::vector<float> least = floats_of(values, "min"), greatest = floats_of(values, "max");
  values.reject_unread();
  if (least.size() != greatest.size()) values.fail("max", "has another length than 'min'");
  std::vector<float> factors(least.size()), offsets(least.size());
  for (size_t i = 0; i < least.size(); ++i) {
    factors[i] = greatest[i] > least[i] ? (high - low) / (greatest[i] - least[i]) : 1;
    offsets[i] = low - least[i] * factors[i];
  }
  return std::make_unique<AffineTransform>(config, input, std::move(factors), std::move(offsets), std::move(fitted));
}

constexpr Option kMinmaxOptions[] = {
    {"low", "number", "0", "what the least becomes"},
    {"high", "number", "1", "what the greatest becomes"},
    {"over", "name", "element, of images channel", "what has a mean and deviation of its own", {}, {"element", "channel", "all"}},
    kLengthsOption,
    kMasksOption,
    {"fitted", "table", "none", "the range, where it is known"}};

}  // namespace

extern const TransformDef transform_minmax;
const TransformDef transform_minmax{
    .type = "minmax",
    .doc = "The training part's range becomes low (0) to high (1). Options: low, high, over ('element', 'channel' or 'all')",
    .schema = {.options = kMinmaxOptions, .common = &common_transform_schema},
    .open = open_minmax};

}  // namespace perigee
