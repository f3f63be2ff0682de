#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr const char* kMaskPositional[] = {"value"};
constexpr Option kMaskOptions[] = {{"value", "number", "0", "what all features of a step are that does not count"}};

// The steps that count, of those that counted so far, go on as they are; the others are 0.
std::vector<Value> build_mask(LayerContext& context, std::span<const Value> inputs) {
  const Value x = inputs[0];
  if (x.rank() != 2 && x.rank() != 3) context.fail("takes a sequence: steps, or features x steps, of each example", x.shape().text());
  Graph& graph = context.graph();
  const Value unlike = not_equal(x, graph.constant(context.options().number("value"), {x.dtype(), Shape()}));
  Value mask = cast(unlike, context.dtype());
  if (x.rank() == 3) {
    const Value features = reduce_sum(mask, {1});
    mask = where(greater(features, full_like(features, 0.5)), ones_like(features), zeros_like(features));
  }
  if (const Value before = context.mask(x)) mask = mask * before;
  const Value there = x.rank() == 3 ? mask_over(mask, x) : mask;
  const Value y = where(greater(there, full_like(there, 0.5)), x, graph.constant(0, {x.dtype(), Shape()}));
  context.set_mask(y, mask);
  return {y};
}

}  // namespace

extern const LayerDef layer_mask;
const LayerDef layer_mask{
    .name = "mask",
    .doc =
        "Steps whose features are all `value` do not count from here on: layers, pooling and last_step pass them over. In front of an "
        "embedding it leaves out an index of a list. A target of steps needs data.lengths or data.masks of its own.",
    .example = R"({"type": "mask", "value": -1})",
    .example_input = "[2, 3]",
    .schema = layer_schema(kMaskOptions, kMaskPositional),
    .any_dtype = true,
    .build = build_mask,
    .step_use = each_step};

}  // namespace perigee
