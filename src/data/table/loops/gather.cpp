// The loops that rows are chosen and ordered by: with full optimisation, unlike the steps.
#include "src/data/table/loops/gather.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "src/data/table/frame.h"
#include "src/data/table/loops/large.h"

namespace perigee::tables {
namespace {

template <class T>
void gather(const std::vector<T>& from, const std::vector<int64_t>& which, T gap, std::vector<T>& to) {
  resize_large(to, which.size());
  for (size_t i = 0; i < which.size(); ++i) to[i] = which[i] < 0 ? gap : from[static_cast<size_t>(which[i])];
}

// Gathers texts, or the items of lists.
template <class T>
void gather_pieces(const Column& from, const T& content, const std::vector<int64_t>& which, std::vector<uint64_t>& ends, T& to) {
  size_t sum = 0;
  resize_large(ends, which.size());
  const auto begin_of = [&](size_t r) { return r == 0 ? uint64_t{0} : from.ends[r - 1]; };
  for (size_t i = 0; i < which.size(); ++i) {
    const auto r = static_cast<size_t>(which[i]);
    if (which[i] >= 0 && !from.is_missing(which[i])) sum += from.ends[r] - begin_of(r);
    ends[i] = sum;
  }
  to.resize(sum);
  size_t at = 0;
  for (size_t i = 0; i < which.size(); ++i) {
    if (ends[i] == at) continue;
    const auto begin = static_cast<ptrdiff_t>(begin_of(static_cast<size_t>(which[i])));
    std::copy_n(content.begin() + begin, ends[i] - at, to.begin() + static_cast<ptrdiff_t>(at));
    at = ends[i];
  }
}

// Bits that are ordered as the numbers are.
uint64_t ordered_bits(const Column& column, size_t row) {
  if (column.type != Type::real) return static_cast<uint64_t>(column.whole[row]) ^ uint64_t { 1 } << 63;
  const auto bits = std::bit_cast<uint64_t>(column.real[row] + 0.0);  // -0 is 0
  return bits >> 63 != 0 ? ~bits : bits | uint64_t{1} << 63;
}

}  // namespace

Column Column::rows(const std::vector<int64_t>& which) const {
  Column out(type);
  if (type == Type::text) gather_pieces(*this, bytes, which, out.ends, out.bytes);
  else if (type == Type::list) gather_pieces(*this, items, which, out.ends, out.items);
  else if (type == Type::real) gather(real, which, std::numeric_limits<double>::quiet_NaN(), out.real);
  else gather(whole, which, int64_t{0}, out.whole);
  const bool gaps = std::any_of(which.begin(), which.end(), [&](int64_t row) { return row < 0 || is_missing(row); });
  if (!gaps) return out;
  if (missing.empty()) {
    out.missing.resize(which.size());
    for (size_t i = 0; i < which.size(); ++i) out.missing[i] = which[i] < 0;
  } else {
    gather(missing, which, uint8_t{1}, out.missing);
  }
  return out;
}

// By the digits of their bits, the lowest first, so that equal ones stay in their order.
std::vector<int64_t> rows_by_number(const Column& column, bool descending, const std::vector<int64_t>& rows) {
  struct Entry {
    uint64_t key;
    int64_t row;
  };
  constexpr unsigned kBits = 11, kDigits = 6;
  std::vector<Entry> entries, other;
  std::vector<int64_t> unknown, gone;  // these come last in either direction: no numbers, then what is missing
  entries.reserve(rows.size());
  for (const int64_t row : rows) {
    if (column.is_missing(row)) gone.push_back(row);
    else if (column.type == Type::real && std::isnan(column.real[static_cast<size_t>(row)])) unknown.push_back(row);
    else entries.push_back({ordered_bits(column, static_cast<size_t>(row)) ^ (descending ? ~uint64_t{0} : 0), row});
  }
  std::vector<std::array<size_t, 1 << kBits>> counts(kDigits);
  for (const Entry& entry : entries)
    for (unsigned d = 0; d < kDigits; ++d) ++counts[d][entry.key >> (kBits * d) & ((1 << kBits) - 1)];
  other.resize(entries.size());
  for (unsigned d = 0; d < kDigits; ++d) {
    auto& count = counts[d];
    if (std::any_of(count.begin(), count.end(), [&](size_t n) { return n == entries.size(); })) continue;  // all have this digit
    size_t sum = 0;
    for (size_t& each : count) sum += std::exchange(each, sum);
    for (const Entry& entry : entries) other[count[entry.key >> (kBits * d) & ((1 << kBits) - 1)]++] = entry;
    entries.swap(other);
  }
  std::vector<int64_t> sorted;
  sorted.reserve(rows.size());
  for (const Entry& entry : entries) sorted.push_back(entry.row);
  sorted.insert(sorted.end(), unknown.begin(), unknown.end());
  sorted.insert(sorted.end(), gone.begin(), gone.end());
  return sorted;
}

void scale_and_move(double subtract, double divide, std::vector<double>& values) {
  for (double& value : values) value = (value - subtract) / divide;
}

void scale_and_move(const Column& column, double subtract, double divide, std::vector<double>& out) {
  const auto n = static_cast<size_t>(column.size());
  resize_large(out, n);
  if (column.type == Type::real)
    for (size_t r = 0; r < n; ++r) out[r] = (column.real[r] - subtract) / divide;
  else
    for (size_t r = 0; r < n; ++r) out[r] = (static_cast<double>(column.whole[r]) - subtract) / divide;
  for (size_t r = 0; r < column.missing.size(); ++r)
    if (column.missing[r] != 0) out[r] = std::numeric_limits<double>::quiet_NaN();
}

}  // namespace perigee::tables
