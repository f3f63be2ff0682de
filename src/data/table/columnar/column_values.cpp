#include "src/data/table/columnar/column_values.h"

#include <charconv>
#include <cmath>
#include <vector>

namespace perigee::tables {
namespace {

// The digits of a number with its point, read as a double that is right to the last bit.
double decimal_of(std::string digits, bool negative, int64_t scale) {
  if (const auto wanted = static_cast<size_t>(scale) + 1; digits.size() < wanted) digits.insert(0, wanted - digits.size(), '0');
  digits.insert(digits.size() - static_cast<size_t>(scale), ".");
  double value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return negative ? -value : value;
}

}  // namespace

double decimal_value(int64_t value, int64_t scale) {
  static constexpr double kPowers[] = {1,    1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                       1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  // Both are exact, so that their quotient is right.
  if (scale <= 22 && value > -(int64_t{1} << 53) && value < int64_t{1} << 53) return static_cast<double>(value) / kPowers[scale];
  return decimal_of(std::to_string(value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value)), value < 0, scale);
}

double decimal_value(std::string_view bytes, int64_t scale) {
  const bool negative = !bytes.empty() && (bytes[0] & 0x80) != 0;
  if (bytes.size() <= 8) {
    uint64_t value = negative ? ~uint64_t{0} : 0;
    for (const char c : bytes) value = value << 8 | static_cast<uint8_t>(c);
    return decimal_value(static_cast<int64_t>(value), scale);
  }
  std::vector<uint8_t> number(bytes.begin(), bytes.end());
  if (negative) {
    unsigned carry = 1;
    for (size_t i = number.size(); i-- > 0;) {
      carry += static_cast<uint8_t>(~number[i]);
      number[i] = static_cast<uint8_t>(carry), carry >>= 8;
    }
  }
  std::string digits;
  for (bool any = true; any;) {  // divided by ten until nothing is left
    unsigned rest = 0;
    any = false;
    for (uint8_t& byte : number) {
      const unsigned now = rest << 8 | byte;
      byte = static_cast<uint8_t>(now / 10), rest = now % 10;
      any |= byte != 0;
    }
    digits.insert(digits.begin(), static_cast<char>('0' + rest));
  }
  return decimal_of(digits, negative, scale);
}

double half_value(std::string_view bytes) {
  const unsigned bits = static_cast<uint8_t>(bytes[0]) | static_cast<unsigned>(static_cast<uint8_t>(bytes[1])) << 8;
  const unsigned exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double value = exponent == 0    ? std::ldexp(fraction, -24)
                       : exponent == 31 ? (fraction == 0 ? HUGE_VAL : std::nan(""))
                                        : std::ldexp(1024 + fraction, static_cast<int>(exponent) - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

}  // namespace perigee::tables
