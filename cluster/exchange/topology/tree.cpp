// Up a binary tree, adding at each node, and down again. Few links and log K steps: for many members and few bytes.
#include "cluster/exchange/topology/gather.h"

namespace perigee {
namespace {

TreePlace tree_place(const World& world, int, int rank) {
  const BinaryPlace node = binary_place(world.size, rank);
  return {.reduce_from = node.children, .reduce_to = node.parent, .result_from = node.parent, .result_to = node.children};
}

// From wherever it begins along every edge, away from there.
GatherPlace spread_tree(const World& world, int source, int rank) {
  const BinaryPlace node = binary_place(world.size, rank);
  GatherPlace place;
  if (rank != source) place.from = node.parent;
  if (rank < source && source < node.end)  // below the last child that does not lie behind it
    for (const int child : node.children)
      if (child <= source) place.from = child;
  for (const int child : node.children)
    if (child != place.from) place.to.push_back(child);
  if (node.parent >= 0 && node.parent != place.from) place.to.push_back(node.parent);
  return place;
}

constexpr TreeShape kTreeShape{.segments = [](const World&) { return 1; }, .place = tree_place};

}  // namespace

extern const TopologyDef topology_tree;
const TopologyDef topology_tree{
    .name = "tree",
    .doc = "up a binary tree and down again: at most three times the bytes per member, in 2 log K steps",
    .keeps_tree = true,
    .make = [](CollectiveSetup setup) { return make_tree_exchange(kTreeShape, std::move(setup)); },
    .bytes_sent = [](int rank, const std::vector<std::string>& hosts,
                     double bytes) { return tree_bytes_sent(kTreeShape, rank, hosts, bytes); },
    .gather = [](GatherSetup setup) { return make_gather_exchange(spread_tree, std::move(setup)); },
    .gather_bytes_sent = [](int rank, const std::vector<std::string>& hosts,
                            double bytes) { return gather_bytes_sent(spread_tree, rank, hosts, bytes); },
};

}  // namespace perigee
