// Which arguments of a recorded function share a batch, and the function cut in two: what each part does to its rows, and the rest.
// Internal to this folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/graph/graph.h"
#include "src/graph/plan.h"

namespace perigee {

// A value that crosses from the rows' stage to the rest, or is a result of the rows' stage.
struct Boundary {
  ValueId value;
  std::string name;  // its leaf in `rest`, its output in `rows`
  bool sum = false;  // parts add up; else they write their rows
};

struct BatchCut {
  int parts = 1;
  Graph rows;  // of one part's rows; outputs are the boundaries
  Graph rest;  // outputs are what is left of the function's; boundaries are parameters
  std::vector<Boundary> boundaries;
};

// The same graph with the arguments that are not of a batch as parameters, which is what kernels of images want to know.
Graph with_best_batch(const Graph& graph);
// The same with all of them as parameters, for passes: nothing is a sum over parts.
Graph without_batch(const Graph& graph);

// Nothing where no arguments share a batch that is worth sharing: where most of the work would not be shared, or there is little of it.
std::optional<BatchCut> cut_batch(const Graph& graph, int parts);

}  // namespace perigee
