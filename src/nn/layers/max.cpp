#include "src/nn/layers/combine.h"

namespace perigee {
namespace {

std::vector<Value> build_max(LayerContext& context, std::span<const Value> inputs) {
  return fold(context, inputs, [](Value a, Value b) { return maximum(a, b); });
}

}  // namespace

extern const LayerDef layer_max;
const LayerDef layer_max{.name = "max",
                         .doc = "The largest of its inputs, element by element.",
                         .example = R"({"type": "max"})",
                         .example_input = "[[2, 3], [2, 3], [2, 3]]",
                         .min_inputs = 2,
                         .max_inputs = -1,
                         .build = build_max,
                         .step_use = each_step};

}  // namespace perigee
