// Trains word vectors as a job: a step is some parts of the text (src/data/vector_source.h), and HogWild or meeting threads move the rows that
// these touch (src/vectors). The network says what is learned, an embedding and a softmax without bias over the words; the loss that is made smaller
// is src/vectors' own, of noise words or a tree in place of all words. There is no gradient of a step.
#pragma once

#include <memory>
#include <string>

#include "src/data/vector_source.h"
#include "src/train/step_engine.h"
#include "src/vectors/jobs/vector_course.h"

namespace perigee {

class VectorEngine final : public StepEngine {
 public:
  // `source`: the training's. Error(model) for a network or options that are not of word vectors.
  VectorEngine(TrainingSetup& training, const VectorSource& source);

  void build() override {}
  int measure(Loader&) override { return 0; }
  void retune(int64_t) override {}
  void cut() override {}

  // A step is soon over and is not cancelled.
  void queue(const StepTask& task) override;
  StepOutcome take(StepFigures* figures) override;
  std::string find_non_finite() override { return ""; }

  GradientReport sum_gradient(const Batch& batch, const StepInfo& info, const GradientTarget& target,
                              const std::atomic<bool>* cancel) override;
  double update(const std::byte* gradient_sum) override;
  void commit_states() override {}

  int64_t sub_batch() const override { return t_.batch; }
  int64_t most_at_once() const override { return t_.batch; }
  PlanSet& plans() override;  // of the network, for who describes it
  size_t bytes() const override;
  DeviceMemory planned_memory(int64_t gpus) const override;

  // The rows that are trained are padded and lie apart from the block, which is brought up to date when it is asked for.
  void fetch(Numbers which) const override;
  void host_changed(Numbers which) override;

 private:
  struct Table {  // a parameter and its rows
    size_t parameter = 0;
    const VectorRows* rows = nullptr;
  };
  void check_job() const;
  void check_network() const;
  float* block_row(const Table& table, int64_t row) const;
  template <class Copy>
  void each_row(Copy copy) const;
  [[noreturn]] void refuse_gradient() const;

  TrainingSetup& t_;
  const VectorSource& source_;
  VectorTraining rows_;
  Table inputs_, outputs_;
  VectorWorkers workers_;
  std::unique_ptr<PlanSet> plans_;  // null until somebody asks
  mutable bool block_behind_ = false;
  bool rows_behind_ = true;
  StepFigures figures_;
  StepOutcome outcome_ = StepOutcome::done;
  double last_loss_ = 0;  // of a pair, where a step has looked at none
};

}  // namespace perigee
