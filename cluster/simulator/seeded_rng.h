// Reproducible randomness for the simulated world: SplitMix64, cheap enough to have one generator per node.
#pragma once

#include <cassert>
#include <cstdint>

#include "cluster/protocol/transport.h"

namespace perigee::sim {

class SeededRng final : public Rng {
 public:
  explicit SeededRng(uint64_t seed = 0) : state_(seed) {}
  uint64_t next() override {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  double between(double low, double high) { return low + (high - low) * uniform(); }
  int64_t integer(int64_t low, int64_t high) {  // both included
    assert(low <= high);
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(double p) { return uniform() < p; }

 private:
  uint64_t state_;
};

inline uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9fb21c651e98df25;
  return hash ^ (hash >> 32);
}

}  // namespace perigee::sim
