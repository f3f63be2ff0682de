// Which steps of a plan must follow which, and on how many branches they may run beside one another: a pure function of the memory that
// each step reads and writes. On a device a branch is a stream; a plan captured from several becomes a graph that the device runs as wide
// as it can.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/kernel.h"

namespace perigee {

struct MemoryRange {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;  // one behind the last
  bool operator==(const MemoryRange&) const = default;
};

inline MemoryRange range_of(const void* begin, size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(begin);
  return {first, first + (first ? bytes : 0)};
}
MemoryRange range_of(const View& view);  // from its first byte to its last, gaps between rows included

struct StepAccess {
  std::vector<MemoryRange> reads, writes;
  bool apart = false;  // not on one of the branches but on one more, which all such steps share: sums over several devices
  double cost = 1;     // about how long it runs, in any unit: for the choice of a branch, not for what is right

  void read(const MemoryRange& range) { add(reads, range); }
  void write(const MemoryRange& range) { add(writes, range); }

 private:
  static void add(std::vector<MemoryRange>& to, const MemoryRange& range) {
    if (range.begin != range.end) to.push_back(range);
  }
};

// Whether `later` must wait for `earlier`: it reads what that writes, or writes what that reads or writes.
bool must_follow(const StepAccess& earlier, const StepAccess& later);

struct StepPlace {
  int branch = 0;
  std::vector<int> waits;  // steps of other branches that this one begins after; those before it on its own branch are not named
};

struct StepOrder {
  std::vector<StepPlace> places;  // by step
  int branches = 0;               // one more than the highest that is used; steps apart have number `most_branches`
  // Pairs of steps of which one must follow the other although no result goes from one to the other, through others either: it only uses
  // the memory again.
  int edges_of_reuse = 0;
};

// `steps` in an order that is right for one branch; `most_branches` at least 1. Equal arguments give equal orders.
StepOrder order_steps(std::span<const StepAccess> steps, int most_branches);

}  // namespace perigee
