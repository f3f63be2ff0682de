#include "src/nn/layers/conv.h"

namespace perigee {
namespace {

constexpr const char* kPositional[] = {"out", "kernel"};
constexpr Option kOptions[] = {{"out", "integer", nullptr, "output channels", {1}},
                               kKernelOption,
                               kStrideOption,
                               kPaddingOption,
                               kDilationOption,
                               {"groups", "integer", "1", "parts into which the channels are split; each output sees one"},
                               kBiasOption,
                               kActivationOption};

std::vector<Value> build(LayerContext& context, std::span<const Value> inputs) { return build_conv(context, inputs[0], 1); }

}  // namespace

extern const LayerDef layer_conv1d;
const LayerDef layer_conv1d{
    .name = "conv1d",
    .stem = "conv",
    .doc = "Convolution of sequences (channels x length): slides `out` learned windows along the length.",
    .example = R"({"type": "conv1d", "out": 4, "kernel": 3, "padding": "causal", "dilation": 2, "activation": "tanh"})",
    .example_input = "[3, 8]",
    .schema = layer_schema(kOptions, kPositional),
    .build = build,
    .step_use = conv_step_use};

}  // namespace perigee
