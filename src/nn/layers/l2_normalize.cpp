#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr Option kL2NormalizeOptions[] = {{"axes", "list of integers", "all", "dimensions of the sum; they count from 1"},
                                          {"epsilon", "number", "1e-8", "added to the sum"}};

std::vector<Value> build_l2_normalize(LayerContext& context, std::span<const Value> inputs) {
  const Value x = inputs[0];
  std::vector<int64_t> axes = context.options().integer_list("axes");
  for (const int64_t axis : axes)
    if (axis < 1 || axis >= x.rank())
      context.options().fail("axes", "has a dimension that is not there", std::to_string(axis), "1 to " + std::to_string(x.rank() - 1));
  for (int i = 1; i < x.rank() && !context.options().has("axes"); ++i) axes.push_back(i);
  for (const int64_t axis : axes)
    if (axis + 1 == x.rank()) refuse_mask(context, context.mask(x), "normalise each step alone: axes = { 1 }");
  return {x / sqrt(reduce_sum(square(x), axes, true) + context.options().number_in("epsilon", 0, 1, 1e-8))};
}

}  // namespace

extern const LayerDef layer_l2_normalize;
const LayerDef layer_l2_normalize{.name = "l2_normalize",
                                  .doc = "Divides each example by its length, the root of the sum of its squares.",
                                  .example = R"({"type": "l2_normalize"})",
                                  .example_input = "[3, 2]",
                                  .schema = layer_schema(kL2NormalizeOptions),
                                  .build = build_l2_normalize};

}  // namespace perigee
