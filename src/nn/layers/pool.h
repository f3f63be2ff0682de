// Shared by the pooling layers.
#pragma once

#include "src/nn/layers/common.h"

namespace perigee {

// `kind` as the op pool2d names it: "max", "average", "sum", "pnorm". Options kernel, stride (the kernel's), padding, and for average
// count_include_pad, for pnorm p.
std::vector<Value> build_pool(LayerContext& context, Value x, int dims, const char* kind);

inline constexpr const char* kPoolPositional[] = {"kernel", "stride"};
inline constexpr Option kPoolStrideOption{"stride", "integer or {height, width}", "the kernel", "step of the window"};

}  // namespace perigee
