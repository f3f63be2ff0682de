// Layers and the mask of a sequence (LayerContext::mask): padding is zeroed, their own steps get a mask, or they refuse.
#pragma once

#include "src/nn/layers/common.h"

namespace perigee {

// `x` with zeros where its steps do not count; itself where all do.
Value masked(LayerContext& context, Value x);
// The mask in the shape [N, 1, ..., T] of `x`.
Value mask_over(Value mask, Value x);
// `y` is what a window makes of `x`. Its steps are those that the sequence without its padding would give; in their order, the counted steps
// of `x` come first. Fails for padding "same" with a stride, which depends on the length.
void set_window_mask(LayerContext& context, Value x, Value y, const Window& window);
// Fails where steps of `x` do not count and the layer would mix them with those that do.
void refuse_mask(const LayerContext& context, Value mask, const std::string& hint);

inline constexpr const char* kPoolFirst = "put global_pool or another layer that ends the steps in front";

}  // namespace perigee
