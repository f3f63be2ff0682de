// Chosen elements: which are the largest, and lists of gaps (kernels/gaps.h) that lead to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/codec_loops.h"
#include "kernels/gaps.h"

namespace perigee {

// Whether `in` is exactly `count` gaps (with flags: each with its bit) that lead to positions below n.
bool valid_gaps(std::span<const std::byte> in, int64_t count, int64_t n, bool flags);

// The most bytes that `count` gaps among n elements take, and how many one takes on average where each element is chosen with that chance.
size_t gaps_bound(int64_t count, int64_t n, bool flags);
double average_gap_bytes(double chance, bool flags);

// use(position) for each bit of the masks of n elements, in order.
template <class Use>
void each_set(const uint64_t* masks, int64_t n, Use use) {
  for (int64_t word = 0; word * 64 < n; ++word)
    for (uint64_t rest = masks[word]; rest != 0; rest &= rest - 1) use(word * 64 + __builtin_ctzll(rest));
}

// Payloads of `threshold` (threshold.cpp).
constexpr float kSmallestTau = 0x1p-60f, kLargestTau = 0x1p60f;
constexpr int64_t kTauBlock = 1024;  // elements of a bitmap that are packed together
enum TauVariant : uint16_t { kTauGaps = 0, kTauInt32 = 1, kTauBitmap = 2 };

// The k-th largest of |v|, 1 <= k <= n, and how many of those that equal it belong to the k largest: the first ones are taken.
// `masks` is room for ceil(n / 64) words; afterwards they are of |v| >= that value.
struct Selection {
  float magnitude = 0;
  int64_t ties = 0;
};
Selection select_largest(const CodecLoops& loops, const float* v, int64_t n, int64_t k, uint64_t* masks);

}  // namespace perigee
