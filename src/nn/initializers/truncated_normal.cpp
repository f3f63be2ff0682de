#include "src/nn/initializers/fill.h"

namespace perigee {

namespace {

constexpr Option kTruncatedNormalOptions[] = {{"mean", "number", "0", "of the values"},
                                              {"stddev", "number", "0.01", "standard deviation before the cut", {0, 1e6}}};

}  // namespace

extern const InitializerDef init_truncated_normal;
const InitializerDef init_truncated_normal{
    .name = "truncated_normal",
    .doc = "Normal with `mean` (0) and `stddev` (0.01), drawn within two standard deviations.",
    .schema = {.options = kTruncatedNormalOptions},
    .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
      fill_truncated_normal(spec, seed, options.number("mean"), options.number("stddev"), values);
    }};

}  // namespace perigee
