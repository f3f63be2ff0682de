#include "src/nn/initializers/fill.h"

namespace perigee {

extern const InitializerDef init_xavier_uniform;
const InitializerDef init_xavier_uniform{.name = "xavier_uniform",
                                         .doc = "Uniform in +-sqrt(6 / (fan_in + fan_out)). Glorot and Bengio 2010.",
                                         .fill = [](const Config&, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
                                           const double bound = std::sqrt(6 / (fan_in(spec) + fan_out(spec)));
                                           fill_uniform(spec, seed, -bound, bound, values);
                                         }};

}  // namespace perigee
