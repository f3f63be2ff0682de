#include "src/nn/layers/conv.h"

#include <algorithm>

#include "src/graph/op.h"
#include "src/nn/layers/steps.h"

namespace perigee {

Value conv_weight(LayerContext& context, const std::string& name, int64_t out, int64_t in, const Window& window, int dims) {
  const Pair k = window.kernel;
  const int64_t area = k[0] * k[1];
  const Shape shape = dims == 2 ? Shape{out, in, k[0], k[1]} : Shape{out, in, k[1]};
  const int64_t fan_out = std::max<int64_t>(1, out * area / (window.stride[0] * window.stride[1]));
  const Value weight = context.parameter(name, shape, ParameterRole::weight, in * area, fan_out, "xavier");
  return reshape(weight, Shape{out, in, k[0], k[1]});
}

Value conv_op(Value x, Value weight, Value bias, const Window& window, int64_t groups) {
  Json attrs = window_attrs(window);
  attrs.set("groups", groups);
  std::vector<Value> operands{x, weight};
  if (bias) operands.push_back(bias);
  return x.graph().apply("conv2d", operands, std::move(attrs));
}

namespace {

// In a session: the step at hand behind as many before it as the window reaches back, which the session keeps. The window then fits once.
Value with_steps_before(LayerContext& context, Value x, Window& window) {
  const int64_t back = (window.kernel[1] - 1) * window.dilation[1];
  const Value before = back > 0 ? context.carried("inputs", Shape{x.shape()[1], back}, false) : Value();
  if (!before) return x;
  const Value joined = concatenate(std::array{before, x}, 2);
  context.carry_on("inputs", part_of(joined, 2, 1, back + 1));
  window.padding = {0, 0, 0, 0};
  window.input[1] = back + 1;
  window.output[1] = 1;
  return joined;
}

}  // namespace

StepUse conv_step_use(const Config& options, std::span<const Value>) {
  const auto is = [&](const char* key, const Json& wanted) { return !options.has(key) || *options.raw(key) == wanted; };
  const bool back = options.has("padding") && is("padding", "causal"), alone = options.has("kernel") && is("kernel", 1) && is("padding", 0);
  return is("stride", 1) && (back || alone) ? StepUse::each : StepUse::mixed;
}

std::vector<Value> build_conv(LayerContext& context, Value input, int dims) {
  require_image(context, input, dims);
  const Config& options = context.options();
  const int64_t in = input.shape()[1];
  const int64_t out = options.integer_in("out", 1, 1 << 20);
  const int64_t groups = options.integer_in("groups", 1, 1 << 20, 1);
  if (in % groups != 0 || out % groups != 0)
    context.fail("the channels cannot be split into " + std::to_string(groups) + " groups",
                 std::to_string(in) + " inputs, " + std::to_string(out) + " outputs", "multiples of " + std::to_string(groups));
  Window window = read_window(context, dims, image_size(input, dims), 0, 1, true);
  const Value seen = dims == 1 ? with_steps_before(context, masked(context, input), window) : masked(context, input);
  const Value weight = conv_weight(context, "weight", out, in / groups, window, dims);
  const Value bias = options.boolean("bias", true) ? context.parameter("bias", Shape{out}, ParameterRole::bias, in, out, 0.0) : Value();
  const Value y = finish(context, from_image(conv_op(to_image(seen, dims), weight, bias, window, groups), dims));
  set_window_mask(context, input, y, window);
  return {y};
}

}  // namespace perigee
