#include "src/nn/initializers/fill.h"

namespace perigee {

namespace {

constexpr Option kVarScalingNormalFanAvgOptions[] = {{"scale", "number", "1", "of the variance", {0, 1e6}}};

}  // namespace

extern const InitializerDef init_var_scaling_normal_fan_avg;
const InitializerDef init_var_scaling_normal_fan_avg{
    .name = "var_scaling_normal_fan_avg",
    .doc = "Normal within two standard deviations, variance scale / the mean of fan_in and fan_out before the cut.",
    .schema = {.options = kVarScalingNormalFanAvgOptions},
    .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
      fill_truncated_normal(spec, seed, 0, std::sqrt(options.number("scale") / fan_average(spec)), values);
    }};

}  // namespace perigee
