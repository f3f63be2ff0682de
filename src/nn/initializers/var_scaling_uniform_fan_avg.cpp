#include "src/nn/initializers/fill.h"

namespace perigee {

namespace {

constexpr Option kVarScalingUniformFanAvgOptions[] = {{"scale", "number", "1", "of the variance", {0, 1e6}}};

}  // namespace

extern const InitializerDef init_var_scaling_uniform_fan_avg;
const InitializerDef init_var_scaling_uniform_fan_avg{
    .name = "var_scaling_uniform_fan_avg",
    .doc = "Uniform, variance scale / the mean of fan_in and fan_out.",
    .schema = {.options = kVarScalingUniformFanAvgOptions},
    .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
      const double bound = std::sqrt(3 * options.number("scale") / fan_average(spec));
      fill_uniform(spec, seed, -bound, bound, values);
    }};

}  // namespace perigee
