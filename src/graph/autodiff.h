// Reverse-mode differentiation as a graph transformation.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/graph/graph.h"

namespace perigee {

// Appends the gradients of `sum(root * seed)` with respect to each of `targets` and returns them; an empty handle where
// `root` does not depend on a target. `seed` has the shape of `root`.
std::vector<Value> gradients(Graph& graph, Value root, Value seed, std::span<const Value> targets);
// The same of the sum of sum(roots[i] * seeds[i]).
std::vector<Value> gradients(Graph& graph, std::span<const Value> roots, std::span<const Value> seeds, std::span<const Value> targets);

// Where `root` depends on `target` and its gradient is empty: the op between them whose results are no real numbers, as arg_max; else empty.
std::string without_derivative(const Graph& graph, Value root, Value target);

}  // namespace perigee
