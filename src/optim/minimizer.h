// Methods that use several values of one function for a step: L-BFGS (Nocedal, 1980, with the line search of L-BFGS-B) and nonlinear conjugate
// gradients (Polak-Ribière+, Gilbert and Nocedal, 1992). One iteration is a direction and a line search along it. Sums are in double.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/core/config.h"
#include "src/optim/line_search.h"
#include "src/optim/param_window.h"

namespace perigee {

struct MinimizerOptions {
  bool conjugate = false;  // else L-BFGS
  size_t history = 10;     // pairs of steps and differences of gradients; of L-BFGS
  LineSearchOptions line;

  // Those that the optimiser "lbfgs" or "cg" says.
  static MinimizerOptions of(const Config& optimizer, bool conjugate);
  // Blocks that go on from step to step, laid out as the parameters: "step1", "change1", ...; "direction".
  std::vector<std::string> slots() const;
};

class Minimizer {
 public:
  // The value of the function at the parameters as they are, and its gradient into `gradient`, a block like theirs. Infinity is too far away.
  using Evaluate = std::function<double(std::byte* gradient)>;

  Minimizer(MinimizerOptions options, std::vector<ParamWindow> windows, int64_t elements, Dtype dtype);

  struct Result {
    double value = 0;          // where the iteration began
    int evaluations = 0;       // with that of the beginning, where it was not known
    double step = 0;           // along the direction; 0: nothing was better
    double gradient_norm = 0;  // at the beginning
  };
  // Moves the parameters. `same`: the function is that of the last iteration, so that the value where it ended is known. `settle` is called once
  // the line search is over, before anything of it is kept. What the two throw leaves parameters, slots and state as they were.
  Result iterate(std::byte* parameters, std::byte* const* slots, bool same, const Evaluate& evaluate,
                 const std::function<void()>& settle = {});
  int most_evaluations() const;  // of one iteration

  void forget();                                    // an iteration begins anew, without a history
  void lose_value() { now_.known = false; }         // the next iteration begins with an evaluation
  bool wants_start() const { return !now_.known; }  // during an iteration: the evaluation is that of its beginning
  Json state() const;                               // during an iteration, as it was before
  void restore(const Config& state);

 private:
  template <class T>
  struct Vectors;
  template <class T>
  class Iteration;

  MinimizerOptions options_;
  std::vector<ParamWindow> windows_;  // those that train
  Dtype dtype_;
  std::vector<std::byte> start_, direction_, gradient_, next_gradient_;
  struct State {
    size_t pairs = 0, newest = 0;  // of the history
    bool known = false;            // value and gradient_ are those of the parameters as they are
    double value = 0, before = 0;  // now, and an iteration ago
    bool has_before = false;
  };
  State now_, kept_;  // kept: as before the iteration in progress
  bool iterating_ = false;
};

}  // namespace perigee
