#include "src/nn/initializers/fill.h"

namespace perigee {

extern const InitializerDef init_he_normal;
const InitializerDef init_he_normal{.name = "he_normal",
                                    .doc = "Normal, variance 2 / fan_in, for relu. He et al. 2015.",
                                    .fill = [](const Config&, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
                                      fill_normal(spec, seed, 0, std::sqrt(2 / fan_in(spec)), values);
                                    }};

}  // namespace perigee
