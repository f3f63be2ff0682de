// Philox4x32-10, a counter-based generator: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
// A draw is a pure function of its key and counter, so it does not depend on thread, batch, order or resume.
// `static`, so that no copy compiled for a newer instruction set can stand in for one on an older machine; `constexpr`, so that nvcc may
// call it in device code.
#pragma once

#include <cstdint>

namespace perigee {

struct PhiloxBlock {
  uint32_t lane[4];
};

struct PhiloxKey {
  uint32_t word[2];
};

[[maybe_unused]] static constexpr PhiloxBlock philox4x32(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter.lane[0], b = uint64_t{0xCD9E8D57u} * counter.lane[2];
    counter = {{static_cast<uint32_t>(b >> 32) ^ counter.lane[1] ^ key.word[0], static_cast<uint32_t>(b),
                static_cast<uint32_t>(a >> 32) ^ counter.lane[3] ^ key.word[1], static_cast<uint32_t>(a)}};
    key.word[0] += 0x9E3779B9u;
    key.word[1] += 0xBB67AE85u;
  }
  return counter;
}

// Spreads neighbouring numbers over all 64 bits (the finaliser of SplitMix64).
[[maybe_unused]] static constexpr uint64_t mix_bits(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The key of one consumer of random numbers in a run: `stream` is the id of the op or transform.
[[maybe_unused]] static constexpr PhiloxKey philox_key(uint64_t seed, uint64_t stream) {
  const uint64_t key = mix_bits(seed ^ mix_bits(stream));
  return {{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)}};
}

// Elements 4 * block .. 4 * block + 3 of the draw for one example in one epoch.
[[maybe_unused]] static constexpr PhiloxBlock philox_for_example(PhiloxKey key, uint64_t epoch, uint64_t example, uint32_t block) {
  return philox4x32({{block, static_cast<uint32_t>(example), static_cast<uint32_t>(example >> 32), static_cast<uint32_t>(epoch)}}, key);
}

// Elements 4 * block .. 4 * block + 3 of the draw for one step.
[[maybe_unused]] static constexpr PhiloxBlock philox_for_step(PhiloxKey key, uint64_t step, uint32_t block) {
  return philox4x32({{block, static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32), 0xFFFFFFFFu}}, key);
}

// [0, 1) in steps of 2^-24: exact in f32.
[[maybe_unused]] static constexpr float uniform_from_bits(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

}  // namespace perigee
