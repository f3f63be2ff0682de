#include "src/nn/layers/common.h"

namespace perigee {
namespace {

std::vector<Value> build_capsule_strength(LayerContext& context, std::span<const Value> inputs) {
  const Value v = inputs[0];
  if (v.rank() != 3) context.fail("needs capsules (count x size)", example_text(v), "", "put capsule in front");
  return {sqrt(reduce_sum(square(v), {2}) + 1e-7)};  // the slope of a length is finite at 0
}

}  // namespace

extern const LayerDef layer_capsule_strength;
const LayerDef layer_capsule_strength{.name = "capsule_strength",
                                      .stem = "strength",
                                      .doc = "The length of each capsule: how surely a class is there. With the loss margin.",
                                      .example = R"({"type": "capsule_strength"})",
                                      .example_input = "[4, 3]",
                                      .schema = layer_schema(),
                                      .build = build_capsule_strength};

}  // namespace perigee
