#include "cluster/ledger/ranges.h"

#include <algorithm>
#include <tuple>

namespace perigee {

std::vector<Range> joined(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return std::tie(a.epoch, a.begin) < std::tie(b.epoch, b.begin); });
  std::vector<Range> out;
  for (const Range& r : ranges) {
    if (r.count == 0) continue;
    if (!out.empty() && out.back().epoch == r.epoch && out.back().begin + out.back().count == r.begin) out.back().count += r.count;
    else out.push_back(r);
  }
  return out;
}

bool overlaps(const Range& a, const Range& b) { return a.epoch == b.epoch && a.begin < b.begin + b.count && b.begin < a.begin + a.count; }

std::vector<Range> without(const std::vector<Range>& a, const std::vector<Range>& b) {
  std::vector<Range> left = a;
  for (const Range& cut : b) {
    std::vector<Range> next;
    for (const Range& r : left) {
      if (!overlaps(r, cut)) {
        next.push_back(r);
        continue;
      }
      if (r.begin < cut.begin) next.push_back({r.epoch, r.begin, cut.begin - r.begin});
      const int64_t end = r.begin + r.count, cut_end = cut.begin + cut.count;
      if (cut_end < end) next.push_back({r.epoch, cut_end, end - cut_end});
    }
    left = std::move(next);
  }
  return left;
}

bool disjoint(const std::vector<Range>& ranges) {
  std::vector<Range> sorted = ranges;
  std::sort(sorted.begin(), sorted.end(),
            [](const Range& a, const Range& b) { return std::tie(a.epoch, a.begin) < std::tie(b.epoch, b.begin); });
  for (size_t i = 1; i < sorted.size(); ++i)
    if (overlaps(sorted[i - 1], sorted[i])) return false;
  return true;
}

int64_t examples_of(const std::vector<Range>& ranges) {
  int64_t sum = 0;
  for (const Range& r : ranges) sum += r.count;
  return sum;
}

}  // namespace perigee
