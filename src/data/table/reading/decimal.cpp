#include "src/data/table/reading/decimal.h"

#include <array>

namespace perigee::tables {
namespace {

__extension__ using Wide = unsigned __int128;

// 5^q for q from -27 to 27 as 128 bits whose highest is set, rounded up where q is negative: as in the paper.
struct Powers {
  std::array<uint64_t, 55> high, low;
  constexpr Powers() : high(), low() {
    for (int q = -27; q <= 27; ++q) {
      Wide power = 1;
      for (int i = 0; i < (q < 0 ? -q : q); ++i) power *= 5;
      Wide bits = 0;
      if (q >= 0) {
        bits = power;
        while (!(bits >> 127)) bits <<= 1;
      } else {  // 2^b / 5^-q + 1 by long division, b so that the result has 128 bits
        int z = 0;
        while ((Wide{1} << z) < power) ++z;
        Wide rest = 0;
        for (int bit = z + 127; bit >= 0; --bit) {
          rest = rest << 1 | (bit == z + 127 ? 1 : 0);
          bits = bits << 1;
          if (rest >= power) rest -= power, bits |= 1;
        }
        bits += 1;
      }
      high[static_cast<size_t>(q + 27)] = static_cast<uint64_t>(bits >> 64);
      low[static_cast<size_t>(q + 27)] = static_cast<uint64_t>(bits);
    }
  }
};
constexpr Powers kPowers;

}  // namespace

// In this range no case is left open, and none is subnormal or infinite.
double scaled_by_wide(uint64_t w, int q) {
  const int zeros = std::countl_zero(w);
  w <<= zeros;
  const auto i = static_cast<size_t>(q + 27);
  const Wide product = Wide{w} * kPowers.high[i];
  auto upper = static_cast<uint64_t>(product >> 64), lower = static_cast<uint64_t>(product);
  if ((upper & 0x1FF) == 0x1FF) {
    const auto more = static_cast<uint64_t>(Wide{w} * kPowers.low[i] >> 64);
    lower += more;
    upper += lower < more;
  }
  const auto top = static_cast<int>(upper >> 63);
  uint64_t mantissa = upper >> (top + 9);
  int64_t power = (((152170 + 65536) * q) >> 16) + 63 + top - zeros + 1023;
  if (lower <= 1 && q >= -4 && q <= 23 && (mantissa & 3) == 1 && mantissa << (top + 9) == upper)
    mantissa &= ~uint64_t{1};  // a tie: to even
  mantissa = (mantissa + (mantissa & 1)) >> 1;
  if (mantissa >= uint64_t{1} << 53) mantissa = uint64_t{1} << 52, ++power;
  return std::bit_cast<double>((mantissa & ~(uint64_t{1} << 52)) | static_cast<uint64_t>(power) << 52);
}

}  // namespace perigee::tables
