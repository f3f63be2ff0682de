#include "src/nn/initializers/fill.h"

namespace perigee {

extern const InitializerDef init_var_scaling_uniform_fan_out;
const InitializerDef init_var_scaling_uniform_fan_out{
    .name = "var_scaling_uniform_fan_out",
    .doc = "Uniform, variance scale / fan_out.",
    .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
      const double bound = std::sqrt(3 * options.number_in("scale", 0, 1e6, 1) / fan_out(spec));
      fill_uniform(spec, seed, -bound, bound, values);
    }};

}  // namespace perigee
