#include "src/data/table/loops/groups.h"

#include <algorithm>

#include "src/data/table/loops/large.h"

namespace perigee::tables {

bool small_range(const Column& column, int64_t& least, int64_t& most) {
  const bool whole =
      column.type == Type::integer || column.type == Type::boolean || column.type == Type::category || column.type == Type::time;
  if (!whole || column.whole.empty() || std::any_of(column.missing.begin(), column.missing.end(), [](uint8_t m) { return m != 0; }))
    return false;
  least = most = column.whole[0];
  for (const int64_t value : column.whole) least = std::min(least, value), most = std::max(most, value);
  return static_cast<uint64_t>(most) - static_cast<uint64_t>(least) <= std::max<uint64_t>(65536, 2 * column.whole.size());
}

void groups_of_range(const Column& column, int64_t least, int64_t most, std::vector<int64_t>& groups, std::vector<int64_t>& first) {
  std::vector<int32_t> numbers(static_cast<size_t>(most - least) + 1, -1);
  const size_t n = column.whole.size();
  resize_large(groups, n);
  first.clear();
  for (size_t r = 0; r < n; ++r) {
    int32_t& number = numbers[static_cast<size_t>(column.whole[r] - least)];
    if (number < 0) {
      number = static_cast<int32_t>(first.size());
      first.push_back(static_cast<int64_t>(r));
    }
    groups[r] = number;
  }
}

void count_groups(const std::vector<int64_t>& groups, std::vector<int64_t>& counts) {
  for (const int64_t group : groups) ++counts[static_cast<size_t>(group)];
}

void look_up(const Column& column, int64_t least, const std::vector<int64_t>& table, std::vector<int64_t>& out) {
  const size_t n = column.whole.size();
  resize_large(out, n);
  for (size_t r = 0; r < n; ++r) {
    const uint64_t at = static_cast<uint64_t>(column.whole[r]) - static_cast<uint64_t>(least);
    out[r] = at < table.size() ? table[at] : -1;
  }
}

namespace {

template <class T>
void add_sums_of(const T* values, const std::vector<uint8_t>& missing, const std::vector<int64_t>& groups, GroupMoments& out) {
  const size_t n = groups.size();
  const bool gaps = !missing.empty();
  for (size_t r = 0; r < n; ++r) {
    if (gaps && missing[r] != 0) continue;
    const auto g = static_cast<size_t>(groups[r]);
    ++out.count[g];
    out.mean[g] += static_cast<double>(values[r]);
  }
}

template <class T>
void add_distances_of(const T* values, const std::vector<uint8_t>& missing, const std::vector<int64_t>& groups, GroupMoments& out,
                      std::vector<double>& rest) {
  const size_t n = groups.size();
  const bool gaps = !missing.empty();
  for (size_t r = 0; r < n; ++r) {
    if (gaps && missing[r] != 0) continue;
    const auto g = static_cast<size_t>(groups[r]);
    const double distance = static_cast<double>(values[r]) - out.mean[g];
    out.squares[g] += distance * distance;
    rest[g] += distance;
  }
}

}  // namespace

void add_sums(const Column& column, const std::vector<int64_t>& groups, size_t count, GroupMoments& out) {
  out.count.resize(std::max(count, out.count.size()));
  out.mean.resize(out.count.size());
  if (column.type == Type::real) add_sums_of(column.real.data(), column.missing, groups, out);
  else add_sums_of(column.whole.data(), column.missing, groups, out);
}

void means_of_sums(size_t count, GroupMoments& out) {
  out.count.resize(std::max(count, out.count.size()));
  out.mean.resize(out.count.size());
  for (size_t g = 0; g < out.mean.size(); ++g) out.mean[g] /= static_cast<double>(std::max<int64_t>(out.count[g], 1));
}

void add_distances(const Column& column, const std::vector<int64_t>& groups, GroupMoments& out, std::vector<double>& rest) {
  if (column.type == Type::real) add_distances_of(column.real.data(), column.missing, groups, out, rest);
  else add_distances_of(column.whole.data(), column.missing, groups, out, rest);
}

// Chan, Golub, LeVeque: Algorithms for Computing the Sample Variance, 1983.
void correct_squares(GroupMoments& out, const std::vector<double>& rest) {
  for (size_t g = 0; g < rest.size(); ++g)
    if (out.count[g] > 0) out.squares[g] = std::max(0.0, out.squares[g] - rest[g] * rest[g] / static_cast<double>(out.count[g]));
}

}  // namespace perigee::tables
