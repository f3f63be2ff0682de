#include "src/nn/initializers/fill.h"

namespace perigee {

namespace {

constexpr Option kUniformOptions[] = {{"low", "number", "-0.05", "smallest value"}, {"high", "number", "0.05", "largest value"}};

}  // namespace

extern const InitializerDef init_uniform;
const InitializerDef init_uniform{.name = "uniform",
                                  .doc = "Uniform from `low` (-0.05) to `high` (0.05).",
                                  .schema = {.options = kUniformOptions},
                                  .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
                                    fill_uniform(spec, seed, options.number("low"), options.number("high"), values);
                                  }};

}  // namespace perigee
