// The draws of training: noise elements, which elements of a sequence are kept, how wide a window is.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/philox.h"
#include "src/vectors/element_table.h"

namespace perigee {

// SplitMix64: the draws of one part in one epoch, whichever thread trains on it.
class PartDraws {
 public:
  PartDraws(uint64_t seed, uint64_t epoch, uint64_t part) : state_(mix_bits(mix_bits(mix_bits(seed) ^ epoch) ^ part)) {}
  uint64_t bits() {
    const uint64_t drawn = mix_bits(state_);
    state_ += 0x9E3779B97F4A7C15u;
    return drawn;
  }
  // Below `most`, which is less than 2^32.
  uint32_t below(uint32_t most) { return static_cast<uint32_t>(((bits() >> 32) * most) >> 32); }

 private:
  uint64_t state_;
};

// Draws number i with a chance in proportion to weights[i], in constant time (Walker 1977, Vose 1991).
class AliasTable {
 public:
  AliasTable() = default;
  explicit AliasTable(const std::vector<double>& weights);  // not all 0, fewer than 2^31
  int32_t draw(uint64_t bits) const {
    const auto place = static_cast<size_t>(((bits >> 32) * cells_.size()) >> 32);
    return static_cast<uint32_t>(bits) < cells_[place].chance ? static_cast<int32_t>(place) : cells_[place].other;
  }

 private:
  struct Cell {
    uint32_t chance;
    int32_t other;
  };
  std::vector<Cell> cells_;
};

// Counts to the power of `exponent`: 0.75 in Mikolov et al. 2013b.
AliasTable noise_table(const ElementTable& elements, double exponent);

// The chance of each element to be kept, in parts of 2^32 - 1: (sqrt(f / sample) + 1) sample / f for frequency f, as word2vec's program has it. Empty when
// `sample` is 0.
std::vector<uint32_t> keep_chances(const ElementTable& elements, double sample);

}  // namespace perigee
