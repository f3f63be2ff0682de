// Positions of chosen elements: gaps in LEB128, seven bits in a byte from the low ones on. A gap is the number of elements between one
// position and the next (the first: before it). With flags each is shifted up to make room for one bit.
// `static` and `constexpr` as in half.h: device code calls them too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace perigee {

constexpr size_t kLongestGap = 10;  // bytes

[[maybe_unused]] static constexpr size_t gap_bytes(uint64_t value) {
  size_t bytes = 1;
  for (; value >= 0x80; value >>= 7) ++bytes;
  return bytes;
}

[[maybe_unused]] static constexpr std::byte* write_gap(uint64_t value, std::byte* out) {
  for (; value >= 0x80; value >>= 7) *out++ = static_cast<std::byte>(value | 0x80);
  *out++ = static_cast<std::byte>(value);
  return out;
}

// Reads the next value; false when it does not end before `end`, is not in its shortest form, or takes more than 64 bits.
[[maybe_unused]] static constexpr bool read_gap(const std::byte*& in, const std::byte* end, uint64_t* value) {
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

}  // namespace perigee
