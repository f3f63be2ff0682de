#include "src/nn/layers/conv.h"

namespace perigee {
namespace {

constexpr const char* kConv1dPositional[] = {"out", "kernel"};
constexpr Option kConv1dOptions[] = {{"out", "integer", nullptr, "output channels", {1}},
                                     kKernelOption,
                                     kStrideOption,
                                     kPaddingOption,
                                     kDilationOption,
                                     {"groups", "integer", "1", "parts into which the channels are split; each output sees one"},
                                     kBiasOption,
                                     kActivationOption};

std::vector<Value> build_conv1d(LayerContext& context, std::span<const Value> inputs) { return build_conv(context, inputs[0], 1); }

}  // namespace

extern const LayerDef layer_conv1d;
const LayerDef layer_conv1d{
    .name = "conv1d",
    .stem = "conv",
    .doc = "Convolution of sequences (channels x length): slides `out` learned windows along the length.",
    .example = R"({"type": "conv1d", "out": 4, "kernel": 3, "padding": "causal", "dilation": 2, "activation": "tanh"})",
    .example_input = "[3, 8]",
    .schema = layer_schema(kConv1dOptions, kConv1dPositional),
    .build = build_conv1d,
    .step_use = conv_step_use};

}  // namespace perigee
