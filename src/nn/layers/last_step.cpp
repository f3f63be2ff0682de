#include "src/graph/op.h"
#include "src/nn/layers/recurrent.h"

namespace perigee {
namespace {

// 1 at the last step that counts, else 0: there the running sum of the mask first has its end's value.
Value last_of(Value mask) {
  const Value so_far = mask.graph().apply("cumulative_sum", {mask}, Json(Json::Object{{"axis", Json(1)}}));
  const Value short_of = reduce_sum(mask, {1}, true) - so_far;
  return where(greater(short_of, full_like(short_of, 0.5)), zeros_like(mask), mask);
}

std::vector<Value> build(LayerContext& context, std::span<const Value> inputs) {
  const Value x = inputs[0];
  require_image(context, x, 1);
  const Shape& shape = x.shape();
  if (const Value mask = mask_of(context, x)) return {reduce_sum(x * reshape(last_of(mask), Shape{shape[0], 1, shape[2]}), {2})};
  Json attrs = Json::object();
  const int64_t start[] = {0, 0, shape[2] - 1};
  attrs.set("start", ints_json(start));
  return {reshape(context.graph().apply("slice", {x}, std::move(attrs)), Shape{shape[0], shape[1]})};
}

}  // namespace

extern const LayerDef layer_last_step;
const LayerDef layer_last_step{.name = "last_step",
                               .stem = "last",
                               .doc = "The features of a sequence's last step that counts: features x steps becomes features.",
                               .example = R"({"type": "last_step"})",
                               .example_input = "[2, 3]",
                               .build = build};

}  // namespace perigee
