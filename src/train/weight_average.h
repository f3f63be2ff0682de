// An average of the weights over the steps of a run, with which the network is judged, used and stored while the weights themselves train on:
// "ema", exponential over steps, or "swa", the plain mean of the weights after each of the last epochs (Izmailov et al., "Averaging weights leads to
// wider optima", 2018). As torch.optim.swa_utils.AveragedModel with use_buffers = true has them: the first update copies, running statistics are
// averaged like the weights, and counters are those of the last step.
#pragma once

#include <memory>
#include <span>

#include "src/core/thread_team.h"
#include "src/job/job.h"
#include "src/model/params.h"

namespace perigee {

class WeightAverage {
 public:
  // By the job's "ema" or "swa"; null when it has neither. Error(model).
  static std::unique_ptr<WeightAverage> of(const Job& job, const Params& params);
  // Checked options, as of() reads them; `first`: the step or epoch with which it begins.
  WeightAverage(const Params& params, const Config& options, bool epochwise, int64_t first);

  int64_t count() const { return count_; }  // updates that it has had
  bool ready() const { return count_ > 0; }
  void begin_again(int64_t count) { count_ = count; }
  // Laid out as the parameters' block and their states; of no use before it is ready.
  std::span<std::byte> parameters() { return {parameters_.data(), parameters_.bytes()}; }
  std::span<const std::byte> parameters() const { return {parameters_.data(), parameters_.bytes()}; }
  std::span<std::byte> states() { return {states_.data(), states_.bytes()}; }
  std::span<const std::byte> states() const { return {states_.data(), states_.bytes()}; }

  // Whether the numbers after this step count; steps and epochs from 1.
  bool counts(int64_t step, int64_t epoch, bool epoch_ends) const;
  // How much the numbers after this step count, which are then taken as added: 1 for the first, whose copy the average becomes.
  double next_share();
  void add(const Params& params, ThreadTeam& team);
  // The model's numbers become those of the average and these the model's, and back.
  void exchange(Params& params);

 private:
  bool epochwise_;
  double decay_ = 0;
  int64_t first_ = 1, every_ = 1, count_ = 0;
  Storage parameters_, states_;
};

}  // namespace perigee
