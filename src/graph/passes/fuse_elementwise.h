// Gathers chains of element-wise ops into `fused` nodes, which make one pass over memory instead of one per op. Run after autodiff.
#pragma once

#include "src/graph/graph.h"

namespace perigee {

// Ops join when they have the same shape and one feeds the other, as long as no path leaves the group and comes back. Values that
// others use as well become further outputs. Sums over slices (partial values) stay alone: their ops add into gradients in place.
Graph fuse_elementwise(const Graph& graph);

}  // namespace perigee
