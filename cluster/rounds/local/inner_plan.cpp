#include "cluster/rounds/local/inner_plan.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "kernels/philox.h"

namespace perigee {
namespace {

constexpr uint64_t kStream = 0x676f73736970;  // "gossip"

// Fisher and Yates, with draws that belong to (seed, round, index).
std::vector<int> shuffled(int size, int64_t round, int64_t index, uint64_t seed) {
  std::vector<int> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  const PhiloxKey key = philox_key(seed, kStream);
  for (size_t i = order.size() - 1; i > 0; --i) {
    const PhiloxBlock draw = philox_for_example(key, static_cast<uint64_t>(round), static_cast<uint64_t>(index), static_cast<uint32_t>(i));
    const uint64_t bits = uint64_t{draw.lane[0]} << 32 | draw.lane[1];
    std::swap(order[i], order[static_cast<size_t>(bits % (i + 1))]);
  }
  return order;
}

// Ranks are places of a grid with `side` places along each axis; with side^d workers all are equal after d exchanges (Moshpit).
std::vector<int> along_axis(int size, int rank, int64_t side, int64_t index) {
  int64_t axes = 1, cells = side;
  while (cells < size) cells *= side, ++axes;
  int64_t stride = 1;
  for (int64_t axis = index % axes; axis > 0; --axis) stride *= side;
  const int64_t first = rank - rank / stride % side * stride;
  std::vector<int> group;
  for (int64_t i = 0; i < side && first + i * stride < size; ++i) group.push_back(static_cast<int>(first + i * stride));
  return group;
}

}  // namespace

int64_t inner_exchanges(const Policy& policy) { return policy.inner.active() ? (policy.every - 1) / policy.inner.every : 0; }

std::string site_of(const Policy::Inner& inner, const std::vector<Member>& members, int rank) {
  const Member& member = members[static_cast<size_t>(rank)];
  if (inner.active() && inner.groups == Policy::Inner::Groups::blocks) return "group " + std::to_string(rank / inner.size);
  return member.site.empty() ? member.host : "site " + member.site;
}

std::vector<int> inner_group(const Policy::Inner& inner, const std::vector<Member>& members, int rank, int64_t round, int64_t index,
                             uint64_t seed) {
  const int size = static_cast<int>(members.size());
  assert(inner.active() && rank >= 0 && rank < size && index >= 0);
  if (size == 1) return {rank};
  std::vector<int> group;
  switch (inner.groups) {
    case Policy::Inner::Groups::grid: return along_axis(size, rank, inner.size, index);
    case Policy::Inner::Groups::random: {
      const std::vector<int> order = shuffled(size, round, index, seed);
      const auto place = std::find(order.begin(), order.end(), rank) - order.begin();
      const auto first = order.begin() + place / inner.size * inner.size;
      group.assign(first, first + std::min<ptrdiff_t>(inner.size, order.end() - first));
      std::sort(group.begin(), group.end());
      return group;
    }
    default: break;
  }
  const std::string own = site_of(inner, members, rank);
  for (int other = 0; other < size; ++other)
    if (site_of(inner, members, other) == own) group.push_back(other);
  return group;
}

}  // namespace perigee
