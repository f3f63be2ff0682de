// Shared by the convolution layers.
#pragma once

#include "src/nn/layers/common.h"

namespace perigee {

// conv1d and conv2d: options out, kernel, stride, padding, dilation, groups, bias, activation. Weight [out, in / groups, kernel...].
std::vector<Value> build_conv(LayerContext& context, Value x, int dims);
// Whether conv1d with these options looks back alone, and so may read a sequence step by step.
StepUse conv_step_use(const Config& options, std::span<const Value> inputs);

// The weight of a convolution as [O, I, kh, kw]; in 1-D the parameter itself is [O, I, k], as in PyTorch.
// fan_in = I kh kw and fan_out = O kh kw / (stride), as Deeplearning4j counts them.
Value conv_weight(LayerContext& context, const std::string& name, int64_t out, int64_t in, const Window& window, int dims);

// conv2d as an op, bias optional.
Value conv_op(Value x, Value weight, Value bias, const Window& window, int64_t groups);

}  // namespace perigee
