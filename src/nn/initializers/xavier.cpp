#include "src/nn/initializers/fill.h"

namespace perigee {

extern const InitializerDef init_xavier;
const InitializerDef init_xavier{.name = "xavier",
                                 .doc = "Normal, variance 2 / (fan_in + fan_out). Glorot and Bengio 2010.",
                                 .fill = [](const Config&, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
                                   fill_normal(spec, seed, 0, std::sqrt(2 / (fan_in(spec) + fan_out(spec))), values);
                                 }};

}  // namespace perigee
