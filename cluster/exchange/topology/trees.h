// A topology is two trees for each segment of the data over the ranks, one along which contributions are added up, one along
// which the result spreads. Both have the same root, the segment's owner. Everything else (chunks, order of the additions, queues,
// validation) is the same for all topologies: tree_exchange.h.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cluster/exchange/collective.h"

namespace perigee {

// The ranks of each host.
struct World {
  explicit World(const std::vector<std::string>& hosts);
  int size = 0;
  std::vector<int> host;                  // of each rank, numbered by first appearance
  std::vector<std::vector<int>> members;  // of each host, ascending
  std::vector<int> place;                 // of each rank among its host's members
};

// One rank's place in the two trees of one segment.
struct TreePlace {
  std::vector<int> reduce_from;  // added in this order, after the own contribution
  int reduce_to = -1;            // -1: the owner
  int result_from = -1;          // -1: the owner
  std::vector<int> result_to;
};

struct TreeShape {
  int (*segments)(const World& world) = nullptr;
  TreePlace (*place)(const World& world, int segment, int rank) = nullptr;
  // Without `partials` each member is a leaf of the fixed summation tree; else sums run along the topology's tree.
  bool pairwise = false;
};

std::unique_ptr<Collective> make_tree_exchange(const TreeShape& shape, CollectiveSetup setup);
double tree_bytes_sent(const TreeShape& shape, int rank, const std::vector<std::string>& hosts, double bytes);

// A node's neighbours in the binary tree over ranks [0, size) in which every subtree is a contiguous range that starts at its root.
struct BinaryPlace {
  int parent = -1;
  std::vector<int> children;  // ascending
  int end = 0;                // its subtree is [rank, end)
};
BinaryPlace binary_place(int size, int rank);

}  // namespace perigee
