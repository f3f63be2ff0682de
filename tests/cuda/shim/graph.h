// The shim's captures: pieces of work and their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace shim {

struct Meeting;  // runtime.h: work that several streams come to

struct Graph {
  struct Node {
    std::function<void()> run;
    std::vector<size_t> after;  // lower numbers
    Meeting* meeting = nullptr;
    size_t member = 0;
    bool own = false, overlaps = false;  // enqueue_own
  };

  // Whether every node comes before one of these, or is one.
  bool all_before(const std::vector<size_t>& last) const;

  std::vector<Node> nodes;
};

// A graph on its way: nodes in an order that the edges allow and that is as far from the captured one as it can be: of those that may run,
// the last. So a missing edge shows. PERIGEE_SHIM_GRAPHS=captured takes the first, a number takes any, by that seed.
class GraphRun {
 public:
  explicit GraphRun(const Graph& of);
  bool done() const { return ready_.empty(); }
  const Graph::Node& next();  // the same one until it ran; it may have to wait for others
  void ran();

 private:
  const Graph& graph_;
  std::vector<size_t> waits_;
  std::vector<std::vector<size_t>> followers_;
  std::vector<size_t> ready_;  // ascending
  size_t chosen_ = SIZE_MAX;   // of them
  std::string how_;
  std::mt19937 random_;
};

}  // namespace shim
