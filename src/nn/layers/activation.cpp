#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr const char* kActivationPositional[] = {"activation"};
constexpr Option kActivationOptions[] = {{"activation", "activation", nullptr, "a name, or {type = name, options ...}"}};

std::vector<Value> build_activation(LayerContext& context, std::span<const Value> inputs) {
  if (!context.options().has("activation")) context.options().fail("activation", "is missing", "", "a name, as in \"relu\"");
  return {finish(context, inputs[0])};
}

}  // namespace

extern const LayerDef layer_activation;
const LayerDef layer_activation{.name = "activation",
                                .stem = "act",
                                .doc = "Applies an activation function.",
                                .example = R"({"type": "activation", "activation": {"type": "elu", "alpha": 0.5}})",
                                .example_input = "[6]",
                                .schema = layer_schema(kActivationOptions, kActivationPositional),
                                .build = build_activation,
                                .step_use = each_step};

}  // namespace perigee
