#include "src/graph/op.h"
#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

// Steps of a sequence from the last to the first. With a mask the steps that count change places among the first of them: padding stays
// behind.
std::vector<Value> build_reverse(LayerContext& context, std::span<const Value> inputs) {
  const Value x = inputs[0];
  require_steps(context, x);
  const int64_t steps = x.shape()[2];
  std::vector<double> numbers(static_cast<size_t>(steps));
  for (size_t t = 0; t < numbers.size(); ++t) numbers[t] = static_cast<double>(t);
  Graph& graph = context.graph();
  const Value mask = context.mask(x);
  if (!mask) {
    for (double& number : numbers) number = static_cast<double>(steps - 1) - number;
    const Value places = graph.constant(Tensor::from(Shape{steps}, numbers).to(Dtype::i64));
    return {gather(x, places, 2)};
  }
  const Value t = graph.constant(Tensor::from(Shape{1, steps}, numbers).to(mask.dtype()));
  const Value turned = reduce_sum(mask, {1}, true) - 1.0 - t;  // below 0 in the padding
  const Value places = where(greater(turned, full_like(turned, -0.5)), turned, t + zeros_like(turned));
  const Value all = broadcast_to(reshape(cast(places, Dtype::i64), Shape{x.shape()[0], 1, steps}), x.shape());
  return {graph.apply("take_along", {x, all}, Json(Json::Object{{"axis", Json(2)}}))};
}

}  // namespace

extern const LayerDef layer_reverse;
const LayerDef layer_reverse{.name = "reverse",
                             .stem = "reverse",
                             .doc = "The steps of a sequence (features x steps) from the last to the first.",
                             .example = R"({"type": "reverse"})",
                             .example_input = "[2, 3]",
                             .build = build_reverse};

}  // namespace perigee
