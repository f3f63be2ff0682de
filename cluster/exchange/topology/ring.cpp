// Segment s starts at rank s + 1 and goes once around, each adding its own; from rank s the result goes around again. As few bytes as
// `direct`, in 2(K-1) steps, but each member needs only two links. (Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, 2009)
#include "cluster/exchange/topology/gather.h"

namespace perigee {
namespace {

TreePlace ring_place(const World& world, int segment, int rank) {
  const int size = world.size;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  TreePlace place;
  if (rank != (segment + 1) % size) place.reduce_from.push_back(before);
  if (rank != segment) {
    place.reduce_to = next;
    place.result_from = before;
  }
  if (next != segment) place.result_to.push_back(next);
  if (size == 1) place = {};
  return place;
}

GatherPlace spread_ring(const World& world, int source, int rank) {
  const int next = (rank + 1) % world.size;
  GatherPlace place;
  if (rank != source) place.from = (rank + world.size - 1) % world.size;
  if (next != source) place.to.push_back(next);
  return place;
}

constexpr TreeShape kRingShape{.segments = [](const World& world) { return world.size; }, .place = ring_place};

}  // namespace

extern const TopologyDef topology_ring;
const TopologyDef topology_ring{
    .name = "ring",
    .doc = "sums and results go around: 2(K-1)/K of the bytes per member, in 2(K-1) steps, with two links per member",
    .keeps_tree = true,
    .make = [](CollectiveSetup setup) { return make_tree_exchange(kRingShape, std::move(setup)); },
    .bytes_sent = [](int rank, const std::vector<std::string>& hosts,
                     double bytes) { return tree_bytes_sent(kRingShape, rank, hosts, bytes); },
    .gather = [](GatherSetup setup) { return make_gather_exchange(spread_ring, std::move(setup)); },
    .gather_bytes_sent = [](int rank, const std::vector<std::string>& hosts,
                            double bytes) { return gather_bytes_sent(spread_ring, rank, hosts, bytes); },
};

}  // namespace perigee
