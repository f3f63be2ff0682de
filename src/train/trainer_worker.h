// What the files that implement Trainer share. Internal to trainer*.cpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "src/train/trainer.h"

#include "src/tensor/bytes.h"

namespace perigee {

// Elements that are summed over the threads and then updated while they are in a near cache.
inline constexpr int64_t kUpdateChunk = 4096;

template <class Use>
void for_each_chunk(Optimizer::Range range, Use use) {
  for (int64_t at = range.begin; at < range.end; at += kUpdateChunk) use(Optimizer::Range{at, std::min(range.end, at + kUpdateChunk)});
}

// Several GPUs add up a gradient in parts of so many bytes: large enough for links between GPUs, small enough to begin early.
inline constexpr size_t kGroupBucket = size_t{16} << 20;
// The parameter block in parts of about so many bytes, whole windows each, in the order in which backward finishes them.
std::vector<Optimizer::Range> cut_block(const Params& params, size_t bytes);

// A plan with the places of what goes in and comes out, so that no name is looked up in a step.
struct Trainer::BoundPlan {
  PlanRun* run = nullptr;
  std::vector<int> inputs;  // by model input, then the targets; -1: the plan does not read it
  int loss = -1, output = -1, seed = -1;
  std::vector<size_t> marks;  // by bucket but the last: the plan's steps that must have run
};

// What one thread owns: a gradient block of the parameters' layout and its plans' memory.
struct Trainer::Worker {
  Storage gradient;
  Storage sums;  // of chunks of gradients: two for each level of the tree in which threads' gradients meet
  std::unique_ptr<PlanMemory> memory;
  // The slice of the current batch, and the plans for its full sub-batches and for what is left.
  int64_t begin = 0, end = 0, full_size = 0;
  BoundPlan full, rest;
  double loss_sum = 0;
  int64_t correct = 0;
  size_t gathered = 0;  // buckets of this gradient

  Worker(const Params& params, size_t threads)
      : gradient(params.block_bytes()), sums(2 * static_cast<size_t>(std::bit_width(threads - 1)) * kUpdateChunk * params.width()) {
    std::memset(gradient.data(), 0, gradient.bytes());
  }
};

}  // namespace perigee
