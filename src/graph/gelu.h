// The tanh form of gelu (kernels/ops/linear.h) as layers write it: the one place that says so, for fuse_linear has to recognise it.
#pragma once

#include "kernels/ops/linear.h"
#include "src/graph/build.h"

namespace perigee {

inline Value gelu_tanh(Value x) { return 0.5 * x * (1.0 + tanh(kGeluScale * (x + kGeluCube * (x * square(x))))); }

}  // namespace perigee
