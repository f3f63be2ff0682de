#include "src/nn/initializers/fill.h"

namespace perigee {

namespace {

constexpr Option kVarScalingNormalFanOutOptions[] = {{"scale", "number", "1", "of the variance", {0, 1e6}}};

}  // namespace

extern const InitializerDef init_var_scaling_normal_fan_out;
const InitializerDef init_var_scaling_normal_fan_out{
    .name = "var_scaling_normal_fan_out",
    .doc = "Normal within two standard deviations, variance scale / fan_out before the cut.",
    .schema = {.options = kVarScalingNormalFanOutOptions},
    .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
      fill_truncated_normal(spec, seed, 0, std::sqrt(options.number("scale") / fan_out(spec)), values);
    }};

}  // namespace perigee
