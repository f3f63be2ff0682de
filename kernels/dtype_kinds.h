#pragma once

#include "kernels/view.h"

namespace perigee {

// Stored in 16 bits, computed with in f32.
constexpr bool is_half(Dtype dtype) { return dtype == Dtype::f16 || dtype == Dtype::bf16; }
constexpr bool is_floating(Dtype dtype) { return dtype == Dtype::f32 || dtype == Dtype::f64 || is_half(dtype); }

}  // namespace perigee
