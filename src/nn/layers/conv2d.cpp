#include "src/nn/layers/conv.h"

namespace perigee {
namespace {

constexpr const char* kConv2dPositional[] = {"out", "kernel"};
constexpr Option kConv2dOptions[] = {
    {"out", "integer", nullptr, "output channels", {1}},
    kKernelOption,
    kStrideOption,
    kPaddingOption,
    kDilationOption,
    {"groups", "integer", "1", "parts into which the channels are split; each output sees one"},
    kBiasOption,
    kActivationOption,
};

}  // namespace

extern const LayerDef layer_conv2d;
const LayerDef layer_conv2d{
    .name = "conv2d",
    .stem = "conv",
    .doc = "Convolution of images: slides `out` learned windows over all channels.",
    .example = R"({"type": "conv2d", "out": 4, "kernel": 3, "stride": 2, "padding": 1, "activation": "tanh"})",
    .example_input = "[2, 7, 6]",
    .schema = layer_schema(kConv2dOptions, kConv2dPositional),
    .build = [](LayerContext& context, std::span<const Value> inputs) { return build_conv(context, inputs[0], 2); }};

}  // namespace perigee
