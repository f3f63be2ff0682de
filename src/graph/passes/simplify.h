// Removes what need not be computed: nodes that nothing uses, the same computation done twice, products with one, sums with zero,
// views of views, constants of full size where a scalar will do.
#pragma once

#include "src/graph/graph.h"

namespace perigee {

// Inputs, parameters and states stay, used or not.
Graph simplify(const Graph& graph);

}  // namespace perigee
