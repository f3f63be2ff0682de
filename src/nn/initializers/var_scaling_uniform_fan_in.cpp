#include "src/nn/initializers/fill.h"

namespace perigee {

namespace {

constexpr Option kVarScalingUniformFanInOptions[] = {{"scale", "number", "1", "of the variance", {0, 1e6}}};

}  // namespace

extern const InitializerDef init_var_scaling_uniform_fan_in;
const InitializerDef init_var_scaling_uniform_fan_in{
    .name = "var_scaling_uniform_fan_in",
    .doc = "Uniform, variance scale / fan_in.",
    .schema = {.options = kVarScalingUniformFanInOptions},
    .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
      const double bound = std::sqrt(3 * options.number("scale") / fan_in(spec));
      fill_uniform(spec, seed, -bound, bound, values);
    }};

}  // namespace perigee
