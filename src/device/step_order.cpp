#include "src/device/step_order.h"

#include <algorithm>
#include <cassert>

namespace perigee {
namespace {

bool overlap(const std::vector<MemoryRange>& a, const std::vector<MemoryRange>& b) {
  for (const MemoryRange& x : a)
    for (const MemoryRange& y : b)
      if (x.begin < y.end && y.begin < x.end) return true;
  return false;
}

// Steps as bits of words.
class StepSet {
 public:
  explicit StepSet(size_t n) : words_((n + 63) / 64) {}
  bool has(size_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  void add(size_t i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
  void add(const StepSet& other) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
  }

 private:
  std::vector<uint64_t> words_;
};

// Pairs that follow each other for their memory's sake alone, those left out that other pairs imply.
int count_reuse(std::span<const StepAccess> steps) {
  std::vector<StepSet> results(steps.size(), StepSet(steps.size())), all = results;  // by step: the steps before it
  int count = 0;
  for (size_t i = 0; i < steps.size(); ++i)
    for (size_t before = i; before-- > 0;) {  // the nearest first: it implies what lies before itself
      if (overlap(steps[before].writes, steps[i].reads) && !results[i].has(before)) results[i].add(before), results[i].add(results[before]);
      if (all[i].has(before) || !must_follow(steps[before], steps[i])) continue;
      all[i].add(before), all[i].add(all[before]);
      count += !results[i].has(before);
    }
  return count;
}

// Where each branch stands while steps are given their places, one after the other.
struct Branch {
  int last = -1;            // its last step
  double free_at = 0;       // when that is done
  std::vector<int> passed;  // by branch: the last step there that is done by then
};

}  // namespace

MemoryRange range_of(const View& view) {
  if (!view.data) return {};
  int64_t first = 0, last = 0;
  for (int d = 0; d < view.rank; ++d) {
    if (view.dims[d] == 0) return {};
    (view.strides[d] < 0 ? first : last) += (view.dims[d] - 1) * view.strides[d];
  }
  const auto* const data = static_cast<const std::byte*>(view.data);
  const auto bytes = static_cast<int64_t>(dtype_bytes(view.dtype));
  return {data + first * bytes, data + (last + 1) * bytes};
}

bool must_follow(const StepAccess& earlier, const StepAccess& later) {
  return overlap(earlier.writes, later.reads) || overlap(earlier.writes, later.writes) || overlap(earlier.reads, later.writes);
}

StepOrder order_steps(std::span<const StepAccess> steps, int most_branches) {
  assert(most_branches >= 1);
  const bool apart = std::any_of(steps.begin(), steps.end(), [](const StepAccess& step) { return step.apart; });
  const auto most = static_cast<size_t>(most_branches), width = most + apart;
  StepOrder order;
  std::vector<Branch> branches(width, Branch{.passed = std::vector<int>(width, -1)});
  std::vector<std::vector<int>> passed;  // by step, by branch: the last step there that is done when this one is
  std::vector<double> done;
  for (size_t i = 0; i < steps.size(); ++i) {
    std::vector<int> wanted(width, -1);  // by branch: the last step there that this one must follow
    double ready = 0;
    for (size_t before = 0; before < i; ++before) {
      if (!must_follow(steps[before], steps[i])) continue;
      wanted[static_cast<size_t>(order.places[before].branch)] = static_cast<int>(before);
      ready = std::max(ready, done[before]);
    }
    // Where it can begin first; of equals the branch whose last step it follows anyway, then the lowest.
    const auto better = [&](size_t a, size_t b) {
      const double at_a = std::max(ready, branches[a].free_at), at_b = std::max(ready, branches[b].free_at);
      if (at_a != at_b) return at_a < at_b;
      const bool follows_a = branches[a].last >= 0 && wanted[a] == branches[a].last;
      const bool follows_b = branches[b].last >= 0 && wanted[b] == branches[b].last;
      return follows_a && !follows_b;
    };
    size_t chosen = steps[i].apart ? most : 0;
    for (size_t b = 1; b < most && !steps[i].apart; ++b)
      if (better(b, chosen)) chosen = b;
    Branch& branch = branches[chosen];
    StepPlace place{.branch = static_cast<int>(chosen)};
    // Steps with higher numbers first: what they had to wait for themselves is waited for with them.
    std::vector<size_t> others(width);
    for (size_t b = 0; b < width; ++b) others[b] = b;
    std::sort(others.begin(), others.end(), [&](size_t a, size_t b) { return wanted[a] > wanted[b]; });
    for (const size_t b : others) {
      if (b == chosen || wanted[b] <= branch.passed[b]) continue;
      place.waits.push_back(wanted[b]);
      const std::vector<int>& implied = passed[static_cast<size_t>(wanted[b])];
      for (size_t k = 0; k < width; ++k) branch.passed[k] = std::max(branch.passed[k], implied[k]);
    }
    branch.last = branch.passed[chosen] = static_cast<int>(i);
    branch.free_at = std::max(ready, branch.free_at) + steps[i].cost;
    done.push_back(branch.free_at);
    passed.push_back(branch.passed);
    order.branches = std::max(order.branches, place.branch + 1);
    order.places.push_back(std::move(place));
  }
  order.edges_of_reuse = count_reuse(steps);
  return order;
}

}  // namespace perigee
