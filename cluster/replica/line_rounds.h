// A line search by the sums of all workers: each keeps the method's state and takes the same steps by the same numbers (Sandblaster L-BFGS: Dean
// et al., "Large scale distributed deep networks", NIPS 2012; there the state was cut across servers). The trainer holds the last result while a
// search goes on; only while a gradient is computed does it hold the point that is tried.
#pragma once

#include <vector>

#include "cluster/replica/lockstep.h"
#include "cluster/replica/repeated_sums.h"
#include "src/train/line_steps.h"

namespace perigee {

class LineRounds final : public RepeatedSums {
 public:
  explicit LineRounds(Trainer& trainer);  // whose optimiser searches along lines
  ~LineRounds() override;

  int most() const override { return lines_.minimizer().most_evaluations() + 1; }  // one more, where another worker begins anew
  void begin(const TrainOrder& order) override;
  bool begins() const override { return begins_; }
  bool must_be_finite() const override { return begins_; }
  bool moves() const override { return false; }
  GradientReport sum_gradient(const Batch& batch, const GradientTarget& target, const std::atomic<bool>* cancel) override;
  void commit_states() override { trainer_.commit_states(); }
  bool take(const MergedSum& sum) override;
  void apply() override;
  void drop() override;

 private:
  enum class Stage : uint8_t { over, asks, settles };  // of the iteration: over, or standing still
  void search(bool whole);

  Trainer& trainer_;
  LineSteps& lines_;
  std::vector<std::byte> point_, result_;  // where the value is asked for; the trainer's parameters meanwhile
  Lockstep lockstep_;                      // has the iteration, which stands still while the workers compute
  Stage stage_ = Stage::over;
  bool begins_ = true, whole_ = false, give_up_ = false;
  std::byte* gradient_ = nullptr;  // where the iteration wants it
  double value_ = 0;
};

}  // namespace perigee
