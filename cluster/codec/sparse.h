// Positions of chosen elements: gaps in LEB128, seven bits in a byte from the low ones on. A gap is the number of elements between one
// position and the next (the first: before it). With flags each is shifted up to
// make room for one bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/codec_loops.h"

namespace perigee {

constexpr size_t kLongestGap = 10;  // bytes

inline size_t gap_bytes(uint64_t value) {
  size_t bytes = 1;
  for (; value >= 0x80; value >>= 7) ++bytes;
  return bytes;
}

inline std::byte* write_gap(uint64_t value, std::byte* out) {
  for (; value >= 0x80; value >>= 7) *out++ = static_cast<std::byte>(value | 0x80);
  *out++ = static_cast<std::byte>(value);
  return out;
}

// Reads the next value; false when it does not end before `end`, is not in its shortest form, or takes more than 64 bits.
inline bool read_gap(const std::byte*& in, const std::byte* end, uint64_t* value) {
  uint64_t result = 0;
  for (int shift = 0; in != end && shift < 64; shift += 7) {
    const auto byte = static_cast<uint64_t>(*in++);
    if (shift == 63 && byte > 1) return false;
    result |= (byte & 0x7f) << shift;
    if (byte >= 0x80) continue;
    *value = result;
    return byte != 0 || shift == 0;
  }
  return false;
}

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

// The k-th largest of |v|, 1 <= k <= n, and how many of those that equal it belong to the k largest: the first ones are taken.
// `masks` is room for ceil(n / 64) words; afterwards they are of |v| >= that value.
struct Selection {
  float magnitude = 0;
  int64_t ties = 0;
};
Selection select_largest(const CodecLoops& loops, const float* v, int64_t n, int64_t k, uint64_t* masks);

}  // namespace perigee
