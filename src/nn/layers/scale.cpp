#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr const char* kScaleLayerPositional[] = {"factor"};
constexpr Option kScaleLayerOptions[] = {{"factor", "number", nullptr, "the number that multiplies"}};

std::vector<Value> build_scale(LayerContext& context, std::span<const Value> inputs) {
  return {inputs[0] * context.options().number("factor")};
}

}  // namespace

extern const LayerDef layer_scale;
const LayerDef layer_scale{.name = "scale",
                           .doc = "Multiplies by a fixed number.",
                           .example = R"({"type": "scale", "factor": -1.5})",
                           .example_input = "[4]",
                           .schema = layer_schema(kScaleLayerOptions, kScaleLayerPositional),
                           .build = build_scale,
                           .step_use = each_step};

}  // namespace perigee
