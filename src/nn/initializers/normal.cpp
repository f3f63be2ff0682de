#include "src/nn/initializers/fill.h"

namespace perigee {

extern const InitializerDef init_normal;
const InitializerDef init_normal{.name = "normal",
                                 .doc = "Normal with `mean` (0) and `stddev` (0.01).",
                                 .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
                                   fill_normal(spec, seed, options.number("mean", 0), options.number_in("stddev", 0, 1e6, 0.01), values);
                                 }};

}  // namespace perigee
