#include "src/nn/initializers/fill.h"

namespace perigee {

namespace {

constexpr Option kNormalOptions[] = {{"mean", "number", "0", "of the values"},
                                     {"stddev", "number", "0.01", "standard deviation", {0, 1e6}}};

}  // namespace

extern const InitializerDef init_normal;
const InitializerDef init_normal{.name = "normal",
                                 .doc = "Normal with `mean` (0) and `stddev` (0.01).",
                                 .schema = {.options = kNormalOptions},
                                 .fill = [](const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
                                   fill_normal(spec, seed, options.number("mean"), options.number("stddev"), values);
                                 }};

}  // namespace perigee
