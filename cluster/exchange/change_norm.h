// The length of a change of parameters. In double, in a fixed order.
#pragma once

#include <cstdint>

#include "kernels/view.h"

namespace perigee {

// |now - before| over n elements of f32 or f64.
double change_norm(Dtype dtype, const void* before, const void* now, int64_t n);

}  // namespace perigee
