// Shared by the layers of sequences: the dimensions of a sequence, parts of it, and its mask (LayerContext::mask), by which padding is zeroed,
// a layer's own steps get a mask, or the layer refuses. Between layers a sequence is [N, features, T]; ops work on [N, T, features], so that a
// product over all steps is one over rows.
#pragma once

#include <string>

#include "src/nn/layers/common.h"

namespace perigee {

Value steps_first(Value x);     // [N, C, T] -> [N, T, C]
Value features_first(Value y);  // back

// Places [first, end) of one dimension.
Value part_of(Value x, int axis, int64_t first, int64_t end);
// Step t of [N, T, C], as [N, C].
Value step_of(Value x, int64_t t);

// Fails unless `x` is [N, features, steps].
void require_steps(const LayerContext& context, Value x, const std::string& hint = "put reshape {features, steps} in front");

// `x` [N, ..., T] with zeros where its steps do not count; itself where all do.
Value masked(LayerContext& context, Value x);
// The mask in the shape [N, 1, ..., T] of `x`.
Value mask_over(Value mask, Value x);
// `y` [N, T, C] with zeros where its steps do not count; itself where there is no mask.
Value masked_rows(Value y, Value mask);
// `y` is what a window makes of `x`. Its steps are those that the sequence without its padding would give; in their order, the counted steps
// of `x` come first. Fails for padding "same" with a stride, which depends on the length.
void set_window_mask(LayerContext& context, Value x, Value y, const Window& window);
// Fails where steps of `x` do not count and the layer would mix them with those that do.
void refuse_mask(const LayerContext& context, Value mask, const std::string& hint);

inline constexpr const char* kPoolFirst = "put global_pool or another layer that ends the steps in front";
// Takes the place of padding in a maximum: no number that a network computes is below it.
inline constexpr double kBelowAll = -3.4e38;

}  // namespace perigee
