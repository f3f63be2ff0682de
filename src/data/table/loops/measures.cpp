#include "src/data/table/loops/measures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "src/data/table/loops/block.h"

namespace perigee::tables {
namespace {

// Row by row for the first ones; then for a block of rows at once, first, second, ... values of each.
template <class T>
void add_windows(const T* values, size_t count, size_t window, double* out) {
  for (size_t r = 0; r < std::min(window - 1, count); ++r) {
    double sum = 0;
    for (size_t i = 0; i <= r; ++i) sum += static_cast<double>(values[i]);
    out[r] = sum;
  }
  for (size_t begin = window - 1; begin < count; begin += kBlockRows) {
    const size_t rows = std::min(kBlockRows, count - begin);
    double* sums = out + begin;
    std::fill(sums, sums + rows, 0.0);
    for (size_t i = 0; i < window; ++i) {
      const T* from = values + (begin - (window - 1) + i);
      for (size_t r = 0; r < rows; ++r) sums[r] += static_cast<double>(from[r]);
    }
  }
}

}  // namespace

void moving_sums(const Column& column, int64_t begin, int64_t end, int64_t window, double* out) {
  const auto first = static_cast<size_t>(begin), count = static_cast<size_t>(end - begin);
  if (column.type == Type::real) add_windows(column.real.data() + first, count, static_cast<size_t>(window), out);
  else add_windows(column.whole.data() + first, count, static_cast<size_t>(window), out);
}

namespace {

double lanes_of_sum(const double* values, size_t count) {
  std::array<double, 8> sums{};
  const size_t even = count / sums.size() * sums.size();
  for (size_t i = 0; i < even; i += sums.size())
    for (size_t l = 0; l < sums.size(); ++l) sums[l] += values[i + l];
  double sum = 0;
  for (const double each : sums) sum += each;
  for (size_t i = even; i < count; ++i) sum += values[i];
  return sum;
}

constexpr Measures kNoMeasures{.least = std::numeric_limits<double>::infinity(), .most = -std::numeric_limits<double>::infinity()};

void add_measures(std::span<const double> values, Measures& all) {
  constexpr size_t kLanes = 8;
  std::array<double, kBlockRows> kept;
  for (size_t begin = 0; begin < values.size(); begin += kBlockRows) {
    const size_t end = std::min(values.size(), begin + kBlockRows);
    const double* from = values.data() + begin;
    size_t n = end - begin;
    double sum = lanes_of_sum(from, n);
    if (!std::isfinite(sum)) {
      // Where one is not finite the others stand side by side: sums then need no condition.
      size_t finite = 0;
      for (size_t i = 0; i < n; ++i) {
        kept[finite] = from[i];
        finite += std::abs(from[i]) <= std::numeric_limits<double>::max();
      }
      from = kept.data();
      n = finite;
      sum = lanes_of_sum(from, n);
    }
    if (n == 0) continue;
    const auto count = static_cast<double>(n);
    const double mean = sum / count;
    std::array<double, kLanes> low, high, squares{};
    low.fill(from[0]);
    high.fill(from[0]);
    const size_t even = n / kLanes * kLanes;
    for (size_t i = 0; i < even; i += kLanes)
      for (size_t l = 0; l < kLanes; ++l) {
        const double x = from[i + l];
        squares[l] += (x - mean) * (x - mean);
        low[l] = x < low[l] ? x : low[l];
        high[l] = x > high[l] ? x : high[l];
      }
    double square = 0;
    for (size_t l = 0; l < kLanes; ++l)
      square += squares[l], all.least = std::min(all.least, low[l]), all.most = std::max(all.most, high[l]);
    for (size_t i = even; i < n; ++i) {
      square += (from[i] - mean) * (from[i] - mean);
      all.least = std::min(all.least, from[i]), all.most = std::max(all.most, from[i]);
    }
    // Two parts become one (Chan, Golub, LeVeque).
    const auto before = static_cast<double>(all.count);
    const double delta = mean - all.mean;
    all.count += static_cast<int64_t>(n);
    all.mean += delta * (count / (before + count));
    all.squares += square + delta * delta * (before * count / (before + count));
  }
}

}  // namespace

Measures measures_of(std::span<const double> values) {
  Measures all = kNoMeasures;
  add_measures(values, all);
  return all;
}

void MeasuredParts::add(std::span<const double> values) {
  if (!any_) all_ = kNoMeasures, any_ = true;
  if (!rest_.empty()) {
    const size_t more = std::min(values.size(), kBlockRows - rest_.size());
    rest_.insert(rest_.end(), values.begin(), values.begin() + static_cast<ptrdiff_t>(more));
    values = values.subspan(more);
    if (rest_.size() < kBlockRows) return;
    add_measures(rest_, all_);
    rest_.clear();
  }
  const size_t whole = values.size() / kBlockRows * kBlockRows;
  add_measures(values.first(whole), all_);
  rest_.assign(values.begin() + static_cast<ptrdiff_t>(whole), values.end());
}

Measures MeasuredParts::result() {
  if (!any_) all_ = kNoMeasures;
  add_measures(rest_, all_);
  rest_.clear();
  return all_;
}

}  // namespace perigee::tables
