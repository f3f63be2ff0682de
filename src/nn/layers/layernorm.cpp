#include "src/nn/layers/normalize.h"

namespace perigee {
namespace {

constexpr Option kLayernormOptions[] = {kOverOption,
                                        {"epsilon", "number", "1e-5", "added to the variance", {0, 1}},
                                        {"scale", "boolean", "true", "multiplies by a learned gamma"},
                                        {"shift", "boolean", "true", "adds a learned beta"},
                                        kActivationOption};

std::vector<Value> build_layernorm(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  const Norm norm{.scale = options.boolean("scale"), .shift = options.boolean("shift"), .epsilon = options.number("epsilon")};
  return {finish(context, normalize(context, inputs[0], norm))};
}

}  // namespace

extern const LayerDef layer_layernorm;
const LayerDef layer_layernorm{.name = "layernorm",
                               .stem = "ln",
                               .doc = "Gives each example mean 0 and variance 1, then a learned scale and shift.",
                               .example = R"({"type": "layernorm", "over": "channels"})",
                               .example_input = "[5, 3, 2]",
                               .schema = layer_schema(kLayernormOptions),
                               .build = build_layernorm,
                               .step_use = each_over_channels};

}  // namespace perigee
