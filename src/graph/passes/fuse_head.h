// Recognises a classifier's head: its last dense layer, cross entropy with class numbers, and what flows back through both. On a GPU these
// are four launches that wait for each other, and hardly anything to do in each.
#pragma once

#include "src/graph/graph.h"

namespace perigee {

// After autodiff and all other passes, the same graph in f32 with these four replaced by linear_cross_entropy:
//   linear -> cross_entropy, cross_entropy_grad -> linear_grad_input by the same weight
// where there are at most kHeadClasses classes and kHeadWeights weights, and the layer below has no activation or a relu. Everybody else
// reads logits, losses and gradients as before.
Graph fuse_head(Graph graph);

}  // namespace perigee
