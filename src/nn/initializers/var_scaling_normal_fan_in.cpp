#include "src/nn/initializers/fill.h"

namespace perigee {

namespace {

constexpr Option kVarScalingNormalFanInOptions[] = {{"scale", "number", "1", "of the variance", {0, 1e6}}};

}  // namespace

extern const InitializerDef init_var_scaling_normal_fan_in;
const InitializerDef init_var_scaling_normal_fan_in{
    .name = "var_scaling_normal_fan_in",
    .doc = "Normal within two standard deviations, variance scale / fan_in before the cut.",
    .schema = {.options = kVarScalingNormalFanInOptions},
    .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
      fill_truncated_normal(spec, seed, 0, std::sqrt(options.number("scale") / fan_in(spec)), values);
    }};

}  // namespace perigee
