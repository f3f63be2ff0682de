#include "src/nn/initializers/fill.h"

namespace perigee {

namespace {

constexpr Option kBinomialOptions[] = {{"trials", "integer", "1", "draws of each value", {1, 10000}},
                                       {"probability", "number", "0.5", "of success", {0, 1}}};

}  // namespace

extern const InitializerDef init_binomial;
const InitializerDef init_binomial{.name = "binomial",
                                   .doc = "Successes among `trials` (1) of `probability` (0.5).",
                                   .schema = {.options = kBinomialOptions},
                                   .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
                                     const int64_t trials = options.integer("trials");
                                     const double probability = options.number("probability");
                                     const Draws draws(seed, spec.name);
                                     for (size_t i = 0; i < values.size(); ++i) {
                                       int64_t successes = 0;
                                       for (int64_t t = 0; t < trials; ++t)
                                         successes += draws.uniform(i, static_cast<uint32_t>(t)) < probability;
                                       values[i] = static_cast<float>(successes);
                                     }
                                   }};

}  // namespace perigee
