// The definition that one file in optimizers/ holds: a rule's options, its states and the numbers that its kernel takes each step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops/update.h"
#include "src/core/schema.h"
#include "src/optim/param_window.h"

namespace perigee {

inline constexpr const char* kRatePositional[] = {"lr"};
inline constexpr Option kBiasRateOption[] = {{"bias_lr", "number or schedule", "lr", "learning rate of biases"}};
inline constexpr Schema kBiasRate{.options = kBiasRateOption};

// The options of a rule whose first one is "lr": numbers, each of which may be a schedule, and booleans.
constexpr Schema rated_schema(std::span<const Option> options) {
  return {.options = options, .positional = kRatePositional, .common = &kBiasRate};
}

inline constexpr int kMaxRuleOptions = 8;
inline constexpr int kMaxRuleFlags = 4;
inline constexpr int kMaxRuleSlots = 3;

// The options' values at one step: numbers and booleans, each in the order of the schema.
struct RuleStep {
  double option[kMaxRuleOptions] = {};
  bool flag[kMaxRuleFlags] = {};
  int64_t t = 1;  // number of this update, counted from 1
  ParamRole role = ParamRole::weight;
};

struct OptimizerDef {
  const char* name = nullptr;
  const char* doc = nullptr;      // one sentence with the formula or its source
  const char* example = nullptr;  // as JSON
  Schema schema = {};
  const char* kernel = nullptr;  // the update op: "update_adam"
  std::span<const char* const> slots;
  // Fills lr, decay (both before lr_scale) and c.
  void (*prepare)(const RuleStep& step, UpdateParams* out) = nullptr;
  // First value of slot `i`. Null: 0.
  double (*initial)(const RuleStep& step, int slot) = nullptr;
  // The option that, fixed at 0, makes the states needless, and the kernel without them (sgd without momentum).
  const char* stateless_option = nullptr;
  const char* stateless_kernel = nullptr;
  // The description holds the rule itself (rule_program.h), and `prepare` is null.
  bool programmed = false;
  // It searches along lines (minimizer.h) with several evaluations for a step, which the trainer makes.
  bool minimizes = false;
};

std::span<const OptimizerDef* const> all_optimizers();

}  // namespace perigee
