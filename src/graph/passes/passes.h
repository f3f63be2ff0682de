// The order in which graphs are rewritten before they become plans.
#pragma once

#include "src/graph/graph.h"
#include "src/graph/passes/fuse_linear.h"

namespace perigee {

// Before autodiff: patterns whose gradients also become one op (convolution + relu + pooling, matrix product + bias + activation).
Graph fuse_forward(const Graph& graph, GeluIn gelu = GeluIn::elementwise);
// After autodiff: nothing is computed twice or in vain; chains of element-wise ops become one.
Graph fuse_backward(const Graph& graph);

}  // namespace perigee
