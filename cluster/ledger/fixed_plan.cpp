#include "cluster/ledger/fixed_plan.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "cluster/planted.h"

namespace perigee {
namespace {

int64_t rounds_for(int64_t examples, int64_t global) {
  if (planted(Bug::plan_drops_tail) && examples > global) return examples / global;
  return (examples + global - 1) / global;
}

// The contiguous piece [begin, begin + count) of an epoch, cut into leaves that differ by at most one example.
std::vector<Range> cut(uint64_t epoch, int64_t begin, int64_t count, int leaves) {
  std::vector<Range> ranges(static_cast<size_t>(leaves));
  for (int64_t i = 0; i < leaves; ++i) {
    const int64_t first = count * i / leaves, last = count * (i + 1) / leaves;
    ranges[static_cast<size_t>(i)] = {epoch, begin + first, last - first};
  }
  return ranges;
}

}  // namespace

FixedPlan::Round FixedPlan::at(int64_t round) const {
  assert(global > 0 && leaves > 0 && examples_per_epoch > 0 && position >= 0 && position <= examples_per_epoch);
  assert(round >= first_round);
  const int64_t size = examples_per_epoch;
  // The rest of the main list: positions [start, end), counted on through the epochs.
  const int64_t start = static_cast<int64_t>(epoch) * size + position;
  const int64_t end = planned > 0 ? planned : std::numeric_limits<int64_t>::max();
  int64_t ahead = round - first_round;  // rounds before this one
  int64_t before = committed;
  const auto make = [&](uint64_t in_epoch, int64_t begin, int64_t count, bool ends_epoch, bool last) {
    return Round{.ranges = cut(in_epoch, begin, count, leaves),
                 .examples = count,
                 .examples_before = before,
                 .ends_epoch = ends_epoch,
                 .last = last};
  };

  // A round takes from one leftover only, so that a leaf is one range.
  for (size_t i = 0; i < leftovers.size(); ++i) {
    const Range& range = leftovers[i];
    const int64_t rounds = rounds_for(range.count, global);
    if (ahead >= rounds) {
      ahead -= rounds, before += range.count;
      continue;
    }
    const int64_t done = ahead * global, count = std::min(global, range.count - done);
    before += done;
    const bool finishes_range = done + count == range.count;
    bool epoch_goes_on = start < end && static_cast<uint64_t>(start / size) == range.epoch, more = start < end;
    for (size_t later = i + 1; later < leftovers.size(); ++later)
      if (leftovers[later].count > 0) more = true, epoch_goes_on |= leftovers[later].epoch == range.epoch;
    return make(range.epoch, range.begin + done, count, finishes_range && !epoch_goes_on, finishes_range && !more);
  }

  // The rest of the current epoch, then whole epochs of equally many rounds.
  int64_t begin = start;
  const int64_t rest = start % size == 0 ? 0 : size - start % size;
  if (rest > 0) {
    const int64_t rounds = rounds_for(rest, global);
    if (ahead >= rounds) ahead -= rounds, begin += rest, before += rest;
  }
  if (begin % size == 0) {
    const int64_t per_epoch = rounds_for(size, global), epochs = ahead / per_epoch;
    if (epochs > (std::numeric_limits<int64_t>::max() - begin) / size - 1) return {};
    ahead %= per_epoch, begin += epochs * size, before += epochs * size;
  }
  if (begin >= end) return {};
  const int64_t epoch_end = std::min(end, (begin / size + 1) * size), from = begin + ahead * global;
  before += ahead * global;
  if (from >= epoch_end) return {};  // the planned examples end within this epoch
  const int64_t count = std::min(global, epoch_end - from);
  return make(static_cast<uint64_t>(from / size), from % size, count, from + count == epoch_end, from + count == end);
}

std::pair<int, int> leaves_of(int rank, int size, int leaves) {
  assert(size > 0 && rank >= 0 && rank < size && leaves > 0);
  const auto first = [&](int64_t r) { return static_cast<int>((r * leaves + size - 1) / size); };
  return {first(rank), first(rank + 1) + (planted(Bug::leaves_overlap) && rank == 0 && size > 1 && leaves > 1 ? 1 : 0)};
}

namespace {

void collect(int low, int high, int first, int last, std::vector<Partial>& found) {
  if (low >= last || high <= first || low >= high) return;
  if (low >= first && high <= last) return found.push_back({low, high - low});
  const int middle = low + (high - low) / 2;
  collect(low, middle, first, last, found), collect(middle, high, first, last, found);
}

}  // namespace

std::vector<Partial> partials_of(int first, int last, int leaves) {
  assert(first >= 0 && first <= last && last <= leaves);
  std::vector<Partial> found;
  collect(0, leaves, first, last, found);
  if (planted(Bug::partials_drop_last) && found.size() > 1) found.pop_back();
  return found;
}

}  // namespace perigee
