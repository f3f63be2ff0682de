// Graphs from lists of edges, and random walks over them, which are sequences of nodes as sentences are of words: DeepWalk (Perozzi et al. 2014) and
// node2vec (Grover and Leskovec 2016).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/vectors/element_table.h"
#include "src/vectors/sequences.h"

namespace perigee {

class WalkedGraph {
 public:
  // Lines "a b" or "a b weight", between blanks, tabs or commas; lines that begin with # or % are passed over. An edge that comes again adds its
  // weight. Error(data) with the line.
  WalkedGraph(const std::vector<std::string>& paths, bool directed);
  WalkedGraph(std::string_view text, const std::string& where, bool directed);

  // Those with many edges first; the count of a node is how many it has.
  const ElementTable& nodes() const { return nodes_; }
  int64_t edges() const { return static_cast<int64_t>(targets_.size()); }  // each both ways unless directed
  std::span<const int32_t> next(int64_t node) const { return {targets_.data() + begin(node), length(node)}; }  // in order
  std::span<const double> sums(int64_t node) const { return {sums_.data() + begin(node), length(node)}; }      // of weights up to each
  bool joined(int32_t from, int32_t to) const;

 private:
  struct Edge {
    int32_t from, to;
    double weight;
  };
  static void read(std::string_view text, const std::string& where, ElementTable& names, std::vector<Edge>& edges);
  void build(const ElementTable& names, std::vector<Edge> edges, bool directed, const std::string& where);
  size_t begin(int64_t node) const { return begins_[static_cast<size_t>(node)]; }
  size_t length(int64_t node) const { return begins_[static_cast<size_t>(node) + 1] - begin(node); }

  ElementTable nodes_;
  std::vector<size_t> begins_;
  std::vector<int32_t> targets_;
  std::vector<double> sums_;
};

struct WalkRules {
  int64_t walks = 10, length = 40;  // from each node, in each epoch; nodes of a walk
  double back = 1, out = 1;         // node2vec's p and q: the chance to go back is divided by p, to go further away by q
  uint64_t seed = 1;
};

// `graph` must outlive it. A walk ends where no edge leads on.
std::unique_ptr<Sequences> walk_sequences(const WalkedGraph& graph, const WalkRules& rules);

}  // namespace perigee
