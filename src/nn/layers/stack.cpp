#include "src/nn/layers/combine.h"

namespace perigee {
namespace {

std::vector<Value> build_stack(LayerContext& context, std::span<const Value> inputs) {
  require_same_shapes(context, inputs);
  if (inputs.size() == 1) return {inputs[0]};
  return {concatenate(inputs, 0)};
}

}  // namespace

extern const LayerDef layer_stack;
const LayerDef layer_stack{.name = "stack",
                           .doc = "Its inputs as one larger batch, so that what follows treats them alike; unstack takes them apart.",
                           .example = R"({"type": "stack"})",
                           .example_input = "[[2, 3], [2, 3]]",
                           .max_inputs = -1,
                           .build = build_stack};

}  // namespace perigee
