// Objectives in turn over several workers: the gradient of each is added up and its update made before the next one is computed, as in the steps
// of one process (src/train/objectives.h).
#pragma once

#include "cluster/replica/repeated_sums.h"

namespace perigee {

class ObjectiveRounds final : public RepeatedSums {
 public:
  explicit ObjectiveRounds(Trainer& trainer) : trainer_(trainer), turns_(*trainer.turns()) {}

  int most() const override { return static_cast<int>(turns_.count()); }
  void begin(const TrainOrder& order) override;
  bool begins() const override { return begins_; }
  bool must_be_finite() const override { return true; }
  bool moves() const override { return true; }
  GradientReport sum_gradient(const Batch& batch, const GradientTarget& target, const std::atomic<bool>* cancel) override {
    return trainer_.sum_gradient(batch, target, cancel, at_);
  }
  void commit_states() override { trainer_.commit_states(at_); }
  bool take(const MergedSum& sum) override;
  void apply() override { trainer_.count_step(); }
  void drop() override {}

 private:
  Trainer& trainer_;
  ObjectiveTurns& turns_;
  size_t at_ = 0;  // whose turn it is
  bool begins_ = true, updates_ = true;
};

}  // namespace perigee
