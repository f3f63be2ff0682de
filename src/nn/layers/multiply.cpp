#include "src/nn/layers/combine.h"

namespace perigee {
namespace {

std::vector<Value> build_multiply(LayerContext& context, std::span<const Value> inputs) {
  return fold(context, inputs, [](Value a, Value b) { return a * b; });
}

}  // namespace

extern const LayerDef layer_multiply;
const LayerDef layer_multiply{.name = "multiply",
                              .doc = "The product of its inputs, element by element.",
                              .example = R"({"type": "multiply"})",
                              .example_input = "[[2, 3], [2, 3], [2, 3]]",
                              .min_inputs = 2,
                              .max_inputs = -1,
                              .build = build_multiply,
                              .step_use = each_step};

}  // namespace perigee
