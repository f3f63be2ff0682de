// Division by a number that the host knows, as a product and a shift: a few instructions, where a division is a score of them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace perigee {

// Divides numbers up to INT32_MAX. With 2^s the first power that is not below the divisor d, the factor is the first above 2^(31 + s) / d: its
// product with i is then less than 2^(31 + s) / d above that of the fraction, which is less than what i / d lacks of the next whole number.
struct Divisor {
  Divisor() = default;
  explicit Divisor(int64_t divisor) : by(static_cast<uint32_t>(divisor)) {
    while (int64_t{1} << (shift - 31) < divisor) ++shift;
    factor = static_cast<uint32_t>((uint64_t{1} << shift) / by + 1);
  }
  __device__ uint32_t of(uint32_t i) const { return static_cast<uint32_t>(uint64_t{i} * factor >> shift); }
  // The remainder; i becomes the quotient.
  __device__ int take(uint32_t& i) const {
    const uint32_t quotient = of(i), rest = i - quotient * by;
    i = quotient;
    return static_cast<int>(rest);
  }
  uint32_t by = 1, factor = (uint32_t{1} << 31) + 1;
  int shift = 31;
};

}  // namespace perigee
