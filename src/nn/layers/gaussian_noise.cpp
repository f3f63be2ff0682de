#include "src/nn/layers/common.h"
#include "src/nn/noise.h"

namespace perigee {
namespace {

constexpr const char* kGaussianNoisePositional[] = {"stddev"};
constexpr Option kGaussianNoiseOptions[] = {{"stddev", "number", "0.1", "standard deviation of the noise"}};

std::vector<Value> build_gaussian_noise(LayerContext& context, std::span<const Value> inputs) {
  if (!context.training()) return {inputs[0]};
  return {inputs[0] + normal_like(context, "noise", inputs[0], 0, context.options().number_in("stddev", 0, 1e6, 0.1))};
}

}  // namespace

extern const LayerDef layer_gaussian_noise;
const LayerDef layer_gaussian_noise{.name = "gaussian_noise",
                                    .stem = "noise",
                                    .doc = "Adds normal noise in training.",
                                    .example = R"({"type": "gaussian_noise", "stddev": 0.3})",
                                    .example_input = "[12]",
                                    .schema = layer_schema(kGaussianNoiseOptions, kGaussianNoisePositional),
                                    .build = build_gaussian_noise,
                                    .step_use = each_step};

}  // namespace perigee
