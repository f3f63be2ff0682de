#include "src/data/table/analysis/sketch.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "src/io/digest.h"
#include "src/io/file.h"

namespace perigee::tables {

// --- Quantiles -----------------------------------------------------------------------------------------------------------------

void Quantiles::add(std::span<const double> values) {
  if (levels_.empty()) levels_.emplace_back();
  for (size_t at = 0; at < values.size();) {
    std::vector<double>& lowest = levels_[0].values;
    if (lowest.capacity() == 0) lowest.reserve(kLevel);
    const size_t count = std::min(values.size() - at, kLevel - lowest.size());
    lowest.insert(lowest.end(), values.begin() + static_cast<ptrdiff_t>(at), values.begin() + static_cast<ptrdiff_t>(at + count));
    at += count;
    if (lowest.size() >= kLevel) shrink(0);
  }
}

void Quantiles::shrink(size_t level) {
  if (levels_.size() == level + 1) levels_.emplace_back();
  Level& from = levels_[level];
  std::vector<double>& to = levels_[level + 1].values;
  std::sort(from.values.begin(), from.values.end());
  const size_t even = from.values.size() / 2 * 2;
  for (size_t i = from.odd; i < even; i += 2) to.push_back(from.values[i]);
  from.odd = !from.odd;
  from.values.erase(from.values.begin(), from.values.begin() + static_cast<ptrdiff_t>(even));
  if (to.size() >= kLevel) shrink(level + 1);
}

void Quantiles::merge(const Quantiles& other) {
  for (size_t level = 0; level < other.levels_.size(); ++level) {
    if (levels_.size() <= level) levels_.resize(level + 1);
    std::vector<double>& to = levels_[level].values;
    to.insert(to.end(), other.levels_[level].values.begin(), other.levels_[level].values.end());
    if (to.size() >= kLevel) shrink(level);
  }
}

double Quantiles::at(double share) const {
  std::vector<std::pair<double, double>> weighted;
  double all = 0, below = 0;
  for (size_t level = 0; level < levels_.size(); ++level)
    for (const double value : levels_[level].values)
      weighted.emplace_back(value, std::ldexp(1.0, static_cast<int>(level))), all += weighted.back().second;
  if (weighted.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(weighted.begin(), weighted.end());
  for (const auto& [value, weight] : weighted)
    if ((below += weight) >= share * all) return value;
  return weighted.back().first;
}

// --- Histogram -----------------------------------------------------------------------------------------------------------------

bool Histogram::fits(double low, double high) const {
  if (std::max(std::abs(std::ldexp(low, -exponent_)), std::abs(std::ldexp(high, -exponent_))) > 4e15) return false;
  const int64_t first = counts_.empty() ? bin(low) : std::min(bin(low), counts_.begin()->first);
  const int64_t last = counts_.empty() ? bin(high) : std::max(bin(high), counts_.rbegin()->first);
  return last - first < kBins;
}

void Histogram::widen() {
  std::map<int64_t, int64_t> wider;
  for (const auto& [number, count] : counts_) wider[number >> 1] += count;  // rounds down
  counts_ = std::move(wider);
  ++exponent_;
}

void Histogram::add(std::span<const double> values) {
  if (values.empty()) return;
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const double x : values) low = std::min(low, x), high = std::max(high, x);
  if (counts_.empty())
    exponent_ = high > low ? std::max(std::ilogb(high - low) - 7, -1000) : std::max(std::ilogb(std::max(std::abs(low), 1e-300)) - 5, -1000);
  while (!fits(low, high)) widen();
  std::array<int64_t, kBins> counts = {};
  const double scale = std::ldexp(1.0, -exponent_), base = static_cast<double>(bin(low));
  for (const double x : values) ++counts[static_cast<size_t>(std::floor(x * scale) - base)];
  for (int64_t i = 0; i < kBins; ++i)
    if (counts[static_cast<size_t>(i)] != 0) counts_[static_cast<int64_t>(base) + i] += counts[static_cast<size_t>(i)];
}

void Histogram::merge(const Histogram& other) {
  if (other.counts_.empty()) return;
  if (counts_.empty()) {
    *this = other;
    return;
  }
  Histogram wide = other;
  while (exponent_ < wide.exponent_) widen();
  const auto left = [&] { return std::ldexp(static_cast<double>(wide.counts_.begin()->first), wide.exponent_); };
  const auto right = [&] { return std::ldexp(static_cast<double>(wide.counts_.rbegin()->first), wide.exponent_); };
  while (!fits(left(), right())) widen();
  while (wide.exponent_ < exponent_) wide.widen();
  for (const auto& [number, count] : wide.counts_) counts_[number] += count;
}

std::vector<Histogram::Bin> Histogram::bins() const {
  std::vector<Bin> list;
  if (counts_.empty()) return list;
  for (int64_t i = counts_.begin()->first; i <= counts_.rbegin()->first; ++i) {
    const auto found = counts_.find(i);
    list.push_back({std::ldexp(static_cast<double>(i), exponent_), std::ldexp(static_cast<double>(i + 1), exponent_),
                    found == counts_.end() ? 0 : found->second});
  }
  return list;
}

// --- Different values ----------------------------------------------------------------------------------------------------------

void Distinct::merge(const Distinct& other) {
  for (size_t i = 0; i < registers_.size(); ++i) registers_[i] = std::max(registers_[i], other.registers_[i]);
}

double Distinct::estimate() const {
  constexpr double m = 1 << 14;
  double sum = 0;
  int64_t empty = 0;
  for (const uint8_t rank : registers_) sum += std::ldexp(1.0, -rank), empty += rank == 0;
  const double raw = 0.7213 / (1 + 1.079 / m) * m * m / sum;
  return raw <= 2.5 * m && empty > 0 ? m * std::log(m / static_cast<double>(empty)) : raw;
}

size_t Frequent::Hash::operator()(std::string_view text) const { return xxh3_64(as_bytes(text)); }

void Frequent::add(std::string_view text) {
  const auto found = counts_.find(text);
  if (found != counts_.end()) {
    ++found->second;
    return;
  }
  counts_.emplace(text.substr(0, 200), 1);
  if (counts_.size() > 2 * kMost) shrink();
}

// The counts of all fall by that of the first which goes.
void Frequent::shrink() {
  if (counts_.size() <= kMost) return;
  std::vector<int64_t> counts;
  for (const auto& [text, count] : counts_) counts.push_back(count);
  std::nth_element(counts.begin(), counts.begin() + kMost, counts.end(), std::greater<>());
  const int64_t cut = counts[kMost];
  cut_ += cut;
  for (auto at = counts_.begin(); at != counts_.end();) {
    at->second -= cut;
    at = at->second <= 0 ? counts_.erase(at) : std::next(at);
  }
}

void Frequent::merge(const Frequent& other) {
  for (const auto& [text, count] : other.counts_) counts_[text] += count;
  cut_ += other.cut_;
  if (counts_.size() > 2 * kMost) shrink();
}

std::vector<std::pair<std::string, int64_t>> Frequent::top(size_t most) const {
  std::vector<std::pair<std::string, int64_t>> list(counts_.begin(), counts_.end());
  std::sort(list.begin(), list.end(),
            [](const auto& a, const auto& b) { return a.second != b.second ? a.second > b.second : a.first < b.first; });
  list.resize(std::min(list.size(), most));
  return list;
}

// --- Moments -------------------------------------------------------------------------------------------------------------------

void Moments::add(std::span<const double> values) {
  if (values.empty()) return;
  Moments part{.count = static_cast<int64_t>(values.size())};
  double sum = 0;
  for (const double x : values) sum += x, part.min = std::min(part.min, x), part.max = std::max(part.max, x);
  part.mean = sum / static_cast<double>(values.size());
  for (const double x : values) {
    const double d = x - part.mean;
    part.m2 += d * d;
    part.m3 += d * d * d;
  }
  merge(part);
}

void Moments::merge(const Moments& other) {
  if (other.count == 0) return;
  if (count == 0) {
    *this = other;
    return;
  }
  const auto a = static_cast<double>(count), b = static_cast<double>(other.count), n = a + b, d = other.mean - mean;
  m3 += other.m3 + d * d * d * a * b * (a - b) / (n * n) + 3 * d * (a * other.m2 - b * m2) / n;
  m2 += other.m2 + d * d * a * b / n;
  mean += d * b / n;
  count += other.count;
  min = std::min(min, other.min);
  max = std::max(max, other.max);
}

double Moments::skewness() const {
  const auto n = static_cast<double>(count);
  return m2 > 0 ? std::sqrt(n) * m3 / std::pow(m2, 1.5) : 0;
}

}  // namespace perigee::tables
