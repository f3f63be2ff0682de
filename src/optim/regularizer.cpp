#include "src/optim/regularizer.h"

namespace perigee {

namespace {

constexpr Option kRegularizerOptions[] = {{"l1", "number or schedule", "0", "times the sum of magnitudes of the weights"},
                                          {"l2", "number or schedule", "0", "times half the sum of squares of the weights"},
                                          {"weight_decay", "number or schedule", "0", "share of each weight that a step takes away"},
                                          {"l1_bias", "number or schedule", "0", "as l1, of biases"},
                                          {"l2_bias", "number or schedule", "0", "as l2, of biases"},
                                          {"weight_decay_bias", "number or schedule", "0", "as weight_decay, of biases"},
                                          {"apply_lr", "boolean", "true", "weight decay is multiplied by the learning rate"}};

}  // namespace

const Schema regularization_schema{.options = kRegularizerOptions};

Regularizer::Regularizer(const Json& description, const std::string& where) {
  if (description.is_null()) return;
  const Config options(description, regularization_schema, where);
  weight_ = {Schedule::option(options, "l1", 0), Schedule::option(options, "l2", 0), Schedule::option(options, "weight_decay", 0)};
  bias_ = {Schedule::option(options, "l1_bias", 0), Schedule::option(options, "l2_bias", 0),
           Schedule::option(options, "weight_decay_bias", 0)};
  apply_lr_ = options.boolean("apply_lr");
}

const Regularizer::Strength* Regularizer::of(ParamRole role) const {
  return role == ParamRole::weight ? &weight_ : role == ParamRole::bias ? &bias_ : nullptr;
}

void Regularizer::apply(ParamRole role, const StepProgress& now, double learning_rate, UpdateParams* out) const {
  const Strength* strength = of(role);
  if (!strength) return;
  out->l1 += strength->l1.at(now);
  out->l2 += strength->l2.at(now);
  out->decay += strength->decay.at(now) * (apply_lr_ ? learning_rate : 1.0);
}

double Regularizer::penalty(ParamRole role, const StepProgress& now, const void* parameters, int64_t elements,
                            const BlockMath& math) const {
  const Strength* strength = of(role);
  if (!strength) return 0;
  const double l1 = strength->l1.at(now), l2 = strength->l2.at(now);
  if (l1 == 0 && l2 == 0) return 0;
  double size = 0, square = 0;
  math.sizes(parameters, elements, &size, &square);
  return l1 * size + 0.5 * l2 * square;
}

}  // namespace perigee
