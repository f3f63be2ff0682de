// Batch normalisation followed by an addition and a relu, as residual networks have it, becomes one op that reads and writes its
// operands once.
#pragma once

#include "src/graph/graph.h"

namespace perigee {

// Before autodiff: relu(batch_norm(x) + residual), with or without the addition, with or without the relu.
Graph fuse_norm(const Graph& graph);

}  // namespace perigee
