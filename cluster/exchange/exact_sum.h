// A double as digits whose sums over the workers are exact in float32, in any order: so a value that is added up, such as a loss, is the same
// double on every worker and for any number of them.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "cluster/exchange/exchange_tail.h"

namespace perigee {

inline constexpr int64_t kExactDigits = 10;  // of 12 bits each, the highest first: below 2^60, in steps of 2^-60
inline constexpr int kExactScale = 60;

// NaN where the value does not fit.
inline std::array<double, kExactDigits> exact_digits(double value) {
  std::array<double, kExactDigits> digits{};
  const double sign = value < 0 ? -1 : 1;
  double rest = std::ldexp(std::fabs(value), kExactScale);
  if (!(rest < std::ldexp(1.0, 2 * kExactScale))) {
    digits[0] = std::numeric_limits<double>::quiet_NaN();
    return digits;
  }
  for (int i = 0; i < kExactDigits; ++i) {
    const double place = std::ldexp(1.0, 12 * (kExactDigits - 1 - i)), digit = std::floor(rest / place);
    digits[static_cast<size_t>(i)] = sign * digit;
    rest -= digit * place;
  }
  return digits;
}

// Takes sums of digits. They may have both signs, so they are carried upwards before they are put together.
inline double exact_value(std::span<const double, kExactDigits> sums) {
  std::array<double, kExactDigits> digits{};
  double carry = 0;
  for (size_t i = kExactDigits; i-- > 0;) {
    const double sum = sums[i] + carry;
    if (!std::isfinite(sum)) return std::numeric_limits<double>::quiet_NaN();
    carry = i == 0 ? 0 : std::floor(sum / exchange_tail::kDigit);
    digits[i] = sum - carry * exchange_tail::kDigit;
  }
  double value = 0;
  for (const double digit : digits) value = value * exchange_tail::kDigit + digit;
  return std::ldexp(value, -kExactScale);
}

}  // namespace perigee
