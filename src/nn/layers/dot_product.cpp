#include "src/nn/layers/combine.h"

namespace perigee {
namespace {

std::vector<Value> build_dot_product(LayerContext& context, std::span<const Value> inputs) {
  require_same_shapes(context, inputs);
  return {reduce_sum(flatten(inputs[0] * inputs[1]), {1}, true)};
}

}  // namespace

extern const LayerDef layer_dot_product;
const LayerDef layer_dot_product{.name = "dot_product",
                                 .doc = "The dot product of two inputs: one number for each example. After l2_normalize, their cosine.",
                                 .example = R"({"type": "dot_product"})",
                                 .example_input = "[[3, 2], [3, 2]]",
                                 .min_inputs = 2,
                                 .max_inputs = 2,
                                 .build = build_dot_product};

}  // namespace perigee
