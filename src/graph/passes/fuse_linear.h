// Recognises dense layers. Run before autodiff, so that the relu mask becomes part of the gradients' kernels.
#pragma once

#include "src/graph/graph.h"

namespace perigee {

// The same graph with these chains replaced by linear, where nothing else uses what lies between:
//   matmul(x, w, transpose_b) with w of rank 2, or linear  ->  add bias [N]  ->  relu   (bias and relu may be missing)
Graph fuse_linear(const Graph& graph);

}  // namespace perigee
