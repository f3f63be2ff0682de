// The rule of an optimiser of one's own, as data: a traced program of elementwise ops that makes the next value of a parameter of the last one, its
// gradient and states of its own.
//
//   {"state": {"m": 0}, "program": [{"op": "mul", "in": ["m", 0.9], "out": "t1"}, ...], "outputs": {"parameter": "t5", "m": "t2"}}
//
// A program may name `parameter`, `gradient`, its states, and the numbers of the update: lr, t (from 1), step, epoch, progress. What is made of these
// numbers alone is computed once an update, in double, by any op; the rest is one pass of the `fused` kernel over the block, by ops that give the
// same bits on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/ops/fused.h"
#include "kernels/ops/update.h"
#include "src/core/config.h"
#include "src/optim/fused_program.h"

namespace perigee {

// The numbers of an update, by these names.
struct RuleNumbers {
  double lr = 0, t = 1, step = 0, epoch = 0, progress = 0;
};

class RuleProgram {
 public:
  // Error(model) naming the op. `full`: the gradient may be clipped by value or regularised, which takes numbers of the kernel's.
  RuleProgram(const Config& rule, bool full);

  const std::vector<std::string>& states() const { return states_; }
  double initial(size_t state) const { return initial_[state]; }
  // The kernel's program of one update. Inputs: parameter, gradient, states; outputs: the parameter, then the states. Of `how` it takes what
  // happens to the gradient before the rule sees it.
  void make(const RuleNumbers& numbers, const UpdateParams& how, FusedParams* code) const;

 private:
  friend class RuleCompiler;

  std::vector<std::string> states_;
  std::vector<double> initial_;
  ProgramNumbers numbers_;           // those of the update first
  std::vector<uint16_t> constants_;  // of the code: a number each
  FusedParams body_ = {};            // which reads the gradient in kGradient
};

// The names of the ops that a program may use on parameters.
std::vector<std::string> rule_ops();

}  // namespace perigee
