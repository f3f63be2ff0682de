// Loops written out, step after step: for devices, which capture all that a step of training does as one graph.
#pragma once

#include "src/graph/graph.h"

namespace perigee {

// Before autodiff. The graph grows with the number of steps; without loops it stays as it is.
Graph unroll_scans(const Graph& graph);

}  // namespace perigee
