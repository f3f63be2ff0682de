// An outer program at work in one replica: its state, a block like the parameters' for each name, and the kernel that runs it.
// It belongs to the result: who holds the same result holds the same state.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cluster/outer_program.h"
#include "src/optim/param_window.h"
#include "src/tensor/tensor.h"

namespace perigee {

struct Kernel;

class OuterStep {
 public:
  // For a block of `elements` elements, float32 or float64, of which `windows` are parameters and the rest is zero (decision 6).
  OuterStep(const OuterProgram& program, Dtype dtype, std::span<const ParamWindow> windows, int64_t elements);

  bool active() const { return !program_.empty(); }  // otherwise the mean is the result, and run() must not be called
  const OuterProgram& program() const { return program_; }
  // Of state i; of the block's size and type.
  std::span<std::byte> state(size_t i) { return {states_[i].data(), states_[i].bytes()}; }
  std::span<const std::byte> state(size_t i) const { return {states_[i].data(), states_[i].bytes()}; }
  void initialize();
  // `mean` becomes the new global. Allocates nothing.
  void run(const OuterRound& round, const std::byte* global, std::byte* mean);

 private:
  struct Gap {
    size_t begin = 0, bytes = 0;
  };
  void clear_gaps(std::byte* block) const;

  OuterProgram program_;
  Dtype dtype_;
  int64_t elements_;
  std::vector<Gap> gaps_;  // between windows
  std::vector<Storage> states_;
  const Kernel* kernel_ = nullptr;
};

// The outer gain zeta / (1 - mu): by how much a mean change that stays the same from round to round moves the parameters in the end, times
// that change. Measured on one element, at the end of the run. Infinity when it does not settle.
double outer_gain(const OuterProgram& program, double workers);

}  // namespace perigee
