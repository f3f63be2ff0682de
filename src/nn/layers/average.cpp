#include "src/nn/layers/combine.h"

namespace perigee {
namespace {

std::vector<Value> build_average(LayerContext& context, std::span<const Value> inputs) {
  return {fold(context, inputs, [](Value a, Value b) { return a + b; })[0] * (1 / static_cast<double>(inputs.size()))};
}

}  // namespace

extern const LayerDef layer_average;
const LayerDef layer_average{.name = "average",
                             .doc = "The mean of its inputs.",
                             .example = R"({"type": "average"})",
                             .example_input = "[[2, 3], [2, 3], [2, 3]]",
                             .min_inputs = 2,
                             .max_inputs = -1,
                             .build = build_average,
                             .step_use = each_step};

}  // namespace perigee
