#include "src/nn/initializers/fill.h"

namespace perigee {

extern const InitializerDef init_fan_in_uniform;
const InitializerDef init_fan_in_uniform{
    .name = "fan_in_uniform",
    .doc = "Uniform in +-1 / sqrt(fan_in): the default of PyTorch and Torch7 for dense and convolution layers.",
    .fill = [](const Config&, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
      const double bound = 1 / std::sqrt(fan_in(spec));
      fill_uniform(spec, seed, -bound, bound, values);
    }};

}  // namespace perigee
