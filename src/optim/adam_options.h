// What the members of Adam's family share: options lr, beta1, beta2, epsilon in this order, and their bias corrections.
#pragma once

#include <cmath>

#include "src/optim/optimizer_def.h"

namespace perigee {

inline constexpr RuleOption kAdamOptions[] = {{"lr", 1e-3, 0, 1e9, "learning rate"},
                                              {"beta1", 0.9, 0, 1, "share of the mean gradient that is kept"},
                                              {"beta2", 0.999, 0, 1, "share of the mean square that is kept"},
                                              {"epsilon", 1e-8, 0, 1, "added to the root"}};

// Fills c[0..5] and lr / (1 - beta1^t), as update_adam takes them.
inline void prepare_adam(const RuleStep& step, UpdateParams* out) {
  const double beta1 = step.option[1], beta2 = step.option[2], t = static_cast<double>(step.t);
  out->lr = beta1 < 1 ? step.option[0] / (1 - std::pow(beta1, t)) : step.option[0];
  out->c[0] = beta1;
  out->c[1] = 1 - beta1;
  out->c[2] = beta2;
  out->c[3] = 1 - beta2;
  out->c[4] = step.option[3];
  out->c[5] = beta2 < 1 ? 1 / std::sqrt(1 - std::pow(beta2, t)) : 1;
}

}  // namespace perigee
