// Penalties on the size of parameters: {"l1": 1e-5, "l2": 5e-4, "weight_decay": 0.01, "apply_lr": true, "l1_bias": …, "l2_bias": …,
// "weight_decay_bias": …}. l1 and l2 are added to the gradient before the rule sees it; weight decay is taken from the parameter
// beside the rule's step, times the learning rate unless apply_lr is false (Deeplearning4j's L1Regularization,
// L2Regularization, WeightDecay). Each number may be a schedule. Gains are never regularised.
#pragma once

#include <string>

#include "kernels/block_math.h"
#include "kernels/ops/update.h"
#include "src/optim/param_window.h"
#include "src/optim/schedule.h"

namespace perigee {

extern const Schema regularization_schema;

class Regularizer {
 public:
  Regularizer() = default;  // none
  // Throws Error(model). Null is none.
  Regularizer(const Json& description, const std::string& where);

  // Adds to l1, l2 and decay of `out`.
  void apply(ParamRole role, const StepProgress& now, double learning_rate, UpdateParams* out) const;
  // The sum that the penalties add to the loss: l1 |p| + l2 p^2 / 2 summed (weight decay has no loss).
  double penalty(ParamRole role, const StepProgress& now, const void* parameters, int64_t elements, const BlockMath& math) const;

 private:
  struct Strength {
    Schedule l1, l2, decay;
  };
  const Strength* of(ParamRole role) const;

  Strength weight_, bias_;
  bool apply_lr_ = true;
};

}  // namespace perigee
