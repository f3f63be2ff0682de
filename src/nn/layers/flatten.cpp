#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

std::vector<Value> build_flatten(LayerContext& context, std::span<const Value> inputs) {
  refuse_mask(context, context.mask(inputs[0]), kPoolFirst);
  return {inputs[0].rank() == 1 ? reshape(inputs[0], Shape{inputs[0].shape()[0], 1}) : flatten(inputs[0])};
}

}  // namespace

extern const LayerDef layer_flatten;
const LayerDef layer_flatten{.name = "flatten",
                             .doc = "All features of an example in one row.",
                             .example = R"({"type": "flatten"})",
                             .example_input = "[2, 3, 2]",
                             .any_dtype = true,
                             .build = build_flatten};

}  // namespace perigee
