// The graph of one step of a session, cut in two: what depends on its fixed inputs alone (an encoder, the keys and values of its memory), which is
// computed once, and the step itself, which reads the results of that.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "src/graph/graph.h"

namespace perigee {

struct SessionGraphs {
  Graph once;  // outputs kept_leaf(0), kept_leaf(1), ...
  Graph step;  // inputs of these names, in place of the fixed ones
  std::vector<Type> kept;
};

std::string kept_leaf(size_t i);
SessionGraphs cut_session(const Graph& graph, const std::set<std::string>& fixed);

}  // namespace perigee
