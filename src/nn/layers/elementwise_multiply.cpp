#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr Option kElementwiseMultiplyOptions[] = {kBiasOption, kActivationOption};

std::vector<Value> build_elementwise_multiply(LayerContext& context, std::span<const Value> inputs) {
  const Value x = inputs[0];
  std::vector<int64_t> dims = x.shape().vector();
  dims.erase(dims.begin());
  const int64_t features = product(Shape(dims));
  Value y = x * context.parameter("weight", Shape(dims), ParameterRole::weight, features, features, 1.0);
  if (context.options().boolean("bias", true)) y = y + context.parameter("bias", Shape(dims), ParameterRole::bias, features, features, 0.0);
  return {finish(context, y)};
}

}  // namespace

extern const LayerDef layer_elementwise_multiply;
const LayerDef layer_elementwise_multiply{.name = "elementwise_multiply",
                                          .stem = "multiply_by",
                                          .doc = "Multiplies each feature by a learned weight and adds a learned bias.",
                                          .example = R"({"type": "elementwise_multiply", "activation": "tanh"})",
                                          .example_input = "[2, 3]",
                                          .schema = layer_schema(kElementwiseMultiplyOptions),
                                          .build = build_elementwise_multiply};

}  // namespace perigee
