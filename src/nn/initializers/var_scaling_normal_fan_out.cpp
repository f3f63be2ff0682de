#include "src/nn/initializers/fill.h"

namespace perigee {

extern const InitializerDef init_var_scaling_normal_fan_out;
const InitializerDef init_var_scaling_normal_fan_out{
    .name = "var_scaling_normal_fan_out",
    .doc = "Normal within two standard deviations, variance scale / fan_out before the cut.",
    .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
      fill_truncated_normal(spec, seed, 0, std::sqrt(options.number_in("scale", 0, 1e6, 1) / fan_out(spec)), values);
    }};

}  // namespace perigee
