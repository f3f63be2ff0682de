#include <cmath>

#include "src/nn/layers/common.h"
#include "src/nn/noise.h"

namespace perigee {
namespace {

constexpr const char* kGaussianDropoutPositional[] = {"rate"};
constexpr Option kGaussianDropoutOptions[] = {{"rate", "number", "0.5", "probability with which a value is dropped", {0, 0.999999}}};

std::vector<Value> build_gaussian_dropout(LayerContext& context, std::span<const Value> inputs) {
  if (!context.training()) return {inputs[0]};
  const double rate = context.options().number("rate");
  return {inputs[0] * normal_like(context, "noise", inputs[0], 1, std::sqrt(rate / (1 - rate)))};
}

}  // namespace

extern const LayerDef layer_gaussian_dropout;
const LayerDef layer_gaussian_dropout{.name = "gaussian_dropout",
                                      .stem = "dropout",
                                      .doc = "Multiplies by normal noise of mean 1 in training; its variance is rate / (1 - rate).",
                                      .example = R"({"type": "gaussian_dropout", "rate": 0.3})",
                                      .example_input = "[12]",
                                      .schema = layer_schema(kGaussianDropoutOptions, kGaussianDropoutPositional),
                                      .build = build_gaussian_dropout,
                                      .step_use = each_step};

}  // namespace perigee
