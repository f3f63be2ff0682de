#include "src/nn/initializers/fill.h"

namespace perigee {

extern const InitializerDef init_he_uniform;
const InitializerDef init_he_uniform{.name = "he_uniform",
                                     .doc = "Uniform in +-sqrt(6 / fan_in), for relu. He et al. 2015.",
                                     .fill = [](const Config&, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
                                       const double bound = std::sqrt(6 / fan_in(spec));
                                       fill_uniform(spec, seed, -bound, bound, values);
                                     }};

}  // namespace perigee
