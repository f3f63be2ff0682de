#include "cluster/simulator/inner_oracle.h"

#include <cmath>

namespace perigee::sim {

namespace {

// Groups that came to the same, as when a range was tried twice, are seen as one: `all` is then so many times the sum.
bool is_multiple(const std::vector<float>& all, const std::vector<float>& sum) {
  float times = 0;
  for (size_t i = 0; i < sum.size() && times == 0; ++i)
    if (sum[i] != 0) times = all[i] / sum[i];
  for (size_t i = 0; i < sum.size(); ++i)
    if (all[i] != times * sum[i]) return false;
  return times == 0 || (times >= 1 && times == std::floor(times));
}

}  // namespace

void InnerOracle::note(uint64_t generation, int64_t round, int64_t index, int who, std::vector<float> staged, std::vector<float> sum) {
  parts_[{generation, round, index}][who] = {std::move(staged), std::move(sum)};
}

std::string InnerOracle::check(uint64_t generation, int64_t round) {
  std::string wrong;
  for (auto it = parts_.begin(); it != parts_.end() && it->first < Key{generation, round + 1, 0}; it = parts_.erase(it)) {
    if (std::get<0>(it->first) != generation || std::get<1>(it->first) != round) continue;  // of a group that was broken up
    std::map<std::vector<float>, std::vector<float>> staged;                                // by what it came to: what was staged for it
    for (const auto& [who, part] : it->second) {
      std::vector<float>& all = staged[part.sum];
      all.resize(part.sum.size());
      for (size_t i = 0; i < all.size(); ++i) all[i] += part.staged[i];
    }
    exchanges_ += static_cast<int64_t>(staged.size());
    for (const auto& [sum, all] : staged)
      if (!is_multiple(all, sum) && wrong.empty())
        wrong = "inner exchange " + std::to_string(std::get<2>(it->first)) + " of round " + std::to_string(round) +
                " did not give its group what it had staged";
  }
  return wrong;
}

}  // namespace perigee::sim
