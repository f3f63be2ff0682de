// Shared by the layers with several inputs.
#pragma once

#include "src/nn/layers/common.h"

namespace perigee {

// Fails unless all inputs have one shape.
inline void require_same_shapes(const LayerContext& context, std::span<const Value> inputs) {
  for (const Value& input : inputs)
    if (input.shape() != inputs[0].shape())
      context.fail("its inputs have different shapes", input.shape().text() + " beside " + inputs[0].shape().text(), "",
                   "make them equal with a 1x1 conv2d, dense, cropping or concat");
}

// combine(combine(a, b), c) ...
template <class F>
std::vector<Value> fold(const LayerContext& context, std::span<const Value> inputs, F combine) {
  require_same_shapes(context, inputs);
  Value result = inputs[0];
  for (size_t i = 1; i < inputs.size(); ++i) result = combine(result, inputs[i]);
  return {result};
}

}  // namespace perigee
