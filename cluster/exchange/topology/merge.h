// The arithmetic of an exchange: one plain addition or maximum per element, in the order that the caller chose. Vectorised across
// elements only, so every instruction set gives the same bits. No pointer needs to be aligned; `out` may be `a` or `b`.
#pragma once

#include <cstddef>

#include "kernels/view.h"

namespace perigee {

using Merge = void (*)(std::byte* out, const std::byte* a, const std::byte* b, size_t bytes);

Merge merge_sums(Dtype dtype);                                                            // a + b, of f32 or f64
void merge_maxima(std::byte* out, const std::byte* a, const std::byte* b, size_t bytes);  // int64

}  // namespace perigee
