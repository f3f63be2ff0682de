// Inside each host first, then between hosts: the slow network sees each host's sum once, however many members the host has. Each
// segment has a leader on each host, another one for each segment, so that all members of a host share the work; leaders exchange
// directly while hosts are few and around a ring when they are many.
#include "cluster/exchange/topology/gather.h"

namespace perigee {
namespace {

constexpr int kMaxDirectHosts = 8;

int leader(const World& world, int segment, int host) {
  if (world.host[static_cast<size_t>(segment)] == host) return segment;
  const std::vector<int>& members = world.members[static_cast<size_t>(host)];
  return members[static_cast<size_t>(segment) % members.size()];
}

void join_leaders(const World& world, int segment, int host, TreePlace& place) {
  const int hosts = static_cast<int>(world.members.size());
  const int owner_host = world.host[static_cast<size_t>(segment)];
  if (hosts <= kMaxDirectHosts) {
    if (host != owner_host) {
      place.reduce_to = place.result_from = segment;
      return;
    }
    for (int i = 1; i < hosts; ++i) {
      const int other = leader(world, segment, (host + i) % hosts);
      place.reduce_from.push_back(other);
      place.result_to.push_back(other);
    }
    return;
  }
  const int next = leader(world, segment, (host + 1) % hosts), before = leader(world, segment, (host + hosts - 1) % hosts);
  if (host != (owner_host + 1) % hosts) place.reduce_from.push_back(before);
  if (host != owner_host) {
    place.reduce_to = next;
    place.result_from = before;
  }
  if ((host + 1) % hosts != owner_host) place.result_to.push_back(next);
}

TreePlace hierarchical_place(const World& world, int segment, int rank) {
  const int host = world.host[static_cast<size_t>(rank)];
  const int head = leader(world, segment, host);
  TreePlace place;
  if (rank != head) {
    place.reduce_to = place.result_from = head;
    return place;
  }
  for (const int member : world.members[static_cast<size_t>(host)])
    if (member != rank) place.reduce_from.push_back(member);
  place.result_to = place.reduce_from;
  join_leaders(world, segment, host, place);
  return place;
}

GatherPlace spread_hierarchical(const World& world, int source, int rank) {
  const int host = world.host[static_cast<size_t>(rank)], home = world.host[static_cast<size_t>(source)];
  const int head = leader(world, source, host);
  GatherPlace place;
  if (rank != head) {
    place.from = head;
    return place;
  }
  if (rank != source) place.from = source;
  for (const int member : world.members[static_cast<size_t>(host)])
    if (member != rank) place.to.push_back(member);
  for (int other = 0; rank == source && other < static_cast<int>(world.members.size()); ++other)
    if (other != home) place.to.push_back(leader(world, source, other));
  return place;
}

constexpr TreeShape kHierarchicalShape{.segments = [](const World& world) { return world.size; }, .place = hierarchical_place};

}  // namespace

extern const TopologyDef topology_hierarchical;
const TopologyDef topology_hierarchical{
    .name = "hierarchical",
    .doc = "inside each host first, then between one member of each: the network between hosts carries each host's sum once",
    .keeps_tree = true,
    .make = [](CollectiveSetup setup) { return make_tree_exchange(kHierarchicalShape, std::move(setup)); },
    .bytes_sent = [](int rank, const std::vector<std::string>& hosts,
                     double bytes) { return tree_bytes_sent(kHierarchicalShape, rank, hosts, bytes); },
    .gather = [](GatherSetup setup) { return make_gather_exchange(spread_hierarchical, std::move(setup)); },
    .gather_bytes_sent = [](int rank, const std::vector<std::string>& hosts,
                            double bytes) { return gather_bytes_sent(spread_hierarchical, rank, hosts, bytes); },
};

}  // namespace perigee
