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

std::vector<Value> build_conv(LayerContext& context, Value input, int dims) {
  require_image(context, input, dims);
  const Config& options = context.options();
  const int64_t in = input.shape()[1];
  const int64_t out = options.integer_in("out", 1, 1 << 20);
  const int64_t groups = options.integer_in("groups", 1, 1 << 20, 1);
  if (in % groups != 0 || out % groups != 0)
    context.fail("the channels cannot be split into " + std::to_string(groups) + " groups",
                 std::to_string(in) + " inputs, " + std::to_string(out) + " outputs", "multiples of " + std::to_string(groups));
  const Window window = read_window(context, dims, image_size(input, dims), 0, 1, true);
  const Value weight = conv_weight(context, "weight", out, in / groups, window, dims);
  const Value bias = options.boolean("bias", true) ? context.parameter("bias", Shape{out}, ParameterRole::bias, in, out, 0.0) : Value();
  const Value y = finish(context, from_image(conv_op(to_image(masked(context, input), dims), weight, bias, window, groups), dims));
  set_window_mask(context, input, y, window);
  return {y};
}

}  // namespace perigee
