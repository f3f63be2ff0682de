#include "src/nn/initializers/fill.h"

namespace perigee {

extern const InitializerDef init_lecun_normal;
const InitializerDef init_lecun_normal{.name = "lecun_normal",
                                       .doc = "Normal, variance 1 / fan_in. LeCun et al. 1998.",
                                       .fill = [](const Config&, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
                                         fill_normal(spec, seed, 0, std::sqrt(1 / fan_in(spec)), values);
                                       }};

}  // namespace perigee
