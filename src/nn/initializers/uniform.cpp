#include "src/nn/initializers/fill.h"

namespace perigee {

extern const InitializerDef init_uniform;
const InitializerDef init_uniform{.name = "uniform",
                                  .doc = "Uniform from `low` (-0.05) to `high` (0.05).",
                                  .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
                                    fill_uniform(spec, seed, options.number("low", -0.05), options.number("high", 0.05), values);
                                  }};

}  // namespace perigee
