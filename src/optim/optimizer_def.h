// What one file in optimizers/ defines: a rule's options, its states and the numbers that its kernel takes each step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops/update.h"
#include "src/optim/param_window.h"

namespace perigee {

// A numeric option of a rule. All may be schedules.
struct RuleOption {
  const char* name = nullptr;  // "lr"
  double fallback = 0;
  double low = 0, high = 0;  // allowed values, inclusive
  const char* doc = nullptr;
};

struct RuleFlag {
  const char* name = nullptr;
  bool fallback = false;
  const char* doc = nullptr;
};

inline constexpr int kMaxRuleOptions = 8;
inline constexpr int kMaxRuleFlags = 4;
inline constexpr int kMaxRuleSlots = 3;

// The options' values at one step, in the order of OptimizerDef::options and flags.
struct RuleStep {
  double option[kMaxRuleOptions] = {};
  bool flag[kMaxRuleFlags] = {};
  int64_t t = 1;  // number of this update, counted from 1
  ParamRole role = ParamRole::weight;
};

struct OptimizerDef {
  const char* name = nullptr;
  const char* doc = nullptr;            // one sentence with the formula or its source
  const char* example = nullptr;        // as JSON
  std::span<const RuleOption> options;  // options[0] is "lr" unless the rule has none
  std::span<const RuleFlag> flags;
  const char* kernel = nullptr;  // the update op: "update_adam"
  std::span<const char* const> slots;
  // Fills lr, decay (both before lr_scale) and c.
  void (*prepare)(const RuleStep& step, UpdateParams* out) = nullptr;
  // First value of slot `i`. Null: 0.
  double (*initial)(const RuleStep& step, int slot) = nullptr;
  // The option that, fixed at 0, makes the states needless, and the kernel without them (sgd without momentum).
  const char* stateless_option = nullptr;
  const char* stateless_kernel = nullptr;
};

std::span<const OptimizerDef* const> all_optimizers();

// What a description of the rule may contain beside "type": its options, its flags, and "bias_lr" when it has a learning rate.
std::vector<const char*> option_names(const OptimizerDef& def);

}  // namespace perigee
