#include "src/nn/layers/common.h"
#include "src/nn/noise.h"

namespace perigee {
namespace {

constexpr const char* kSaltAndPepperPositional[] = {"rate"};
constexpr Option kSaltAndPepperOptions[] = {{"rate", "number", "0.3", "probability with which a value is replaced", {0, 1}},
                                            {"low", "number", "0", "what one half of them become"},
                                            {"high", "number", "1", "what the other half become"}};

// One draw decides both: below half the rate pepper, below the rate salt.
std::vector<Value> build_salt_and_pepper(LayerContext& context, std::span<const Value> inputs) {
  const Value x = inputs[0];
  if (!context.training()) return {x};
  Graph& graph = x.graph();
  const Config& options = context.options();
  const auto number = [&](double value) { return graph.constant(value, {x.dtype(), Shape()}); };
  const double rate = options.number("rate");
  const Value draws = uniform_like(context, "mask", x);
  const Value noise = where(graph.apply("less", {draws, number(rate / 2)}), number(options.number("low")), number(options.number("high")));
  return {where(graph.apply("less", {draws, number(rate)}), noise, x)};
}

}  // namespace

extern const LayerDef layer_salt_and_pepper;
const LayerDef layer_salt_and_pepper{
    .name = "salt_and_pepper",
    .stem = "salt",
    .doc = "Replaces values in training, each with probability `rate`: half of them by `low`, half by `high` (Vincent et al. 2010).",
    .example = R"({"type": "salt_and_pepper", "rate": 0.3, "low": -1})",
    .example_input = "[12]",
    .schema = layer_schema(kSaltAndPepperOptions, kSaltAndPepperPositional),
    .build = build_salt_and_pepper,
    .step_use = each_step};

}  // namespace perigee
