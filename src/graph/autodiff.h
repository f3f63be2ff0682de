// Reverse-mode differentiation as a graph transformation.
#pragma once

#include <span>
#include <vector>

#include "src/graph/graph.h"

namespace perigee {

// Appends the gradients of `sum(root * seed)` with respect to each of `targets` and returns them; an empty handle where
// `root` does not depend on a target. `seed` has the shape of `root`.
std::vector<Value> gradients(Graph& graph, Value root, Value seed, std::span<const Value> targets);

}  // namespace perigee
