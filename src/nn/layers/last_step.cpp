#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

// 1 at the last step that counts, else 0: there the running sum of the mask first has its end's value.
Value last_of(Value mask) {
  const Value so_far = mask.graph().apply("cumulative_sum", {mask}, Json(Json::Object{{"axis", Json(1)}}));
  const Value short_of = reduce_sum(mask, {1}, true) - so_far;
  return where(greater(short_of, full_like(short_of, 0.5)), zeros_like(mask), mask);
}

std::vector<Value> build_last_step(LayerContext& context, std::span<const Value> inputs) {
  const Value x = inputs[0];
  require_steps(context, x);
  const int64_t steps = x.shape()[2];
  const Value mask = context.mask(x);
  const Value y =
      mask ? reduce_sum(x * mask_over(last_of(mask), x), {2}) : reshape(part_of(x, 2, steps - 1, steps), Shape{x.shape()[0], x.shape()[1]});
  context.set_mask(y, {});  // as many features as there were steps are no steps
  return {y};
}

}  // namespace

extern const LayerDef layer_last_step;
const LayerDef layer_last_step{.name = "last_step",
                               .stem = "last",
                               .doc = "The features of a sequence's last step that counts: features x steps becomes features.",
                               .example = R"({"type": "last_step"})",
                               .example_input = "[2, 3]",
                               .build = build_last_step};

}  // namespace perigee
