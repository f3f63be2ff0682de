#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr const char* kPositional[] = {"activation"};
constexpr Option kOptions[] = {{"activation", "activation", nullptr, "a name, or {type = name, options ...}"}};

std::vector<Value> build(LayerContext& context, std::span<const Value> inputs) {
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
                                .schema = layer_schema(kOptions, kPositional),
                                .build = build,
                                .step_use = each_step};

}  // namespace perigee
