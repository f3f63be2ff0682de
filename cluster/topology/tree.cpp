// Up a binary tree, adding at each node, and down again. Few links and log K steps: for many members and few bytes.
#include "cluster/topology/trees.h"

namespace perigee {
namespace {

TreePlace place(const World& world, int, int rank) {
  const BinaryPlace node = binary_place(world.size, rank);
  return {.reduce_from = node.children, .reduce_to = node.parent, .result_from = node.parent, .result_to = node.children};
}

constexpr TreeShape kShape{.segments = [](const World&) { return 1; }, .place = place};

}  // namespace

extern const TopologyDef topology_tree;
const TopologyDef topology_tree{
    .name = "tree",
    .doc = "up a binary tree and down again: at most three times the bytes per member, in 2 log K steps",
    .keeps_tree = true,
    .make = [](CollectiveSetup setup) { return make_tree_exchange(kShape, std::move(setup)); },
    .bytes_sent = [](int rank, const std::vector<std::string>& hosts, double bytes) { return tree_bytes_sent(kShape, rank, hosts, bytes); },
};

}  // namespace perigee
