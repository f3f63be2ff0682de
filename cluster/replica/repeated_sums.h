// Rounds of each step that add up several rows, one after the other, because what the next one holds follows from the sum before it: the points
// of a line search, the objectives of a job. How many there are the sums decide, and so alike on every worker.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "cluster/replica/replica.h"
#include "src/train/trainer.h"

namespace perigee {

// The sum of the workers' rows.
struct MergedSum {
  std::byte* gradient = nullptr;  // of the parameters' layout and type; may be changed
  double loss = 0;                // its sum; NaN: of some example it is not finite
  double weight = 0;              // that both are divided by
  bool mixed = false;             // for some workers it was the round's first sum, others were ahead of it: it is of no use
};

class RepeatedSums {
 public:
  virtual ~RepeatedSums() = default;

  virtual int most() const = 0;                     // rows of one round
  virtual void begin(const TrainOrder& order) = 0;  // a round, from the last result, which the trainer holds
  virtual bool begins() const = 0;                  // what is to be computed is a round's first sum. Others may be ahead of it
  virtual bool must_be_finite() const = 0;          // else the others are told of a value that is none
  virtual bool moves() const = 0;                   // take() changes the trainer's numbers
  // Computes what is due, over one batch.
  virtual GradientReport sum_gradient(const Batch& batch, const GradientTarget& target, const std::atomic<bool>* cancel) = 0;
  virtual void commit_states() = 0;
  virtual bool take(const MergedSum& sum) = 0;  // true: something else is to be added up
  virtual void apply() = 0;                     // what the sums came to becomes the trainer's numbers
  virtual void drop() = 0;                      // the round; what the trainer holds is the caller's affair
};

// Null: a step is one sum.
std::unique_ptr<RepeatedSums> repeated_sums_of(Trainer& trainer);

}  // namespace perigee
