// An outer program at work in one replica: its state, a block like the parameters' for each name, and the kernel that runs it.
// It belongs to the result: who holds the same result holds the same state.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cluster/exchange/outer_program.h"
#include "src/optim/param_window.h"
#include "src/tensor/tensor.h"

namespace perigee {

struct Kernel;

// One program over some of the block's elements. States of one name are one block.
struct OuterPart {
  struct Run {
    int64_t begin = 0, elements = 0;
  };
  OuterProgram program;
  std::vector<Run> runs;
};

class OuterStep {
 public:
  // For a block of `elements` elements, float32 or float64, of which `windows` are parameters and the rest is zero.
  OuterStep(const OuterProgram& program, Dtype dtype, std::span<const ParamWindow> windows, int64_t elements);
  OuterStep(std::vector<OuterPart> parts, Dtype dtype, std::span<const ParamWindow> windows, int64_t elements);

  bool active() const { return parts_[0].kernel != nullptr; }  // otherwise the mean is the result, and run() must not be called
  bool active(size_t part) const { return parts_[part].kernel != nullptr; }
  const OuterProgram& program() const { return parts_[0].part.program; }
  const std::vector<OuterState>& states() const { return names_; }  // of all parts
  // State i, in the block's size and type.
  std::span<std::byte> state(size_t i) { return {states_[i].data(), states_[i].bytes()}; }
  std::span<const std::byte> state(size_t i) const { return {states_[i].data(), states_[i].bytes()}; }
  void initialize();
  // `mean` becomes the new global, where the part is. Allocates nothing.
  void run(const OuterRound& round, const std::byte* global, std::byte* mean, size_t part = 0);

 private:
  struct Gap {
    size_t begin = 0, bytes = 0;
  };
  struct Placed {
    OuterPart part;
    std::vector<size_t> states;      // of each of the program's, which block
    const Kernel* kernel = nullptr;  // null: no program
  };
  void clear_gaps(std::byte* block) const;
  void place_states(Placed* placed);
  const Kernel* kernel_of(const OuterProgram& program) const;

  Dtype dtype_;
  int64_t elements_;
  std::vector<Gap> gaps_;  // between windows
  std::vector<Placed> parts_;
  std::vector<OuterState> names_;
  std::vector<Storage> states_;
};

// The outer gain zeta / (1 - mu): by how much a mean change that stays the same from round to round moves the parameters in the end, times
// that change; the mean where rounds take turns. Measured on one element, at the end of the run. Infinity when it does not settle.
double outer_gain(const OuterProgram& program, double workers);

}  // namespace perigee
