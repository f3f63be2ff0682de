#include "cluster/exchange/collective.h"

#include <set>

#include "src/core/error.h"

namespace perigee {
namespace {

constexpr int kManyMembers = 16;  // from here on a link between any two members is too many

const char* choose(const std::vector<std::string>& members, bool many_bytes) {
  const std::set<std::string> hosts(members.begin(), members.end());
  if (hosts.size() > 1 && hosts.size() < members.size()) return "hierarchical";
  if (members.size() <= kManyMembers) return "direct";
  return many_bytes ? "ring" : "tree";
}

const TopologyDef& find(const std::string& name, const std::vector<std::string>& members, bool many_bytes) {
  const std::string wanted = name == "auto" ? choose(members, many_bytes) : name;
  std::vector<std::string> known{"auto"};
  for (const TopologyDef* topology : all_topologies()) {
    if (wanted == topology->name) return *topology;
    known.push_back(topology->name);
  }
  throw Error(ErrorKind::model, {.what = "there is no topology '" + name.substr(0, 100) + "'", .hint = nearest_hint(name, known)});
}

}  // namespace

const TopologyDef& find_topology(const std::string& name, const CollectiveSetup& setup) {
  const size_t bytes = setup.bucket.end - setup.bucket.begin;
  return find(name, setup.hosts, setup.partials.empty() && bytes >= kChunkBytes * setup.hosts.size());
}

const TopologyDef& find_gather_topology(const std::string& name, const GatherSetup& setup) {
  return find(name, setup.hosts, setup.bound >= kChunkBytes);
}

}  // namespace perigee
