#include "src/nn/initializers/fill.h"

namespace perigee {

namespace {

constexpr Option kVarScalingUniformFanOutOptions[] = {{"scale", "number", "1", "of the variance", {0, 1e6}}};

}  // namespace

extern const InitializerDef init_var_scaling_uniform_fan_out;
const InitializerDef init_var_scaling_uniform_fan_out{
    .name = "var_scaling_uniform_fan_out",
    .doc = "Uniform, variance scale / fan_out.",
    .schema = {.options = kVarScalingUniformFanOutOptions},
    .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
      const double bound = std::sqrt(3 * options.number("scale") / fan_out(spec));
      fill_uniform(spec, seed, -bound, bound, values);
    }};

}  // namespace perigee
