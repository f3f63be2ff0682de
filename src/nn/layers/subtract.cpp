#include "src/nn/layers/combine.h"

namespace perigee {
namespace {

std::vector<Value> build_subtract(LayerContext& context, std::span<const Value> inputs) {
  return fold(context, inputs, [](Value a, Value b) { return a - b; });
}

}  // namespace

extern const LayerDef layer_subtract;
const LayerDef layer_subtract{.name = "subtract",
                              .doc = "The first input without the second.",
                              .example = R"({"type": "subtract"})",
                              .example_input = "[[2, 3], [2, 3]]",
                              .min_inputs = 2,
                              .max_inputs = 2,
                              .build = build_subtract,
                              .step_use = each_step};

}  // namespace perigee
