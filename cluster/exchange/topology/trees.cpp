#include "cluster/exchange/topology/trees.h"

#include <algorithm>
#include <cassert>

namespace perigee {

World::World(const std::vector<std::string>& hosts) : size(static_cast<int>(hosts.size())) {
  std::vector<const std::string*> names;
  for (int rank = 0; rank < size; ++rank) {
    const std::string& name = hosts[static_cast<size_t>(rank)];
    const auto found = std::find_if(names.begin(), names.end(), [&](const std::string* known) { return *known == name; });
    const auto index = static_cast<size_t>(found - names.begin());
    if (found == names.end()) {
      names.push_back(&name);
      members.emplace_back();
    }
    host.push_back(static_cast<int>(index));
    place.push_back(static_cast<int>(members[index].size()));
    members[index].push_back(rank);
  }
}

BinaryPlace binary_place(int size, int rank) {
  assert(rank >= 0 && rank < size);
  BinaryPlace place;
  int first = 0, last = size;  // the subtree that `rank` is in
  while (first != rank) {
    place.parent = first;
    const int middle = first + 1 + (last - first) / 2;  // of the ranks below the root, the first half is not the smaller one
    if (rank < middle) {
      last = middle;
      first = first + 1;
    } else {
      first = middle;
    }
  }
  const int middle = first + 1 + (last - first) / 2;
  if (first + 1 < last) place.children.push_back(first + 1);
  if (middle < last) place.children.push_back(middle);
  place.end = last;
  return place;
}

double tree_bytes_sent(const TreeShape& shape, int rank, const std::vector<std::string>& hosts, double bytes) {
  const World world(hosts);
  const int segments = shape.segments(world);
  double copies = 0;
  for (int segment = 0; segment < segments; ++segment) {
    const TreePlace place = shape.place(world, segment, rank);
    copies += static_cast<double>(place.result_to.size()) + (place.reduce_to >= 0 ? 1 : 0);
  }
  return copies * bytes / segments;
}

}  // namespace perigee
