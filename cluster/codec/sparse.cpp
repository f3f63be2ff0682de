#include "cluster/codec/sparse.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

#include "kernels/half.h"

namespace perigee {
namespace {

// Bits 30 .. 20, 19 .. 10 and 9 .. 0 of a magnitude, in turn.
struct Digit {
  int shift;
  uint32_t values;
};
constexpr Digit kDigits[] = {{20, 2048}, {10, 1024}, {0, 1024}};

using Histogram = std::array<int64_t, 2048>;

// The digit that the k-th largest has; k becomes its rank among those of that digit.
uint32_t digit_of(const Histogram& histogram, uint32_t values, int64_t* k) {
  uint32_t digit = values - 1;
  for (; histogram[digit] < *k; --digit) {
    *k -= histogram[digit];
    assert(digit > 0);
  }
  return digit;
}

}  // namespace

bool valid_gaps(std::span<const std::byte> in, int64_t count, int64_t n, bool flags) {
  const std::byte* at = in.data();
  const std::byte* const end = at + in.size();
  uint64_t left = static_cast<uint64_t>(n);  // positions that are still free
  for (int64_t i = 0; i < count; ++i) {
    uint64_t gap;
    if (!read_gap(at, end, &gap)) return false;
    if (flags) gap >>= 1;
    if (gap >= left) return false;
    left -= gap + 1;
  }
  return at == end;
}

size_t gaps_bound(int64_t count, int64_t n, bool flags) {
  int64_t bytes = count;
  // Gaps are disjoint, so that no more than n / g of them have g elements or more.
  for (int64_t longer = flags ? 64 : 128; longer <= n; longer = longer > n / 128 ? n + 1 : longer * 128)
    bytes += std::min(count, n / longer);
  return static_cast<size_t>(bytes);
}

double average_gap_bytes(double chance, bool flags) {
  double bytes = 1;
  for (double longer = flags ? 64 : 128; longer < 0x1p63; longer *= 128) bytes += std::exp(-longer * chance);
  return bytes;
}

Selection select_largest(const CodecLoops& loops, const float* v, int64_t n, int64_t k, uint64_t* masks) {
  assert(k >= 1 && k <= n);
  Histogram histogram{};
  for (int64_t i = 0; i < n; ++i) ++histogram[(bits_from_float(v[i]) & 0x7fffffffu) >> kDigits[0].shift];
  uint32_t bits = digit_of(histogram, kDigits[0].values, &k) << kDigits[0].shift;
  for (int place = 1; place < 3; ++place) {
    const int shift = kDigits[place].shift;
    const uint32_t values = kDigits[place].values;
    const uint32_t above = ~0u << kDigits[place - 1].shift;
    histogram.fill(0);
    loops.exceed(v, n, float_from_bits(bits), masks);
    each_set(masks, n, [&](int64_t i) {
      const uint32_t magnitude = bits_from_float(v[i]) & 0x7fffffffu;
      if ((magnitude & above) == bits) ++histogram[(magnitude >> shift) & (values - 1)];
    });
    bits |= digit_of(histogram, values, &k) << shift;
  }
  loops.exceed(v, n, float_from_bits(bits), masks);
  return {float_from_bits(bits), k};
}

}  // namespace perigee
