#include "src/nn/layers/normalize.h"

namespace perigee {
namespace {

constexpr Option kRmsNormOptions[] = {kOverOption,
                                      {"epsilon", "number", "1e-6", "added to the mean square", {0, 1}},
                                      {"scale", "boolean", "true", "multiplies by a learned gamma"},
                                      kActivationOption};

std::vector<Value> build_rms_norm(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  const Norm norm{.centre = false, .scale = options.boolean("scale"), .shift = false, .epsilon = options.number("epsilon")};
  return {finish(context, normalize(context, inputs[0], norm))};
}

}  // namespace

extern const LayerDef layer_rms_norm;
const LayerDef layer_rms_norm{.name = "rms_norm",
                              .stem = "rms",
                              .doc = "Gives each example mean square 1, then a learned scale. Zhang and Sennrich 2019.",
                              .example = R"({"type": "rms_norm", "over": "channels"})",
                              .example_input = "[5, 3, 2]",
                              .schema = layer_schema(kRmsNormOptions),
                              .build = build_rms_norm,
                              .step_use = each_over_channels};

}  // namespace perigee
