// Summaries of many values in little memory, made of parts: quantiles, a histogram, how many different values there are. A part's summary
// depends on its values and their order alone, and so does a merge of parts in their order: the same bits for any number of threads.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace perigee::tables {

// Karnin, Lang, Liberty: Optimal Quantile Approximation in Streams, 2016, without chance: of a sorted level each second value stays, the
// even and the odd ones in turn. Ranks are off by far less than 0.5 %.
class Quantiles {
 public:
  void add(std::span<const double> values);
  void merge(const Quantiles& other);
  double at(double share) const;  // NaN of no values

 private:
  static constexpr size_t kLevel = 2048;
  void shrink(size_t level);
  struct Level {
    std::vector<double> values;
    bool odd = false;
  };
  std::vector<Level> levels_;
};

// Counts of values by ranges of one width, a power of two, which doubles when values come that lie outside: exact, whatever the order.
class Histogram {
 public:
  void add(std::span<const double> values);
  void merge(const Histogram& other);
  struct Bin {
    double from, to;
    int64_t count;
  };
  std::vector<Bin> bins() const;  // 1 to kBins, from the first that has values to the last

 private:
  static constexpr int64_t kBins = 64;
  bool fits(double low, double high) const;  // beside what is there: few enough bins, and numbers of bins are exact
  void widen();
  int64_t bin(double x) const { return static_cast<int64_t>(std::floor(std::ldexp(x, -exponent_))); }
  int exponent_ = 0;                   // of the width
  std::map<int64_t, int64_t> counts_;  // bin i is from i to i + 1 widths
};

// Flajolet, Fusy, Gandouet, Meunier: HyperLogLog, 2007, of 2^14 registers and 64-bit hashes: off by 0.8 %.
class Distinct {
 public:
  void add(uint64_t hash) {
    uint8_t& kept = registers_[hash >> 50];
    const auto rank = static_cast<uint8_t>(std::countl_zero(hash << 14 | 1 << 13) + 1);
    if (rank > kept) kept = rank;
  }
  void merge(const Distinct& other);
  double estimate() const;

 private:
  std::array<uint8_t, 1 << 14> registers_ = {};
};

// Misra, Gries: Finding Repeated Elements, 1982. Exact until there are more than kMost different texts; then a text that makes up more
// than 1 / kMost of all is among those kept, its count too low by that share at most.
class Frequent {
 public:
  void add(std::string_view text);
  void merge(const Frequent& other);
  bool exact() const { return cut_ == 0; }
  std::vector<std::pair<std::string, int64_t>> top(size_t most) const;  // by count, then by text

 private:
  static constexpr size_t kMost = 1000;
  void shrink();
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const;
  };
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> counts_;
  int64_t cut_ = 0;
};

// Count, mean and sums of powers of deviations, by blocks (Chan et al. 1979, Pebay 2008).
struct Moments {
  int64_t count = 0;
  double mean = 0, m2 = 0, m3 = 0, min = HUGE_VAL, max = -HUGE_VAL;
  void add(std::span<const double> values);
  void merge(const Moments& other);
  double variance() const { return count > 1 ? m2 / static_cast<double>(count - 1) : 0; }
  double skewness() const;
};

}  // namespace perigee::tables
