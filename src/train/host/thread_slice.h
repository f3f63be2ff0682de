// One thread's part of a step: its slice of the batch, plans bound to memory of its own, and a gradient block of the
// parameters' layout, which meets those of the other threads in a fixed tree.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "src/model/plans/plan_set.h"

#include "src/tensor/bytes.h"

namespace perigee {

// Elements that are summed over the threads and then updated while they are in a near cache.
inline constexpr int64_t kUpdateChunk = 4096;

template <class Use>
void for_each_chunk(Optimizer::Range range, Use use) {
  for (int64_t at = range.begin; at < range.end; at += kUpdateChunk) use(Optimizer::Range{at, std::min(range.end, at + kUpdateChunk)});
}

// A plan with the places of what goes in and comes out, so that no name is looked up in a step.
struct BoundPlan {
  PlanRun* run = nullptr;
  std::vector<int> inputs;  // of fields_of(); -1: the plan does not read it
  int loss = -1, output = -1, seed = -1;
  std::vector<int> factors = {};  // inputs, by TrainingSetup::factors
  std::vector<size_t> marks;      // by bucket but the last: the plan's steps that must have run
  uint64_t packed = 0;            // the pass of the slice for which its weights were packed
};

struct ThreadSlice {
  Storage gradient;
  Storage sums;  // of chunks of gradients: two for each level of the tree in which threads' gradients meet
  std::unique_ptr<PlanMemory> memory;
  // The slice of the current batch, and the plans for its full sub-batches and for what is left: one, or one for each of the steps that
  // examples are cut to.
  int64_t begin = 0, end = 0, full_size = 0;
  std::vector<BoundPlan> full, rest;
  PlanRun* last = nullptr;  // ran last
  uint64_t pass = 0;        // number of times that the slice was computed
  double loss_sum = 0;
  int64_t correct = 0;
  size_t gathered = 0;  // buckets of this gradient

  ThreadSlice(const Params& params, size_t threads)
      : gradient(params.block_bytes()), sums(2 * static_cast<size_t>(std::bit_width(threads - 1)) * kUpdateChunk * params.width()) {
    std::memset(gradient.data(), 0, gradient.bytes());
  }
};

}  // namespace perigee
