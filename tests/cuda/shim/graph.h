// What the shim captures: pieces of work and which of them come after which.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace shim {

struct Graph {
  struct Node {
    std::function<void()> run;
    std::vector<size_t> after;  // lower numbers
  };

  // Whether every node comes before one of these, or is one.
  bool all_before(const std::vector<size_t>& last) const;
  // In an order that the edges allow and that is as far from the captured one as it can be: of the nodes that may run, the last. So a missing
  // edge shows. PERIGEE_SHIM_GRAPHS=captured takes the first, a number takes any, by that seed.
  void run_all() const;

  std::vector<Node> nodes;
};

}  // namespace shim
