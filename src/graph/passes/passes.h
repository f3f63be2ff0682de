// The order in which graphs are rewritten before they become plans.
#pragma once

#include "src/graph/graph.h"

namespace perigee {

// Before autodiff: patterns whose gradients also become one op (convolution + relu + pooling, matrix product + bias + relu).
Graph fuse_forward(const Graph& graph);
// After autodiff: nothing is computed twice or in vain; chains of element-wise ops become one.
Graph fuse_backward(const Graph& graph);

}  // namespace perigee
