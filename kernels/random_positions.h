// Which k of n elements the codec `randomk` sends: the range is cut into k even parts, one element is drawn of each. A pure function of
// the choice and the number of the range's first element, so that every worker, host or device, draws the same.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/philox.h"

namespace perigee {

// As it stands in a payload.
struct RandomChoice {
  int64_t k = 0;
  uint64_t seed = 0, round = 0;
};

class RandomPositions {
 public:
  constexpr RandomPositions(const RandomChoice& choice, int64_t n, uint64_t first)
      : choice_(choice), n_(n), key_(philox_key(choice.seed, kDraws ^ mix_bits(first))) {}

  // The position of part j, below n.
  constexpr size_t at(int64_t j) const {
    const int64_t begin = border(j), width = border(j + 1) - begin;
    const PhiloxBlock draw = philox4x32({{static_cast<uint32_t>(j), static_cast<uint32_t>(static_cast<uint64_t>(j) >> 32),
                                          static_cast<uint32_t>(choice_.round), static_cast<uint32_t>(choice_.round >> 32)}},
                                        key_);
    const uint64_t word = uint64_t{draw.lane[1]} << 32 | draw.lane[0];
    return static_cast<size_t>(begin) + static_cast<size_t>(static_cast<unsigned __int128>(word) * static_cast<uint64_t>(width) >> 64);
  }

 private:
  static constexpr uint64_t kDraws = 0x72616e646f6d6b;  // tells these draws from those of others

  constexpr int64_t border(int64_t j) const { return static_cast<int64_t>(static_cast<__int128>(n_) * j / choice_.k); }

  RandomChoice choice_;
  int64_t n_;
  PhiloxKey key_;
};

}  // namespace perigee
