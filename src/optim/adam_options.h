// Shared by the members of Adam's family: options lr, beta1, beta2, epsilon in this order, and their bias corrections.
#pragma once

#include <cmath>

#include "src/optim/optimizer_def.h"

namespace perigee {

inline constexpr Option kAdamOptions[] = {{"lr", "number or schedule", "0.001", "learning rate", {0, 1e9}},
                                          {"beta1", "number or schedule", "0.9", "share of the mean gradient that is kept", {0, 1}},
                                          {"beta2", "number or schedule", "0.999", "share of the mean square that is kept", {0, 1}},
                                          {"epsilon", "number or schedule", "1e-08", "added to the root", {0, 1}}};

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
