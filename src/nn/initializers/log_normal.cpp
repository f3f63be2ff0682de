#include "src/nn/initializers/fill.h"

namespace perigee {

namespace {

constexpr Option kLogNormalOptions[] = {{"mean", "number", "0", "of the logarithm"},
                                        {"stddev", "number", "1", "of the logarithm", {0, 100}}};

}  // namespace

extern const InitializerDef init_log_normal;
const InitializerDef init_log_normal{.name = "log_normal",
                                     .doc = "exp of a normal with `mean` (0) and `stddev` (1).",
                                     .schema = {.options = kLogNormalOptions},
                                     .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
                                       const double mean = options.number("mean"), stddev = options.number("stddev");
                                       const Draws draws(seed, spec.name);
                                       for (size_t i = 0; i < values.size(); ++i)
                                         values[i] = static_cast<float>(exact_exp(mean + stddev * draws.normal(i)));
                                     }};

}  // namespace perigee
