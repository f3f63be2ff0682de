#include <algorithm>
#include <cassert>
#include <limits>

#include "cluster/ledger/ledger.h"
#include "cluster/planted.h"

namespace perigee {

LeasePool::LeasePool(int64_t examples_per_epoch, int64_t planned_examples, ShardedOrder order)
    : size_(examples_per_epoch), planned_(planned_examples), order_(order) {
  assert(size_ > 0 && planned_ >= 0);
}

void LeasePool::insert(Intervals& set, int64_t begin, int64_t end) {
  if (begin >= end) return;
  auto next = set.upper_bound(begin);
  if (next != set.begin()) {
    const auto before = std::prev(next);
    if (before->second >= begin) begin = before->first, end = std::max(end, before->second), next = set.erase(before);
  }
  while (next != set.end() && next->first <= end) end = std::max(end, next->second), next = set.erase(next);
  set.emplace(begin, end);
}

void LeasePool::erase(Intervals& set, int64_t begin, int64_t end) {
  if (begin >= end) return;
  auto next = set.upper_bound(begin);
  if (next != set.begin() && std::prev(next)->second > begin) --next;
  while (next != set.end() && next->first < end) {
    const auto [first, last] = *next;
    next = set.erase(next);
    if (first < begin) set.emplace(first, begin);
    if (last > end) set.emplace(end, last);
  }
}

std::pair<int64_t, int64_t> LeasePool::span_of(const Range& range) const {
  assert(size_ > 0 && range.begin >= 0 && range.count >= 0 && range.begin + range.count <= size_);
  assert(range.epoch < static_cast<uint64_t>(std::numeric_limits<int64_t>::max() / 2 / size_));
  const int64_t begin = static_cast<int64_t>(range.epoch) * size_ + range.begin;
  return {begin, begin + range.count};
}

Range LeasePool::take(int64_t count) {
  assert(count > 0);
  if (size_ == 0) return {};
  const auto within_epoch = [&](int64_t begin, int64_t end) {
    return std::min({end, begin + count, (begin / size_ + (planted(Bug::pool_crosses_border) ? 2 : 1)) * size_});
  };
  if (!open_.empty()) {
    const auto [begin, end] = *open_.begin();
    const int64_t stop = within_epoch(begin, end);
    open_.erase(open_.begin());
    if (stop < end) open_.emplace(stop, end);
    return at(begin, stop - begin);
  }
  const int64_t begin = frontier_;
  frontier_ = within_epoch(begin, planned_ > 0 ? planned_ : std::numeric_limits<int64_t>::max());
  return at(begin, frontier_ - begin);
}

void LeasePool::lease(int64_t begin, int64_t end) {
  if (begin > frontier_ && !planted(Bug::shard_forgets_others)) insert(open_, frontier_, begin);
  frontier_ = std::max(frontier_, end);
  erase(open_, begin, end);
}

// Positions count on through the epochs, the order's do not.
int64_t LeasePool::next_of(int64_t first, int64_t last, int64_t begin, int64_t end) const {
  while (begin < end) {
    const int64_t epoch = begin / size_ * size_, stop = std::min(end, epoch + size_);
    const int64_t found = epoch + order_.next_of(first, last, begin - epoch, stop - epoch);
    if (found < stop) return found;
    begin = stop;
  }
  return end;
}

Range LeasePool::take_of(int64_t first, int64_t last, int64_t count) {
  assert(count > 0);
  if (size_ == 0) return {};
  const int64_t oldest = open_.empty() ? frontier_ : open_.begin()->first;
  const int64_t limit = planned_ > 0 ? std::min(planned_, oldest + size_) : oldest + size_;
  const auto taken = [&](int64_t begin, int64_t end) {
    const int64_t in_epoch = begin % size_;
    end = std::min({end, begin + count, begin - in_epoch + order_.at(in_epoch).end});
    lease(begin, end);
    return at(begin, end - begin);
  };
  for (const auto& [begin, end] : open_)
    if (const int64_t stop = std::min(end, limit), own = next_of(first, last, begin, stop); own < stop) return taken(own, stop);
  if (const int64_t own = next_of(first, last, frontier_, limit); own < limit) return taken(own, limit);
  return {};
}

void LeasePool::put_back(const Range& range) {
  const auto [begin, end] = span_of(range);
  assert(end <= frontier_);
  insert(open_, begin, end - (planted(Bug::pool_loses_position) ? 1 : 0));
  // Examples counted meanwhile are not done again.
  auto done = completed_.upper_bound(begin);
  if (done != completed_.begin()) --done;
  for (; done != completed_.end() && done->first < end; ++done) erase(open_, std::max(begin, done->first), std::min(end, done->second));
  if (!open_.empty() && std::prev(open_.end())->second == frontier_) {
    frontier_ = std::prev(open_.end())->first;
    open_.erase(std::prev(open_.end()));
  }
}

int64_t LeasePool::mark_done(const Range& range) {
  const auto [begin, end] = span_of(range);
  int64_t before = 0;
  auto done = completed_.upper_bound(begin);
  if (done != completed_.begin()) --done;
  for (; done != completed_.end() && done->first < end; ++done)
    before += std::max<int64_t>(0, std::min(end, done->second) - std::max(begin, done->first));
  if (begin > frontier_) insert(open_, frontier_, begin);
  frontier_ = std::max(frontier_, end);
  erase(open_, begin, end);
  insert(completed_, begin, end);
  const int64_t fresh = end - begin - before;
  done_ += fresh;
  assert(fresh >= 0 && (planned_ == 0 || done_ <= planned_));
  return fresh;
}

bool LeasePool::claim(const std::vector<Range>& ranges) {
  const auto free = [&](int64_t begin, int64_t end) {
    if (planned_ > 0 && end > planned_) return false;
    end = std::min(end, frontier_);
    if (begin >= end) return true;
    const auto next = open_.upper_bound(begin);
    return next != open_.begin() && std::prev(next)->second >= end;
  };
  for (const Range& range : ranges)
    if (const auto [begin, end] = span_of(range); !free(begin, end)) return false;
  for (const Range& range : ranges) {
    const auto [begin, end] = span_of(range);
    lease(begin, end);
  }
  return true;
}

bool LeasePool::all_done() const { return planned_ > 0 && done_ >= planned_; }

bool LeasePool::epoch_done(uint64_t epoch) const {
  if (size_ == 0) return false;
  const int64_t begin = static_cast<int64_t>(epoch) * size_;
  const int64_t end = planned_ > 0 ? std::min(planned_, begin + size_) : begin + size_;
  if (begin >= end) return false;
  const auto next = completed_.upper_bound(begin);
  return next != completed_.begin() && std::prev(next)->second >= end;
}

uint64_t LeasePool::first_open_epoch() const {
  if (size_ == 0 || completed_.empty() || completed_.begin()->first > 0) return 0;
  return static_cast<uint64_t>(completed_.begin()->second / size_);
}

std::vector<Range> LeasePool::returned() const {
  std::vector<Range> ranges;
  for (const auto& [first, end] : open_)
    for (int64_t begin = first; begin < end; begin += ranges.back().count)
      ranges.push_back(at(begin, std::min(end, (begin / size_ + 1) * size_) - begin));
  return ranges;
}

}  // namespace perigee
