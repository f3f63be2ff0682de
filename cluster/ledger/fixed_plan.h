// The fixed lease plan: (work list, round, members) -> ranges, a pure function that every node computes alike.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "cluster/replica/replica.h"

namespace perigee {

struct FixedPlan {
  // From StartEpoch and the policy.
  std::vector<Range> leftovers;
  uint64_t epoch = 0;
  int64_t position = 0;
  int64_t examples_per_epoch = 0, planned = 0, committed = 0;  // committed: examples before `first_round`
  int64_t first_round = 0;
  int64_t global = 0;  // examples of a round
  int leaves = 1;

  struct Round {
    std::vector<Range> ranges;  // one per leaf; a leaf may be empty (count 0) at an epoch's end
    int64_t examples = 0, examples_before = 0;
    bool ends_epoch = false;  // an epoch is complete with it
    bool last = false;
  };
  // O(1) for rounds beyond the leftovers. examples 0: there is no such round.
  Round at(int64_t round) const;
};

// The leaves of rank `rank` of `size`: [first, second).
std::pair<int, int> leaves_of(int rank, int size, int leaves);
// The maximal subtrees of the fixed summation tree over `leaves` (a node splits at half, rounded down) that lie within [first, last).
std::vector<Partial> partials_of(int first, int last, int leaves);

}  // namespace perigee
