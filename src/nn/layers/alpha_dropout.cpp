#include <cmath>

#include "src/nn/layers/common.h"
#include "src/nn/noise.h"

namespace perigee {
namespace {

constexpr const char* kAlphaDropoutPositional[] = {"rate"};
constexpr Option kAlphaDropoutOptions[] = {{"rate", "number", "0.5", "probability with which a value is dropped", {0, 0.999999}}};

std::vector<Value> build_alpha_dropout(LayerContext& context, std::span<const Value> inputs) {
  if (!context.training()) return {inputs[0]};
  const double rate = context.options().number("rate");
  constexpr double kDropped = -1.7580993408473766;  // selu at minus infinity
  const double kept = 1 - rate, a = 1 / std::sqrt(kept + kDropped * kDropped * kept * rate), b = -a * rate * kDropped;
  const Value x = inputs[0], draws = uniform_like(context, "mask", x);
  Graph& graph = context.graph();
  const Value keep = greater_equal(draws, graph.constant(rate, {x.dtype(), Shape()}));
  return {a * where(keep, x, graph.constant(kDropped, {x.dtype(), Shape()})) + b};
}

}  // namespace

extern const LayerDef layer_alpha_dropout;
const LayerDef layer_alpha_dropout{
    .name = "alpha_dropout",
    .stem = "dropout",
    .doc = "Dropout for selu networks: dropped values take the value that keeps mean and variance. Klambauer et al. 2017.",
    .example = R"({"type": "alpha_dropout", "rate": 0.2})",
    .example_input = "[12]",
    .schema = layer_schema(kAlphaDropoutOptions, kAlphaDropoutPositional),
    .build = build_alpha_dropout,
    .step_use = each_step};

}  // namespace perigee
