#include "src/nn/layers/combine.h"

namespace perigee {
namespace {

constexpr Option kL2DistanceOptions[] = {{"epsilon", "number", "1e-8", "added under the root, which has no slope at 0"}};

std::vector<Value> build_l2_distance(LayerContext& context, std::span<const Value> inputs) {
  require_same_shapes(context, inputs);
  const Value difference = flatten(inputs[0] - inputs[1]);
  return {sqrt(reduce_sum(square(difference), {1}, true) + context.options().number_in("epsilon", 0, 1, 1e-8))};
}

}  // namespace

extern const LayerDef layer_l2_distance;
const LayerDef layer_l2_distance{.name = "l2_distance",
                                 .doc = "The Euclidean distance of two inputs: one number for each example.",
                                 .example = R"({"type": "l2_distance"})",
                                 .example_input = "[[3, 2], [3, 2]]",
                                 .schema = layer_schema(kL2DistanceOptions),
                                 .min_inputs = 2,
                                 .max_inputs = 2,
                                 .build = build_l2_distance};

}  // namespace perigee
