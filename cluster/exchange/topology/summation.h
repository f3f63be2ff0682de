// Which pairs are added where: the part of a sum that one node can do from what it has. Inputs are numbered; each pair of values that
// are siblings becomes one merge; values without a sibling here are the node's outputs, the rows that it sends on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cluster/replica/replica.h"

namespace perigee {

struct Summation {
  struct Node {
    int32_t parent = -1;   // the merge it goes into; -1: it is an output
    int32_t sibling = -1;  // what it is added to there
    int32_t output = -1;   // its row, if it is an output
    bool left = true;      // the sum is left + right
  };
  int inputs = 0;
  std::vector<Node> nodes;        // the inputs, then the merges
  std::vector<Partial> subtrees;  // of the outputs (fixed tree only)
  int outputs = 0;
};

// ((0 + 1) + 2) + ...
Summation chain_sum(int inputs);
// Each input is a subtree of the fixed tree over `leaves`, in which [a, b) splits at a + (b - a) / 2. An input without leaves (count 0)
// adds nothing, but the first output waits for it.
Summation fixed_tree_sum(std::span<const Partial> inputs, int leaves);

}  // namespace perigee
