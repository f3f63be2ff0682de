#include <algorithm>

#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr const char* kPermutePositional[] = {"order"};
constexpr Option kPermuteOptions[] = {{"order", "list of integers", nullptr, "the old dimensions in their new order"}};

std::vector<Value> build_permute(LayerContext& context, std::span<const Value> inputs) {
  std::vector<int64_t> order = context.options().integer_list("order");
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool fits = static_cast<int>(order.size()) == inputs[0].rank() - 1;
  for (size_t i = 0; fits && i < sorted.size(); ++i) fits = sorted[i] == static_cast<int64_t>(i) + 1;
  if (!fits)
    context.options().fail("order", "must name each dimension once", "",
                           "the numbers 1 to " + std::to_string(inputs[0].rank() - 1) + " in some order");
  if (order.back() + 1 != inputs[0].rank()) refuse_mask(context, context.mask(inputs[0]), "leave the steps the last dimension");
  order.insert(order.begin(), 0);
  return {transpose(inputs[0], order)};
}

}  // namespace

extern const LayerDef layer_permute;
const LayerDef layer_permute{.name = "permute",
                             .doc = "Dimensions in another order; they count from 1, the batch (0) stays first.",
                             .example = R"({"type": "permute", "order": [3, 1, 2]})",
                             .example_input = "[2, 3, 4]",
                             .schema = layer_schema(kPermuteOptions, kPermutePositional),
                             .any_dtype = true,
                             .build = build_permute};

}  // namespace perigee
