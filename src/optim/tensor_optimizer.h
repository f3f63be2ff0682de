// An optimiser of tensors that a script holds: the rules of training, on parameters and gradients that lie anywhere. Its states stay here
// from step to step.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/eager/array.h"
#include "src/optim/optimizer.h"

namespace perigee {

class TensorOptimizer {
 public:
  // `like`: the parameters, whose dtype is f32 or f64 and the same for all. `windows` gives names, roles and scales (of a network); offsets
  // are set here. Error(usage) for other dtypes, Error(model) for the rule's options.
  TensorOptimizer(const Json& rule, std::vector<ParamWindow> windows, std::span<const Array> like, const std::string& where);

  const std::vector<ParamWindow>& windows() const { return windows_; }
  int64_t steps() const { return steps_; }
  // Changes the parameters in place; Error(usage) before anything has changed when one has another shape. `now.step` is counted here.
  void step(std::span<const Array> parameters, std::span<const Array> gradients, StepProgress now);
  double learning_rate() const { return optimizer_->learning_rate(); }  // of the last step

 private:
  Array window_of(const Storage& block, size_t index) const;
  void check(std::span<const Array> given, const char* what) const;

  std::vector<ParamWindow> windows_;
  Dtype dtype_ = Dtype::f32;
  int64_t elements_ = 0;
  int64_t steps_ = 0;
  std::unique_ptr<Optimizer> optimizer_;
  std::shared_ptr<Storage> parameters_, gradient_;
  std::vector<Storage> slots_;
};

}  // namespace perigee
