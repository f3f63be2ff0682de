#include "src/graph/autodiff.h"
#include "src/nn/layers/common.h"

namespace perigee {
namespace {

std::vector<Value> build_input_gradient(LayerContext& context, std::span<const Value> inputs) {
  Graph& graph = context.graph();
  const Value ones = ones_like(inputs[0]);
  const std::vector<Value> found = gradients(graph, inputs[0], ones, inputs.subspan(1, 1));
  if (found[0]) return {found[0]};
  return {inputs[1] * graph.constant(0, {inputs[1].dtype(), Shape()})};
}

}  // namespace

extern const LayerDef layer_input_gradient;
const LayerDef layer_input_gradient{
    .name = "input_gradient",
    .doc =
        "How the sum of the first input changes with the second, which it was computed from: its gradient, in the second's shape. Losses "
        "of it "
        "train by second derivatives, as the gradient penalty of WGAN-GP; zero where the first does not depend on the second.",
    .example = R"({"type": "input_gradient"})",
    .example_input = "[[1], [3, 2]]",
    .min_inputs = 2,
    .max_inputs = 2,
    .build = build_input_gradient};

}  // namespace perigee
