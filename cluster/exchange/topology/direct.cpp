// Each member owns one segment: it sends each other owner its part, adds up its own, sends the result to all (reduce-scatter, all-gather).
// The least bytes and two steps; needs a link between any two.
#include "cluster/exchange/topology/gather.h"

namespace perigee {
namespace {

TreePlace direct_place(const World& world, int segment, int rank) {
  TreePlace place;
  if (rank != segment) {
    place.reduce_to = place.result_from = segment;
    return place;
  }
  for (int i = 1; i < world.size; ++i) place.reduce_from.push_back((rank + i) % world.size);
  place.result_to = place.reduce_from;
  return place;
}

GatherPlace spread_direct(const World& world, int source, int rank) {
  GatherPlace place;
  if (rank != source) {
    place.from = source;
    return place;
  }
  for (int i = 1; i < world.size; ++i) place.to.push_back((rank + i) % world.size);
  return place;
}

constexpr TreeShape kDirectShape{.segments = [](const World& world) { return world.size; }, .place = direct_place, .pairwise = true};

}  // namespace

extern const TopologyDef topology_direct;
const TopologyDef topology_direct{
    .name = "direct",
    .doc = "each member adds up one segment for all and sends it to all: 2(K-1)/K of the bytes per member, in two steps",
    .keeps_tree = true,
    .make = [](CollectiveSetup setup) { return make_tree_exchange(kDirectShape, std::move(setup)); },
    .bytes_sent = [](int rank, const std::vector<std::string>& hosts,
                     double bytes) { return tree_bytes_sent(kDirectShape, rank, hosts, bytes); },
    .gather = [](GatherSetup setup) { return make_gather_exchange(spread_direct, std::move(setup)); },
    .gather_bytes_sent = [](int rank, const std::vector<std::string>& hosts,
                            double bytes) { return gather_bytes_sent(spread_direct, rank, hosts, bytes); },
};

}  // namespace perigee
