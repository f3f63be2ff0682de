// Rank 0 adds up everything, in the order of the ranks, and sends the result to all. The fewest links; rank 0's is the bottleneck.
#include "cluster/exchange/topology/gather.h"

namespace perigee {
namespace {

TreePlace star_place(const World& world, int, int rank) {
  TreePlace place;
  if (rank != 0) {
    place.reduce_to = place.result_from = 0;
    return place;
  }
  for (int i = 1; i < world.size; ++i) place.reduce_from.push_back(i);
  place.result_to = place.reduce_from;
  return place;
}

GatherPlace spread_star(const World& world, int source, int rank) {
  GatherPlace place;
  if (rank != source) place.from = rank == 0 ? source : 0;
  if (rank == source && rank != 0) place.to.push_back(0);
  for (int i = 1; rank == 0 && i < world.size; ++i)
    if (i != source) place.to.push_back(i);
  return place;
}

constexpr TreeShape kStarShape{.segments = [](const World&) { return 1; }, .place = star_place};

}  // namespace

extern const TopologyDef topology_star;
const TopologyDef topology_star{
    .name = "star",
    .doc = "rank 0 merges for all: every other member sends and receives the bytes once, rank 0 K-1 times",
    .keeps_tree = true,
    .make = [](CollectiveSetup setup) { return make_tree_exchange(kStarShape, std::move(setup)); },
    .bytes_sent = [](int rank, const std::vector<std::string>& hosts,
                     double bytes) { return tree_bytes_sent(kStarShape, rank, hosts, bytes); },
    .gather = [](GatherSetup setup) { return make_gather_exchange(spread_star, std::move(setup)); },
    .gather_bytes_sent = [](int rank, const std::vector<std::string>& hosts,
                            double bytes) { return gather_bytes_sent(spread_star, rank, hosts, bytes); },
};

}  // namespace perigee
