#pragma once

#include "src/graph/graph.h"

namespace perigee {

// Mixed precision (Micikevicius et al. 2018, arXiv:1710.03740): products, convolutions, pooling and normalisation read and write `half`
// (f16 or bf16) and sum in f32; everything else is computed in f32, and so are parameters, statistics, losses, outputs and assignments.
// Run before autodiff: gradients then have the types of the values that they belong to, and those of parameters are f32.
Graph mixed_precision(const Graph& graph, Dtype half);

}  // namespace perigee
