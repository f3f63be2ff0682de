#include "src/nn/initializers/fill.h"

namespace perigee {

extern const InitializerDef init_var_scaling_normal_fan_avg;
const InitializerDef init_var_scaling_normal_fan_avg{
    .name = "var_scaling_normal_fan_avg",
    .doc = "Normal within two standard deviations, variance scale / the mean of fan_in and fan_out before the cut.",
    .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
      fill_truncated_normal(spec, seed, 0, std::sqrt(options.number_in("scale", 0, 1e6, 1) / fan_average(spec)), values);
    }};

}  // namespace perigee
