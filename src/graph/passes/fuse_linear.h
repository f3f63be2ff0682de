// Recognises dense layers. Run before autodiff, so that the slopes of activations become part of the gradients' kernels.
#pragma once

#include "src/graph/graph.h"

namespace perigee {

// Where gelu's tanh form behind a dense layer is computed: in the product's last step, or in an element-wise program. For
// gradients the product also gives what gelu was taken of.
enum class GeluIn { elementwise, product, product_for_gradients };

// The same graph with these chains replaced by linear, where nothing else uses what lies between:
//   matmul(x, w, transpose_b) with w of rank 2, or linear  ->  add bias [N]  ->  relu or gelu_tanh   (bias and activation may be missing)
Graph fuse_linear(const Graph& graph, GeluIn gelu = GeluIn::elementwise);

}  // namespace perigee
