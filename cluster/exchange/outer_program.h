// The outer step of an averaging policy as data: a traced program of elementwise ops that makes the next result of the last one, the mean
// of the contributions and a state of its own (src/ARCHITECTURE.md, idea 3). It is checked and compiled when a policy is read; OuterStep
// runs it.
//
//   {"program": [{"op": "sub", "in": ["mean", "global"], "out": "t1"}, ...], "outputs": {"global": "t5", "velocity": "t2"}}
//
// A program may name `global` (the last result), `mean`, `delta` = global - mean, its states, its knobs and what is known of the round.
// Expressions of knobs and round alone are computed once a round, in double; the rest is one pass of the `fused` kernel over the block.
// Only ops that give the same bits on every machine are accepted.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/ops/fused.h"
#include "src/core/config.h"
#include "src/optim/fused_program.h"

namespace perigee {

// A round's numbers that a program may use, by these names: equal on every replica.
struct OuterRound {
  double workers = 1;        // that contributed to the mean
  double progress = 0;       // share of the run that was committed when the round began
  double round = 0;          // its number, from 0
  double learning_rate = 0;  // of the workers' own optimiser, when the round began
  double staleness = 0;      // served rounds: results made since the contribution's base; a mean where several are merged
};

struct OuterState {
  std::string name;
  double initial = 0;
  bool assigned = false;  // by the program
};

// The subject of a program. For gradients it makes the optimiser's input (`gradient`) from their mean (`gradient`), and it may look at
// the parameters (`global`).
enum class OuterOf : uint8_t { parameters, gradient };

// A numeric option: a number, true or false (1 or 0), or {"program": ..., "outputs": {"value": ...}} of the round.
using OuterKnobs = std::vector<std::pair<std::string, Json>>;

class OuterProgram {
 public:
  OuterProgram() = default;  // the mean is the result
  // Error(model) naming the op. Every knob must be used: an unused one is an unknown option, left for the caller to refuse.
  OuterProgram(const Config& source, std::vector<OuterState> states, const OuterKnobs& knobs, OuterOf of = OuterOf::parameters);

  bool empty() const { return code_.n_outputs == 0; }
  const std::vector<OuterState>& states() const { return states_; }
  const std::vector<std::string>& unused_knobs() const { return unused_knobs_; }
  // The kernel's program in this round. Inputs: global, mean, states; outputs: the new global, then the assigned states.
  FusedParams at(const OuterRound& round) const;

 private:
  friend class OuterCompiler;

  std::vector<OuterState> states_;
  ProgramNumbers numbers_;           // those of the round first
  std::vector<uint16_t> constants_;  // of the code: a number each
  FusedParams code_ = {};
  std::vector<std::string> unused_knobs_;
};

// The names of the ops that a program may use.
std::vector<std::string> outer_ops();

}  // namespace perigee
