// Steps on the host. Each thread of the team owns a slice of every batch and takes it through forward and backward in sub-batches;
// gradients meet in a fixed tree and the update is cut across the threads, so that the bits depend on the number of threads alone.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/model/steps/carried_rows.h"
#include "src/train/host/cut_rows.h"
#include "src/train/host/sparse_rows.h"
#include "src/train/host/thread_slice.h"
#include "src/train/step_engine.h"

namespace perigee {

class HostEngine final : public StepEngine {
 public:
  explicit HostEngine(TrainingSetup& training) : t_(training) {}

  void build() override;
  int measure(Loader& loader) override;
  void retune(int64_t sub_batch) override;
  void cut() override { prepared_ = -1; }  // bound plans know their marks

  void queue(const StepTask& task) override;
  StepOutcome take(StepFigures* figures) override;
  std::string find_non_finite() override;

  GradientReport sum_gradient(const Batch& batch, const StepInfo& info, const GradientTarget& target,
                              const std::atomic<bool>* cancel) override;
  double update(const std::byte* gradient_sum) override;
  void commit_states() override;
  void commit_carried() override {
    if (carried_) carried_->commit(lane_, lanes_);
  }

  void settle() const override {
    if (sparse_) sparse_->settle();
  }
  void fetch(Numbers what) const override {
    if (what == Numbers::model || what == Numbers::slots) settle();
  }
  void host_changed(Numbers what) override {
    if (sparse_ && (what == Numbers::model || what == Numbers::slots)) sparse_->forget();
  }

  CarriedRows* carried() const override { return carried_.get(); }
  int64_t sub_batch() const override { return sub_batch_; }
  int64_t most_at_once() const override { return sliceable_ && !collective_ ? t_.batch : t_.at_once; }
  PlanSet& plans() override { return *plans_; }
  size_t bytes() const override;
  DeviceMemory planned_memory(int64_t gpus) const override;

 private:
  // host_engine.cpp: plans, bound to the slices of a batch
  size_t arena_room() const;
  void prepare(int64_t examples);
  int64_t sub_batch_for(int64_t slice) const;
  BoundPlan bind_plan(PlanRun& run) const;
  std::vector<BoundPlan> bind_plans(ThreadSlice& slice, int64_t examples) const;
  void bind_rows(const BoundPlan& plan, const Batch& batch, int64_t row) const;
  void bind_numbers(const BoundPlan& plan) const;  // inputs with one number for all examples
  // The rows that a plan is to compute, bound to it: `n` of the slice's, from place `row` on.
  struct Bound {
    BoundPlan* plan;
    const int64_t *ids, *labels;  // labels: null where the target is none
  };
  Bound bind_piece(size_t rank, const Batch& batch, int64_t row, int64_t n);
  std::vector<size_t> marks_of(const Plan& plan) const;
  void begin_rows(const Batch& batch);
  // host_step.cpp
  struct Gathering;                                          // of one sum_gradient
  std::optional<StepOutcome> attempt(const StepTask& task);  // empty: the gradient overflowed, and is wanted
  void compute_slice(Team& team, const Batch& batch, const StepInfo& base, Gathering* gathering = nullptr);
  bool losses_finite() const;
  void exchange(const StepTask& task);
  void begin_slice(Team& team);
  // `foreign`: rows that the batch did not read may be in it.
  void update_slice(Team& team, const std::byte* whole_gradient, bool foreign);
  void update_range(const ThreadSlice& slice, Optimizer::Range range, const std::byte* whole_gradient);
  void check_kernels(const StepInfo& info) const;
  // host_gradient.cpp
  void run_with_marks(Team& team, const BoundPlan& plan, const StepInfo& info, bool accumulate, Gathering& gathering);
  void gather_bucket(Team& team, Gathering& gathering);
  // The sum of the gradients of threads [first, first + span) in a fixed tree, of at most kUpdateChunk elements: in memory of
  // `slice`, so that no thread writes what lies in another one's cache.
  const std::byte* sum_gradients(const ThreadSlice& slice, size_t first, size_t span, size_t buffer, Optimizer::Range chunk) const;
  void merge_gradients(int rank, Optimizer::Range range);  // into the first thread's block
  void sum_figures(GradientReport* report) const;
  // host_scaling.cpp: precision "fp16"
  void set_seed(int64_t examples);
  bool overflows(Team& team, bool unscale);
  StepOutcome move_scale();
  GradientReport scaled_gradient(const Batch& batch, const StepInfo& info, const GradientTarget& target, const std::atomic<bool>* cancel);
  // host_tuning.cpp
  void tune_kernels(const Batch& batch);
  void choose_sub_batch();
  int64_t fastest_sub_batch(int64_t slice);

  TrainingSetup& t_;
  std::unique_ptr<PlanSet> plans_;
  std::vector<std::unique_ptr<ThreadSlice>> slices_;  // by thread
  int64_t sub_batch_ = 0, prepared_ = -1;
  bool collective_ = false, sliceable_ = true;
  bool in_step_ = false;  // the slices of the prepared batch meet inside the plan
  int measured_ = 0;
  std::vector<int64_t> lengths_;          // of the first batch's examples, ascending
  int64_t lane_ = 0, lanes_ = 0;          // of the batch's first example, where rows carry; of its examples
  std::unique_ptr<CarriedRows> carried_;  // null: the network carries nothing
  std::unique_ptr<SparseRows> sparse_;    // null: all parameters are dense
  std::unique_ptr<CutRows> cut_;          // null: examples are computed with all their steps, in the batch's order
  // The step that was made last.
  const Batch* batch_ = nullptr;
  StepInfo info_;
  StepOutcome outcome_ = StepOutcome::done;
  const std::atomic<bool>* cancel_ = nullptr;
  std::exception_ptr exchange_error_;
  float seed_value_ = 1;
  std::vector<float> seeds_;  // the plans' input
  std::atomic<bool> overflow_{false};
};

}  // namespace perigee
