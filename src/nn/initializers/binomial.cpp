#include "src/nn/initializers/fill.h"

namespace perigee {

extern const InitializerDef init_binomial;
const InitializerDef init_binomial{.name = "binomial",
                                   .doc = "Successes among `trials` (1) of `probability` (0.5).",
                                   .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
                                     const int64_t trials = options.integer_in("trials", 1, 10000, 1);
                                     const double probability = options.number_in("probability", 0, 1, 0.5);
                                     const Draws draws(seed, spec.name);
                                     for (size_t i = 0; i < values.size(); ++i) {
                                       int64_t successes = 0;
                                       for (int64_t t = 0; t < trials; ++t)
                                         successes += draws.uniform(i, static_cast<uint32_t>(t)) < probability;
                                       values[i] = static_cast<float>(successes);
                                     }
                                   }};

}  // namespace perigee
