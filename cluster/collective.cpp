#include "cluster/collective.h"

#include <set>

#include "src/core/error.h"

namespace perigee {
namespace {

constexpr int kManyMembers = 16;  // from here on a link between any two members is too many

const char* choose(const CollectiveSetup& setup) {
  const size_t size = setup.hosts.size();
  const std::set<std::string> hosts(setup.hosts.begin(), setup.hosts.end());
  if (hosts.size() > 1 && hosts.size() < size) return "hierarchical";
  if (size <= kManyMembers) return "direct";
  const size_t bytes = setup.bucket.end - setup.bucket.begin;
  return setup.partials.empty() && bytes / size >= kChunkBytes ? "ring" : "tree";
}

}  // namespace

const TopologyDef& find_topology(const std::string& name, const CollectiveSetup& setup) {
  const std::string wanted = name == "auto" ? choose(setup) : name;
  std::vector<std::string> known{"auto"};
  for (const TopologyDef* topology : all_topologies()) {
    if (wanted == topology->name) return *topology;
    known.push_back(topology->name);
  }
  throw Error(ErrorKind::model, {.what = "there is no topology '" + name.substr(0, 100) + "'", .hint = nearest_hint(name, known)});
}

}  // namespace perigee
