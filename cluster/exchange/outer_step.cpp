#include "cluster/exchange/outer_step.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>

#include "kernels/block_math.h"
#include "kernels/flat_view.h"
#include "kernels/widest.h"
#include "src/graph/plan.h"

namespace perigee {

OuterStep::OuterStep(const OuterProgram& program, Dtype dtype, std::span<const ParamWindow> windows, int64_t elements)
    : OuterStep(std::vector<OuterPart>{{.program = program, .runs = {{0, elements}}}}, dtype, windows, elements) {}

OuterStep::OuterStep(std::vector<OuterPart> parts, Dtype dtype, std::span<const ParamWindow> windows, int64_t elements)
    : dtype_(dtype), elements_(elements) {
  const size_t width = dtype_bytes(dtype);
  int64_t end = 0;
  const auto add_gap = [&](int64_t next) {
    if (next > end) gaps_.push_back({static_cast<size_t>(end) * width, static_cast<size_t>(next - end) * width});
  };
  for (const ParamWindow& window : windows) {
    add_gap(window.offset);
    end = window.offset + window.elements;
  }
  add_gap(elements);
  for (OuterPart& part : parts) {
    Placed placed{.part = std::move(part), .states = {}};
    if (!placed.part.program.empty()) {
      placed.kernel = kernel_of(placed.part.program);
      place_states(&placed);
    }
    parts_.push_back(std::move(placed));
  }
  initialize();
}

void OuterStep::place_states(Placed* placed) {
  for (const OuterState& state : placed->part.program.states()) {
    const auto same = std::find_if(names_.begin(), names_.end(), [&](const OuterState& other) { return other.name == state.name; });
    placed->states.push_back(static_cast<size_t>(same - names_.begin()));
    if (same != names_.end()) continue;
    names_.push_back(state);
    states_.emplace_back(static_cast<size_t>(elements_) * dtype_bytes(dtype_));
    std::memset(states_.back().data(), 0, states_.back().bytes());
  }
}

const Kernel* OuterStep::kernel_of(const OuterProgram& program) const {
  const FusedParams code = program.at({});
  View views[kFusedInputs];
  std::fill(std::begin(views), std::end(views), flat_view(nullptr, elements_, dtype_));
  KernelCall call;
  call.in = call.out = views, call.params = &code;
  call.n_in = code.n_inputs, call.n_out = code.n_outputs;
  const Kernel* kernel = widest_kernel("fused", call, host_isa());
  assert(kernel);
  return kernel;
}

void OuterStep::initialize() {
  const size_t width = dtype_bytes(dtype_);
  for (const Placed& placed : parts_)
    for (size_t i = 0; i < placed.states.size(); ++i)
      for (const OuterPart::Run& run : placed.part.runs)
        block_math(dtype_).fill(placed.part.program.states()[i].initial, run.elements,
                                states_[placed.states[i]].data() + static_cast<size_t>(run.begin) * width);
  for (Storage& state : states_) clear_gaps(state.data());
}

void OuterStep::clear_gaps(std::byte* block) const {
  for (const Gap& gap : gaps_) std::memset(block + gap.begin, 0, gap.bytes);
}

void OuterStep::run(const OuterRound& round, const std::byte* global, std::byte* mean, size_t part) {
  assert(active(part));
  const Placed& placed = parts_[part];
  const OuterProgram& program = placed.part.program;
  const FusedParams code = program.at(round);
  for (const OuterPart::Run& run : placed.part.runs) {
    const size_t at = static_cast<size_t>(run.begin) * dtype_bytes(dtype_);
    View in[kFusedInputs], out[kFusedOutputs];
    KernelCall call;
    call.in = in, call.out = out, call.params = &code;
    in[call.n_in++] = flat_view(global + at, run.elements, dtype_);
    in[call.n_in++] = out[call.n_out++] = flat_view(mean + at, run.elements, dtype_);
    for (size_t i = 0; i < placed.states.size(); ++i) {
      in[call.n_in++] = flat_view(states_[placed.states[i]].data() + at, run.elements, dtype_);
      if (program.states()[i].assigned) out[call.n_out++] = in[call.n_in - 1];
    }
    placed.kernel->run(call);
  }
  clear_gaps(mean);
  for (const size_t state : placed.states) clear_gaps(states_[state].data());
}

namespace {

// The mean movement of a round, once those of the second half repeat earlier ones.
std::optional<double> settled_mean(std::span<const double> moved) {
  constexpr double kSettled = 1e-12;  // relative: 1e-9 from the limit at a momentum of 0.999
  const size_t half = moved.size() / 2;
  for (size_t period = 1; period <= half; ++period) {
    bool repeats = true;
    for (size_t i = half; i < 2 * half && repeats; ++i) repeats = std::fabs(moved[i] - moved[i - period]) <= kSettled * std::fabs(moved[i]);
    if (repeats) return std::accumulate(moved.end() - static_cast<ptrdiff_t>(period), moved.end(), 0.0) / static_cast<double>(period);
  }
  return std::nullopt;
}

}  // namespace

double outer_gain(const OuterProgram& program, double workers) {
  constexpr int kMostRounds = 100'000;
  if (program.empty()) return 1;
  ParamWindow one;
  one.elements = 1;
  OuterStep step(program, Dtype::f64, {&one, 1}, 1);
  // A step may do something else now and then, as a momentum that is delayed until each worker has come.
  const size_t longest = std::max<size_t>(64, static_cast<size_t>(workers));
  std::vector<double> moved;
  for (int round = 0; round < kMostRounds; ++round) {
    // The global value is 0 and the mean 1 below it, each time: only the state remembers.
    const double global = 0;
    double result = -1;
    step.run({.workers = workers, .progress = 1, .round = static_cast<double>(round), .learning_rate = 1},
             reinterpret_cast<const std::byte*>(&global), reinterpret_cast<std::byte*>(&result));
    if (!std::isfinite(result)) break;
    moved.push_back(-result);
    if (moved.size() < 2 * longest) continue;
    if (const std::optional<double> mean = settled_mean(moved)) return *mean;
    moved.erase(moved.begin(), moved.begin() + static_cast<ptrdiff_t>(longest));
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace perigee
