#include "src/nn/initializers/fill.h"

namespace perigee {

extern const InitializerDef init_var_scaling_uniform_fan_in;
const InitializerDef init_var_scaling_uniform_fan_in{
    .name = "var_scaling_uniform_fan_in",
    .doc = "Uniform, variance scale / fan_in.",
    .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
      const double bound = std::sqrt(3 * options.number_in("scale", 0, 1e6, 1) / fan_in(spec));
      fill_uniform(spec, seed, -bound, bound, values);
    }};

}  // namespace perigee
