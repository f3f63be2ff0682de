// Recognises what convolutional networks are made of and what their kernels do in one go. Run before autodiff, so that gradients
// are fused as well.
#pragma once

#include "src/graph/graph.h"

namespace perigee {

// The same graph with these chains replaced, where nothing else uses what lies between:
//   conv2d -> add bias -> relu -> max-pooling without overlap or padding (bias and relu may be missing, relu may come last):
//     conv2d_pool
//   conv2d -> add bias -> relu (one of the two may be missing):  conv2d with bias and activation
Graph fuse_conv(const Graph& graph);

}  // namespace perigee
