// Whole numbers that choose among a count of things: class labels, indices. Kernels trust them; what is here finds the ones out of range.
#pragma once

#include <string>
#include <vector>

#include "src/graph/graph.h"

namespace perigee {

// An input of a graph whose numbers choose, perhaps after a cast, a change of shape or a constant that is added.
struct ChoosingInput {
  std::string name;   // of the leaf
  int64_t low = 0;    // the least number that chooses something
  int64_t count = 0;  // how many things there are: the numbers lie in [low, low + count)
  std::string op;     // that chooses
  std::string scope;  // of its node: "loss", "embedding 'tokens' (layer 1 of 5)"
};

// Those of the graph that an op reads directly. An input that chooses twice is told twice.
std::vector<ChoosingInput> choosing_inputs(const Graph& graph);

// The place of the first number outside of [low, low + count) among the first `n` of a dense view of i64, i32, u8, f32 or f64; -1: there is
// none. A NaN is outside.
int64_t first_outside(const View& view, int64_t n, int64_t low, int64_t count);

}  // namespace perigee
