#include "src/graph/op.h"
#include "src/nn/layers/common.h"
#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr const char* kDeconv2dPositional[] = {"out", "kernel"};
constexpr Option kDeconv2dOptions[] = {
    {"out", "integer", nullptr, "output channels", {1}},
    kKernelOption,
    kStrideOption,
    {"padding", "integer, {height, width} or \"same\"", "0", "rows and columns cut off each side; same: output = input * stride"},
    kDilationOption,
    kBiasOption,
    kActivationOption};

// Output sizes of a transposed convolution: (input - 1) * stride + reach - padding, or with "same" input * stride.
Window enlarging_window(const LayerContext& context, Pair input) {
  const Config& options = context.options();
  Window w;
  w.input = input;
  w.kernel = read_pair(context, "kernel", 2, 0);
  w.stride = read_pair(context, "stride", 2, 1);
  w.dilation = read_pair(context, "dilation", 2, 1);
  const Json* padding = options.raw("padding");
  const bool same = padding != nullptr && padding->is_string();
  if (same && padding->as_string() != "same")
    options.fail("padding", "has an unknown value", "'" + padding->as_string() + "'", "an integer, {height, width} or 'same'");
  const Pair fixed = same ? Pair{0, 0} : read_pair(context, "padding", 2, 0, 0);
  for (size_t i = 0; i < 2; ++i) {
    const int64_t reach = (w.kernel[i] - 1) * w.dilation[i] + 1, full = (input[i] - 1) * w.stride[i] + reach;
    const int64_t cut = same ? full - input[i] * w.stride[i] : 2 * fixed[i];
    if (cut < 0)
      context.fail("'same' needs a kernel that is at least as large as the stride", size_text(w.kernel, 2), size_text(w.stride, 2));
    if (cut >= full)
      context.fail("the padding cuts everything off", std::to_string(fixed[i]), "less than " + std::to_string((full + 1) / 2));
    w.padding[2 * i] = cut / 2;
    w.padding[2 * i + 1] = cut - cut / 2;
    w.output[i] = full - cut;
  }
  return w;
}

std::vector<Value> build_deconv2d(LayerContext& context, std::span<const Value> inputs) {
  refuse_mask(context, context.mask(inputs[0]), "take conv1d, or give sequences of one length");
  require_image(context, inputs[0], 2);
  const Value x = inputs[0];
  const int64_t in = x.shape()[1], out = context.options().integer_in("out", 1, 1 << 20);
  Window w = enlarging_window(context, image_size(x, 2));
  const int64_t area = w.kernel[0] * w.kernel[1];
  const Value weight =
      context.parameter("weight", Shape{in, out, w.kernel[0], w.kernel[1]}, ParameterRole::weight, in * area, out * area, "xavier");
  Json attrs = window_attrs(w);
  attrs.set("input_size", ints_json(w.output));
  Value y = context.graph().apply("conv2d_grad_input", {x, weight}, std::move(attrs));
  if (context.options().boolean("bias", true)) y = add_bias(y, context.parameter("bias", Shape{out}, ParameterRole::bias, in, out, 0.0));
  return {finish(context, y)};
}

}  // namespace

extern const LayerDef layer_deconv2d;
const LayerDef layer_deconv2d{
    .name = "deconv2d",
    .stem = "deconv",
    .doc = "Transposed convolution: the adjoint of conv2d, which enlarges images. The weight is [in, out, height, width], as in PyTorch.",
    .example = R"({"type": "deconv2d", "out": 3, "kernel": 3, "stride": 2, "padding": 1, "activation": "tanh"})",
    .example_input = "[2, 4, 3]",
    .schema = layer_schema(kDeconv2dOptions, kDeconv2dPositional),
    .build = build_deconv2d};

}  // namespace perigee
