#include "src/nn/layers/conv.h"
#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr const char* kSeparableConv2dPositional[] = {"out", "kernel"};
constexpr Option kSeparableConv2dOptions[] = {{"out", "integer", nullptr, "output channels", {1}},
                                              kKernelOption,
                                              kStrideOption,
                                              kPaddingOption,
                                              kDilationOption,
                                              {"multiplier", "integer", "1", "channels between, for each input channel"},
                                              kBiasOption,
                                              kActivationOption};

std::vector<Value> build_separable_conv2d(LayerContext& context, std::span<const Value> inputs) {
  refuse_mask(context, context.mask(inputs[0]), "take conv1d, or give sequences of one length");
  require_image(context, inputs[0], 2);
  const int64_t in = inputs[0].shape()[1], out = context.options().integer_in("out", 1, 1 << 20);
  const int64_t middle = in * context.options().integer_in("multiplier", 1, 1 << 16, 1);
  const Window window = read_window(context, 2, image_size(inputs[0], 2), 0, 1, true);
  const Value depthwise = conv_op(inputs[0], conv_weight(context, "depthwise", middle, 1, window, 2), Value(), window, in);
  const Value weight = conv_weight(context, "pointwise", out, middle, Window(), 2);
  const Value bias =
      context.options().boolean("bias", true) ? context.parameter("bias", Shape{out}, ParameterRole::bias, middle, out, 0.0) : Value();
  return {finish(context, conv_op(depthwise, weight, bias, Window(), 1))};
}

}  // namespace

extern const LayerDef layer_separable_conv2d;
const LayerDef layer_separable_conv2d{
    .name = "separable_conv2d",
    .stem = "conv",
    .doc = "A depthwise convolution, then a 1x1 convolution that mixes the channels; fewer parameters than conv2d.",
    .example = R"({"type": "separable_conv2d", "out": 4, "kernel": 3, "multiplier": 2})",
    .example_input = "[2, 5, 5]",
    .schema = layer_schema(kSeparableConv2dOptions, kSeparableConv2dPositional),
    .build = build_separable_conv2d};

}  // namespace perigee
