// Shared by the layers: reading sizes and paddings, checking ranks, and the ops that appear in many of them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "src/nn/layer.h"

namespace perigee {

using Pair = std::array<int64_t, 2>;  // height, width

// Sizes of a sliding window over an image. 1-D layers are images of height 1 and leave [0] alone.
struct Window {
  Pair kernel{1, 1}, stride{1, 1}, dilation{1, 1};
  std::array<int64_t, 4> padding{0, 0, 0, 0};  // top, bottom, left, right
  Pair input{1, 1}, output{1, 1};
};

// An integer or {height, width}, each at least `low`. With `dims` 1 only the width is read. A fallback below `low` makes it required.
Pair read_pair(const LayerContext& context, const char* key, int dims, int64_t fallback, int64_t low = 1);

// Reads "kernel", "stride", "padding" and, where the layer has it, "dilation", and works out the output size, rounded down. Padding is an
// integer, {height, width}, "same" (output = input / stride, rounded up; an odd one goes to the bottom and right) or, in 1-D, "causal".
// Fails when the window does not fit the image.
Window read_window(const LayerContext& context, int dims, Pair image, int64_t fallback_kernel, int64_t fallback_stride, bool dilated);

// Fails unless `x` is [N, channels, H, W] (dims 2) or [N, channels, length] (dims 1).
void require_image(const LayerContext& context, Value x, int dims);
Pair image_size(Value x, int dims);

// [N, C, L] <-> [N, C, 1, L]; what is an image already stays.
Value to_image(Value x, int dims);
Value from_image(Value y, int dims);

Value flatten(Value x);                        // [N, everything else]
Value add_bias(Value x, Value bias);           // bias [C] to dimension 1 of [N, C, ...]
Value per_channel(Value vector, int rank);     // [C] as [1, C, 1, ...]
Value finish(LayerContext& context, Value y);  // the "activation" option, if any

std::string size_text(Pair size, int dims);  // "5x5", or "5"
std::string example_text(Value x);           // the shape of one example, for messages
int64_t product(const Shape& shape, int from = 0);
Json window_attrs(const Window& window);  // attributes of conv2d and pool2d: kernel apart

inline constexpr Option kKernelOption{"kernel", "integer or {height, width}", nullptr, "size of the window", {1}};
inline constexpr Option kStrideOption{"stride", "integer or {height, width}", "1", "step of the window", {1}};
inline constexpr Option kPaddingOption{"padding", "integer, {height, width}, \"same\" or, in 1-D, \"causal\"", "0",
                                       "zeros around the image"};
inline constexpr Option kDilationOption{"dilation", "integer or {height, width}", "1", "distance between the window's elements", {1}};
inline constexpr Option kBiasOption{"bias", "boolean", "true", "adds a learned number to each output channel"};
inline constexpr Option kActivationOption{"activation", "activation", "identity", "applied to the output"};

}  // namespace perigee
