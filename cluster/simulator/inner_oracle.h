// Invariants of exchanges inside groups: every participant got exactly what all of its group had staged, once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace perigee::sim {

class InnerOracle {
 public:
  // The values that `who` staged for the exchange, and its group's result.
  void note(uint64_t generation, int64_t round, int64_t index, int who, std::vector<float> staged, std::vector<float> sum);
  // All who took part in the round have been through its inner exchanges. What was wrong; empty: nothing. Forgets what is over.
  std::string check(uint64_t generation, int64_t round);
  int64_t exchanges() const { return exchanges_; }

 private:
  struct Part {
    std::vector<float> staged, sum;
  };
  using Key = std::tuple<uint64_t, int64_t, int64_t>;  // generation, round, index
  std::map<Key, std::map<int, Part>> parts_;
  int64_t exchanges_ = 0;
};

}  // namespace perigee::sim
