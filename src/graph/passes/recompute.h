// After all other passes, on a graph with gradients: values of the forward pass that the backward pass needs are computed again there, by
// the same ops on the same operands (random draws count from the same numbers), instead of being kept until then. Every result keeps its
// bits; states are assigned once, by the forward pass. Sublinear memory: Chen et al. 2016, arXiv:1604.06174.
#pragma once

#include <functional>
#include <vector>

#include "src/graph/graph.h"

namespace perigee {

double flops_of(const Graph& graph);  // of all nodes

// By node: its results are not kept for the backward pass. What is small beside the node's largest result is kept all the same.
using Dropped = std::vector<bool>;

class RecomputeAnalysis {
 public:
  // `allowed`: whether a node may run twice; null: all may. What has effects (leaves, ops of the embedding program) never does.
  explicit RecomputeAnalysis(const Graph& graph, const std::function<bool(const Node&)>& allowed = {});

  // Results of cheap ops (element-wise, normalisation, draws: at most 16 operations an element) whose operands are kept anyway: of the
  // largest of them, so many that they hold `share` of the bytes; through at most `depth` such ops (a chain of residual sums has no end).
  Dropped cheap(double share, int depth) const { return cheap(share, depth, Dropped(may_drop_.size())); }
  // The forward pass cut into `segments` of about as many bytes where the fewest bytes cross; within all but the last only what crosses is
  // kept, until `share` of the segments are treated so, from the first on. Where `cheap_depth` is not 0, cheap(1, cheap_depth) too, but for
  // what crosses.
  Dropped segments(int segments, double share, int cheap_depth) const;

  Dropped everything() const { return may_drop_; }  // that is allowed

  Graph rewrite(const Dropped& dropped) const;

 private:
  Dropped cheap(double share, int depth, const std::vector<bool>& stays) const;
  bool is_dropped(const Dropped& dropped, ValueId id) const;
  std::vector<int> cuts(int segments) const;

  const Graph& graph_;
  std::vector<bool> forward_;   // by node: an output beside the gradients, or a state, needs it
  std::vector<bool> backward_;  // needed, and not forward
  std::vector<bool> may_drop_, cheap_;
  std::vector<bool> saved_;    // forward, and read by the backward pass
  std::vector<size_t> bytes_;  // of the node's results, nothing for windows and leaves
};

}  // namespace perigee
