// The objectives of a job in one step: losses that take turns, each with a plan of its own over the same network and numbers, the parameters that
// it updates, and an optimiser. The first one is the trainer's own; the others are here.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/train/step_engine.h"

namespace perigee {

// One of a job's objectives after a step.
struct ObjectiveReport {
  std::string_view name;
  double loss = 0;  // mean over the batch, before its update; of the last step in which it had one
  double learning_rate = 0;
};

class ObjectiveTurns {
 public:
  // `job` has objectives; `first` is the setup of the first one. Error(model) where something cannot take turns.
  ObjectiveTurns(const Job& job, TrainingSetup& first);

  void build();
  void initialize();  // the optimisers' slots
  // Kernels, for steps of `sub_batch` examples at a time; what was found goes into the first setup's table.
  void measure(Loader& loader, int64_t sub_batch);
  void retune(int64_t sub_batch);
  void gather_tuning();  // the first setup's table has what the others' plans have asked theirs for

  // The first objective's turn by `engine`, then those of the others that have one in this step. `figures` are the first one's.
  StepOutcome step(const StepTask& task, StepEngine& engine, StepFigures* figures);
  std::span<const ObjectiveReport> reports() const { return reports_; }

  // The parts of a step, for replicas that add up the gradients of each objective before its update. Numbers count from 0, the first one's.
  size_t count() const { return turns_.size() + 1; }
  // The first objective from `objective` on that has a turn in this step; count(): none.
  size_t next_turn(size_t objective, int64_t step) const;
  StepEngine& engine(size_t objective) const;  // not of the first
  Optimizer& optimizer(size_t objective) const;
  StepProgress progress(size_t objective, StepProgress now) const;  // as its rule and schedules see it
  void set_factors(size_t objective, const StepProgress& now, int64_t examples);

  void change_optimizer(const Json& job);  // the numbers of another description of the whole job; Error(model)
  void set_rate_factor(double factor);

  size_t slots() const;
  std::string slot_name(size_t i) const;  // "objective2/m"
  Storage& slot(size_t i) const { return *place_of(i).first; }
  size_t bytes() const;

 private:
  struct Turn {
    std::unique_ptr<TrainingSetup> setup;
    std::unique_ptr<StepEngine> engine;
    uint64_t gathered = 0;  // changes of its tuning table
  };
  std::pair<Storage*, std::string> place_of(size_t slot) const;
  TrainingSetup& setup_of(size_t objective) const { return objective == 0 ? first_ : *turns_[objective - 1].setup; }
  StepOutcome take(size_t i, TrainingSetup& setup, StepEngine& engine, const StepTask& task, StepFigures* figures);

  TrainingSetup& first_;
  std::vector<Turn> turns_;
  std::vector<ObjectiveReport> reports_;
  StepFigures last_;  // of the first
};

}  // namespace perigee
