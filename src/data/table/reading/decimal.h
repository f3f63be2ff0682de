// Decimal numbers at a place in a text, eight digits at a time, correctly rounded (Eisel, Lemire: Number Parsing at a Gigabyte per Second, 2021).
// Inline, since the loop over a block's cells is as fast as these. Behind a number eight bytes must be readable.
#pragma once

#include <bit>
#include <cstdint>

#include "src/data/table/loops/block.h"

namespace perigee::tables {

// How many of the first bytes are digits.
inline int leading_digits(uint64_t word) {
  const uint64_t off =
      ((word & 0xF0F0F0F0F0F0F0F0) ^ 0x3030303030303030) | (((word + 0x0606060606060606) & 0xF0F0F0F0F0F0F0F0) ^ 0x3030303030303030);
  return off == 0 ? 8 : std::countr_zero(off) / 8;
}

inline uint64_t number_of_eight(uint64_t word) {
  word = (word & 0x0F0F0F0F0F0F0F0F) * 2561 >> 8;
  word = (word & 0x00FF00FF00FF00FF) * 6553601 >> 16;
  return (word & 0x0000FFFF0000FFFF) * 42949672960001 >> 32;
}

inline constexpr uint64_t kTensToEight[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

// Digits at p, at most 8 at a time; `count` counts them. A call for each number would cost a twelfth of what it takes to read one.
[[gnu::always_inline]] inline const char* take_digits(const char* p, uint64_t& number, int& count) {
  for (;;) {
    const uint64_t word = load_eight(p);
    const int digits = leading_digits(word);
    if (digits == 0) return p;
    const uint64_t value = digits == 8 ? number_of_eight(word) : number_of_eight(word << (64 - 8 * digits));
    number = number * kTensToEight[digits] + value;
    count += digits;
    p += digits;
    if (digits < 8) return p;
  }
}

// w * 10^q correctly rounded, w not 0, q from -27 to 27: by numbers of 128 bits, where the product of two doubles would not be exact.
double scaled_by_wide(uint64_t w, int q);

inline constexpr double kExactTens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

inline double scaled_decimal(uint64_t w, int q) {
  if (w <= uint64_t{1} << 53 && q >= -22 && q <= 22)
    return q < 0 ? static_cast<double>(w) / kExactTens[-q] : static_cast<double>(w) * kExactTens[q];
  return scaled_by_wide(w, q);
}

// A decimal number at `p`; its end, or null where there is none that is read here: add_parsed() takes those. Zeros behind it as behind a block.
inline const char* parse_decimal(const char* p, double& value) {
  const bool minus = *p == '-';
  p += minus;
  uint64_t number = 0;
  int digits = 0, power = 0;
  p = take_digits(p, number, digits);
  if (*p == '.') {
    const int before = digits;
    p = take_digits(p + 1, number, digits);
    power = before - digits;
  }
  if (digits == 0 || digits > 19) return nullptr;  // 19 digits and more may not fit 64 bits: zeros in front count too
  if (*p == 'e' || *p == 'E') {
    const char* q = p + 1;
    const bool negative = *q == '-';
    q += negative || *q == '+';
    uint64_t exponent = 0;
    int count = 0;
    q = take_digits(q, exponent, count);
    if (count == 0 || count > 4) return nullptr;
    power += negative ? -static_cast<int>(exponent) : static_cast<int>(exponent);
    p = q;
  }
  if (power < -27 || power > 27) return nullptr;
  value = number == 0 ? 0.0 : scaled_decimal(number, power);
  if (minus) value = -value;
  return p;
}

}  // namespace perigee::tables
