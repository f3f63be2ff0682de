#include "src/nn/initializers/fill.h"

namespace perigee {

extern const InitializerDef init_truncated_normal;
const InitializerDef init_truncated_normal{
    .name = "truncated_normal",
    .doc = "Normal with `mean` (0) and `stddev` (0.01), drawn within two standard deviations.",
    .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
      fill_truncated_normal(spec, seed, options.number("mean", 0), options.number_in("stddev", 0, 1e6, 0.01), values);
    }};

}  // namespace perigee
