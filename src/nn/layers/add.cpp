#include "src/nn/layers/combine.h"

namespace perigee {
namespace {

std::vector<Value> build_add(LayerContext& context, std::span<const Value> inputs) {
  return fold(context, inputs, [](Value a, Value b) { return a + b; });
}

}  // namespace

extern const LayerDef layer_add;
const LayerDef layer_add{.name = "add",
                         .doc = "The sum of its inputs.",
                         .example = R"({"type": "add"})",
                         .example_input = "[[2, 3], [2, 3], [2, 3]]",
                         .min_inputs = 2,
                         .max_inputs = -1,
                         .build = build_add,
                         .step_use = each_step};

}  // namespace perigee
