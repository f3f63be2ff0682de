#include "src/nn/layers/common.h"
#include "src/nn/noise.h"

namespace perigee {
namespace {

constexpr const char* kMaskingNoisePositional[] = {"rate"};
constexpr Option kMaskingNoiseOptions[] = {{"rate", "number", "0.3", "probability with which a value becomes 0", {0, 1}}};

std::vector<Value> build_masking_noise(LayerContext& context, std::span<const Value> inputs) {
  const Value x = inputs[0];
  if (!context.training()) return {x};
  Graph& graph = x.graph();
  const Value rate = graph.constant(context.options().number("rate"), {x.dtype(), Shape()});
  const Value kept = greater_equal(uniform_like(context, "mask", x), rate);
  return {where(kept, x, graph.constant(0, {x.dtype(), Shape()}))};
}

}  // namespace

extern const LayerDef layer_masking_noise;
const LayerDef layer_masking_noise{
    .name = "masking_noise",
    .stem = "masking",
    .doc =
        "Sets values to zero in training, each with probability `rate`; the others stay as they are, which dropout does not have. What "
        "denoising autoencoders restore (Vincent et al. 2008).",
    .example = R"({"type": "masking_noise", "rate": 0.3})",
    .example_input = "[12]",
    .schema = layer_schema(kMaskingNoiseOptions, kMaskingNoisePositional),
    .build = build_masking_noise,
    .step_use = each_step};

}  // namespace perigee
