#include "src/nn/initializers/fill.h"

namespace perigee {

extern const InitializerDef init_lecun_uniform;
const InitializerDef init_lecun_uniform{.name = "lecun_uniform",
                                        .doc = "Uniform in +-sqrt(3 / fan_in). LeCun et al. 1998.",
                                        .fill = [](const Config&, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
                                          const double bound = std::sqrt(3 / fan_in(spec));
                                          fill_uniform(spec, seed, -bound, bound, values);
                                        }};

}  // namespace perigee
