#include "src/nn/initializers/fill.h"

namespace perigee {

namespace {

constexpr const char* kConstantPositional[] = {"value"};
constexpr Option kConstantInitializerOptions[] = {{"value", "number", nullptr, "of all elements"}};

}  // namespace

extern const InitializerDef init_constant;
const InitializerDef init_constant{.name = "constant",
                                   .doc = "All `value`.",
                                   .schema = {.options = kConstantInitializerOptions, .positional = kConstantPositional},
                                   .fill = [](const Config& options, const ParameterSpec&, uint64_t, std::span<float> values) {
                                     std::fill(values.begin(), values.end(), static_cast<float>(options.number("value")));
                                   }};

}  // namespace perigee
