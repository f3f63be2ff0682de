// Steps of a method that searches along lines (src/optim/minimizer.h): each evaluates the loss and its gradient on the step's batch several times,
// by the engine. Where a batch is the whole data, a step goes on from the last value of the one before.
#pragma once

#include <memory>
#include <vector>

#include "src/optim/minimizer.h"
#include "src/train/step_engine.h"

namespace perigee {

class LineSteps {
 public:
  // Null where the job's optimiser goes by one gradient. Error(model) where something cannot go with it.
  static std::unique_ptr<LineSteps> of(TrainingSetup& training, StepEngine& engine, bool alone);
  LineSteps(TrainingSetup& training, StepEngine& engine);

  void step(const StepTask& task);
  // Results of the last step. The figures are those of the parameters where it began.
  StepOutcome outcome() const { return outcome_; }
  const StepFigures& figures() const { return figures_; }
  int64_t evaluations() const { return evaluations_; }
  // For replicas that evaluate together. The value that is minimised, of the sums of the loss and its gradient at `parameters` over examples whose
  // weights add up to `weight`; makes the second the gradient of the value.
  double value_of(double loss_sum, double weight, const StepProgress& progress, const std::byte* parameters, std::byte* gradient);
  std::vector<std::byte*> slots() const;
  // Whether each step is of the same function.
  bool is_whole(int64_t examples) const { return fixed_ && t_.factors.count() == 0 && examples == t_.source->size(); }
  Minimizer& minimizer() { return minimizer_; }
  const Minimizer& minimizer() const { return minimizer_; }
  size_t bytes() const { return 4 * t_.model->params().block_bytes(); }

 private:
  double evaluate(const StepTask& task, std::byte* gradient);

  TrainingSetup& t_;
  StepEngine& engine_;
  Minimizer minimizer_;
  StepOutcome outcome_ = StepOutcome::done;
  StepFigures figures_, last_;  // last_: of the last evaluation
  int64_t evaluations_ = 0;
  bool fixed_;
};

}  // namespace perigee
