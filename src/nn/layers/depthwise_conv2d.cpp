#include "src/nn/layers/conv.h"
#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr const char* kDepthwiseConv2dPositional[] = {"kernel", "multiplier"};
constexpr Option kDepthwiseConv2dOptions[] = {
    kKernelOption, kStrideOption,    kPaddingOption, kDilationOption, {"multiplier", "integer", "1", "outputs for each input channel"},
    kBiasOption,   kActivationOption};

std::vector<Value> build_depthwise_conv2d(LayerContext& context, std::span<const Value> inputs) {
  refuse_mask(context, context.mask(inputs[0]), "take conv1d, or give sequences of one length");
  require_image(context, inputs[0], 2);
  const int64_t in = inputs[0].shape()[1], out = in * context.options().integer_in("multiplier", 1, 1 << 16, 1);
  const Window window = read_window(context, 2, image_size(inputs[0], 2), 0, 1, true);
  const Value weight = conv_weight(context, "weight", out, 1, window, 2);
  const Value bias =
      context.options().boolean("bias", true) ? context.parameter("bias", Shape{out}, ParameterRole::bias, in, out, 0.0) : Value();
  return {finish(context, conv_op(inputs[0], weight, bias, window, in))};
}

}  // namespace

extern const LayerDef layer_depthwise_conv2d;
const LayerDef layer_depthwise_conv2d{.name = "depthwise_conv2d",
                                      .stem = "conv",
                                      .doc = "Convolution of each channel by itself: `multiplier` learned windows for every input channel.",
                                      .example = R"({"type": "depthwise_conv2d", "kernel": 3, "multiplier": 2, "padding": 1})",
                                      .example_input = "[3, 5, 4]",
                                      .schema = layer_schema(kDepthwiseConv2dOptions, kDepthwiseConv2dPositional),
                                      .build = build_depthwise_conv2d};

}  // namespace perigee
