#include "tests/cuda/shim/graph.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

namespace shim {

bool Graph::all_before(const std::vector<size_t>& last) const {
  std::vector<bool> before(nodes.size());
  for (const size_t node : last) before[node] = true;
  for (size_t i = nodes.size(); i-- > 0;)
    if (before[i])
      for (const size_t node : nodes[i].after) before[node] = true;
  return std::find(before.begin(), before.end(), false) == before.end();
}

void Graph::run_all() const {
  const char* const text = std::getenv("PERIGEE_SHIM_GRAPHS");
  const std::string how = text != nullptr ? text : "";
  std::mt19937 random(static_cast<unsigned>(std::atoi(how.c_str())));
  std::vector<size_t> waits(nodes.size());
  std::vector<std::vector<size_t>> followers(nodes.size());
  std::vector<size_t> ready;  // ascending
  for (size_t i = 0; i < nodes.size(); ++i) {
    waits[i] = nodes[i].after.size();
    for (const size_t node : nodes[i].after) followers[node].push_back(i);
    if (waits[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    const size_t at = how.empty() ? ready.size() - 1 : how == "captured" ? 0 : random() % ready.size();
    const size_t node = ready[at];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
    nodes[node].run();
    for (const size_t next : followers[node])
      if (--waits[next] == 0) ready.insert(std::upper_bound(ready.begin(), ready.end(), next), next);
  }
}

}  // namespace shim
