#include "tests/cuda/shim/graph.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace shim {

bool Graph::all_before(const std::vector<size_t>& last) const {
  std::vector<bool> before(nodes.size());
  for (const size_t node : last) before[node] = true;
  for (size_t i = nodes.size(); i-- > 0;)
    if (before[i])
      for (const size_t node : nodes[i].after) before[node] = true;
  return std::find(before.begin(), before.end(), false) == before.end();
}

GraphRun::GraphRun(const Graph& of) : graph_(of), waits_(of.nodes.size()), followers_(of.nodes.size()) {
  const char* const text = std::getenv("PERIGEE_SHIM_GRAPHS");
  how_ = text != nullptr ? text : "";
  random_.seed(static_cast<unsigned>(std::atoi(how_.c_str())));
  for (size_t i = 0; i < of.nodes.size(); ++i) {
    waits_[i] = of.nodes[i].after.size();
    for (const size_t node : of.nodes[i].after) followers_[node].push_back(i);
    if (waits_[i] == 0) ready_.push_back(i);
  }
}

const Graph::Node& GraphRun::next() {
  if (chosen_ == SIZE_MAX) chosen_ = ready_[how_.empty() ? ready_.size() - 1 : how_ == "captured" ? 0 : random_() % ready_.size()];
  return graph_.nodes[chosen_];
}

void GraphRun::ran() {
  const size_t node = std::exchange(chosen_, SIZE_MAX);
  ready_.erase(std::find(ready_.begin(), ready_.end(), node));
  for (const size_t follower : followers_[node])
    if (--waits_[follower] == 0) ready_.insert(std::upper_bound(ready_.begin(), ready_.end(), follower), follower);
}

}  // namespace shim
