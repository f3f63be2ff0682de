#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr const char* kShiftLayerPositional[] = {"offset"};
constexpr Option kShiftLayerOptions[] = {{"offset", "number", nullptr, "the number that is added"}};

std::vector<Value> build_shift(LayerContext& context, std::span<const Value> inputs) {
  return {inputs[0] + context.options().number("offset")};
}

}  // namespace

extern const LayerDef layer_shift;
const LayerDef layer_shift{.name = "shift",
                           .doc = "Adds a fixed number.",
                           .example = R"({"type": "shift", "offset": 2})",
                           .example_input = "[4]",
                           .schema = layer_schema(kShiftLayerOptions, kShiftLayerPositional),
                           .build = build_shift,
                           .step_use = each_step};

}  // namespace perigee
