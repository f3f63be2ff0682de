// The last three sums of every exchange say what it sums, so that all who hold the result agree on how to read it.
#pragma once

#include <array>
#include <cassert>
#include <span>

#include "cluster/replica/replica.h"
#include "kernels/convert.h"

namespace perigee {

inline constexpr int64_t kExchangeTail = 3;  // elements

struct ExchangeTail {
  int64_t examples = 0;  // exact up to 2^36: a float32 alone would stop counting at 2^24
  int64_t contributions = 0;
};

namespace exchange_tail {
inline constexpr int64_t kDigit = 4096;  // the sums of kMaxWorkers digits stay below 2^24
static_assert(kDigit * static_cast<int64_t>(kMaxWorkers) <= int64_t{1} << 24);
inline size_t offset(const ExchangeLayout& layout, int64_t before) {
  return layout.sum_bytes() - static_cast<size_t>(kExchangeTail * (before + 1)) * layout.width();
}
}  // namespace exchange_tail

inline std::array<double, kExchangeTail> exchange_tail_sums(const ExchangeTail& tail) {
  using namespace exchange_tail;
  assert(tail.examples >= 0 && tail.examples < kDigit * kDigit);
  return {static_cast<double>(tail.examples / kDigit), static_cast<double>(tail.examples % kDigit),
          static_cast<double>(tail.contributions)};
}

// `row` is one block of layout.bytes(). Before the last tail there may be others, of parts of the row: `before` counts back to them.
inline void write_exchange_tail(const ExchangeTail& tail, const ExchangeLayout& layout, std::span<std::byte> row, int64_t before = 0) {
  assert(layout.sums >= kExchangeTail && row.size() >= layout.bytes());
  const auto values = exchange_tail_sums(tail);
  convert(Dtype::f64, values.data(), layout.dtype, row.data() + exchange_tail::offset(layout, before), kExchangeTail);
}

inline ExchangeTail read_exchange_tail(const ExchangeLayout& layout, std::span<const std::byte> row, int64_t before = 0) {
  using namespace exchange_tail;
  assert(layout.sums >= kExchangeTail && row.size() >= layout.bytes());
  double values[kExchangeTail];
  convert(layout.dtype, row.data() + offset(layout, before), Dtype::f64, values, kExchangeTail);
  const auto whole = [](double value) { return value >= 0 && value <= 0x1p24 ? static_cast<int64_t>(value) : 0; };
  return {whole(values[0]) * kDigit + whole(values[1]), whole(values[2])};
}

}  // namespace perigee
