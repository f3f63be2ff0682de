// Turns gradients into new parameters: clipping, regularisation, the update rule, constraints. Works on ranges of the flat parameter
// block, one pass each, so that a team of threads cuts the block as it likes: one code path for whole and sliced updates. It owns
// no tensors. Rules are files in optimizers/; their arithmetic is kernels/ops/update_rules.h.
//
// One step of a team; `b` is a barrier:
//   one thread:  begin_step(progress, scale)                                             b
//   if needs_norms():      all: measure(range(rank, n), gradient)                        b
//                          one thread: finish_norms()                                    b
//   all:                   update(range(rank, n), parameters, gradient, slots)
//   if has_constraints():  b   all: constrain(rank, n, parameters)
// The result has the same bits for any number of threads: norms are summed over fixed pieces in a fixed order.
// Nothing allocates after the constructor.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/block_math.h"
#include "kernels/kernel.h"
#include "kernels/ops/update.h"
#include "src/optim/clip.h"
#include "src/optim/constraint.h"
#include "src/optim/lookahead.h"
#include "src/optim/minimizer.h"
#include "src/optim/optimizer_def.h"
#include "src/optim/param_window.h"
#include "src/optim/regularizer.h"
#include "src/optim/rule_program.h"
#include "src/optim/schedule.h"

namespace perigee {

// The parts of a job that say how to update. All but `optimizer` may be null.
struct OptimizerOptions {
  Json optimizer;       // "adam" or {"type": "adamw", "lr": 0.001, "bias_lr": 0.002, ...}; see optimizers/. bias_lr: of biases, default lr
  Json regularization;  // see regularizer.h
  Json clip;            // see clip.h
  Json constraint;      // see constraint.h
  Json lookahead = {};  // see lookahead.h
};

class Optimizer {
 public:
  struct Range {
    int64_t begin = 0, end = 0;  // elements of the block
  };

  // Throws Error(model). `where` begins error paths ("job.json"). Windows are in ascending order and do not overlap.
  // `isa` caps the instruction set of the kernels; the bits do not depend on it. `dtype`, f32 or f64, is that of every block.
  Optimizer(const OptimizerOptions& options, std::vector<ParamWindow> windows, const std::string& where, Isa isa, Dtype dtype = Dtype::f32);
  // The host's best instruction set.
  Optimizer(const OptimizerOptions& options, std::vector<ParamWindow> windows, const std::string& where, Dtype dtype = Dtype::f32);
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  const char* type() const { return def_->name; }
  bool programmed() const { return program_.has_value(); }  // by a rule of the job's own, which update_op() cannot make elsewhere
  // For a method that searches along lines, whose steps are the caller's affair: update() does nothing.
  bool lookahead() const { return lookahead_.active(); }  // the last slot is then its slow weights
  const MinimizerOptions* minimizer() const { return minimizer_ ? &*minimizer_ : nullptr; }
  // The names of the states: as many blocks, each laid out as the parameter block.
  const std::vector<std::string>& slots() const { return slots_; }
  // Writes the states' first values (mostly zeros) into the windows of the blocks.
  void initialize(void* const* slots) const;

  // Evaluates the schedules. The gradient is multiplied by `gradient_scale` first (1 / examples for a summed gradient).
  void begin_step(const StepProgress& now, double gradient_scale = 1.0);
  double learning_rate() const { return learning_rate_; }  // of this step, before per-parameter scales; 0 when the rule has none
  // From the next step on, by the numbers of another description of the same rule, regularisation and clip; constraints stay. Error(model),
  // and nothing has changed, when it is none, or when it needs another rule, other states or another way of clipping.
  void change(const OptimizerOptions& options, const std::string& where);
  // A factor on what the schedules of the rates give, from the next step on.
  void set_rate_factor(double factor) { rate_factor_ = factor; }
  double learning_rate_at(const StepProgress& now) const { return has_lr_ ? rule_step(now).option[0] : 0; }
  bool needs_norms() const { return clip_.needs_norms(); }
  bool has_constraints() const { return !constraints_.empty(); }
  // Whether update() may run as soon as a part of the gradient is complete, whatever the rest is.
  bool local() const { return !needs_norms(); }

  // Part `part` of `parts` nearly equal ones, which together cover all windows. Constant for an optimiser.
  Range range(int part, int parts) const;

  // By any threads on disjoint ranges. measure() takes what range() gives, update() any range.
  // `quiet`: by piece(), marks those of which nothing but zeros is known to be there; empty: none.
  void measure(Range range, const void* gradient, std::span<const uint8_t> quiet = {});
  void finish_norms();
  double gradient_norm() const { return clip_.global_norm(); }  // of all trainable parameters, after finish_norms()
  void update(Range range, void* parameters, const void* gradient, void* const* slots) const;
  // The same with a gradient of which only `chunk` is there.
  void update_chunk(Range chunk, void* parameters, const void* chunk_gradient, void* const* slots) const;
  // Does what a step does to elements of one window whose gradient is zero, by the numbers that params() gave in that step. `zeros`: as many as the
  // range has elements.
  void replay(size_t window, const UpdateParams& params, Range range, void* parameters, const void* zeros, void* const* slots) const;
  // Whether this step leaves a parameter of 1 with states of `state` as they are where the gradient is zero.
  bool rests(size_t window, double state) const;
  // Windows are cut into these.
  const std::vector<UpdatePiece>& pieces() const { return pieces_; }
  void constrain(int part, int parts, void* parameters) const { constraints_.apply(part, parts, parameters, math_); }

  // For updates elsewhere (src/train/device/device_update.h): the update op, null when none changes anything; what begin_step() gave it for
  // each window; limits and constraints.
  const char* update_op() const;
  std::span<const UpdateParams> window_params() const { return params_; }
  // The same, had one step more been skipped than begin_step() was told: for a step that is queued behind one whose outcome is not known.
  void params_if_skipped(std::span<UpdateParams> to) const;
  const std::vector<ParamWindow>& windows() const { return windows_; }
  const Clip& clip() const { return clip_; }
  const Constraints& constraints() const { return constraints_; }

  // The sum that l1 and l2 add to the loss at `now`.
  double penalty(const StepProgress& now, const void* parameters) const;

 private:
  void read_rule(const Json& description, const std::string& where);
  void read_program(const OptimizerOptions& options, const std::string& where);
  void choose_kernel(Isa isa);
  void fill_params(const StepProgress& now, std::span<UpdateParams> to) const;
  RuleStep rule_step(const StepProgress& now) const;
  void make_codes();
  void run_kernel(const UpdateParams& params, int64_t n, void* parameters, const void* gradient, std::span<void* const> slots) const;
  size_t rule_slots() const { return slots_.size() - (lookahead_.active() ? 1 : 0); }
  void read_lookahead(const Json& description, const std::string& where);
  void run_rule(size_t window, Range range, std::byte* parameters, const std::byte* gradient, void* const* slots) const;
  void run_program(size_t window, Range range, std::byte* parameters, const std::byte* gradient, void* const* slots) const;

  const BlockMath& math_;
  std::vector<ParamWindow> windows_;
  std::vector<UpdatePiece> pieces_;
  const OptimizerDef* def_ = nullptr;
  const Kernel* kernel_ = nullptr;
  bool stateless_ = false;
  Lookahead lookahead_;
  std::vector<Schedule> option_schedules_;
  Schedule bias_lr_;
  bool has_lr_ = false, has_bias_lr_ = false;
  std::vector<OptionRange> ranges_;  // of option_schedules_
  std::vector<bool> flags_;
  std::vector<std::string> slots_;
  std::vector<Regularizer> regularizers_;  // by window
  Clip clip_;
  Constraints constraints_;
  double learning_rate_ = 0;
  StepProgress now_;
  double gradient_scale_ = 1, rate_factor_ = 1;
  std::vector<UpdateParams> params_;  // by window, of this step
  std::optional<MinimizerOptions> minimizer_;
  std::optional<RuleProgram> program_;
  std::vector<FusedParams> codes_;  // by window, of this step; where there is a program
};

// The rate that a job's "optimizer" begins with: its "lr", or its rule's default; null for a rule without one.
Json rate_in(const Json& optimizer, const std::string& where);
const OptimizerDef& optimizer_named(const std::string& name, const std::string& where);  // Error(model) with the nearest known name

}  // namespace perigee
