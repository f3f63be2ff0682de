#include "cluster/outer_step.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "kernels/block_math.h"
#include "kernels/flat_view.h"
#include "kernels/widest.h"
#include "src/graph/plan.h"

namespace perigee {

OuterStep::OuterStep(const OuterProgram& program, Dtype dtype, std::span<const ParamWindow> windows, int64_t elements)
    : program_(program), dtype_(dtype), elements_(elements) {
  if (program_.empty()) return;
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
  for (size_t i = 0; i < program_.states().size(); ++i) states_.emplace_back(static_cast<size_t>(elements) * width);
  initialize();

  const FusedParams code = program_.at({});
  View views[kFusedInputs];
  std::fill(std::begin(views), std::end(views), flat_view(nullptr, elements, dtype));
  KernelCall call;
  call.in = call.out = views, call.params = &code;
  call.n_in = code.n_inputs, call.n_out = code.n_outputs;
  kernel_ = widest_kernel("fused", call, host_isa());
  assert(kernel_);
}

void OuterStep::initialize() {
  for (size_t i = 0; i < states_.size(); ++i) {
    block_math(dtype_).fill(program_.states()[i].initial, elements_, states_[i].data());
    clear_gaps(states_[i].data());
  }
}

void OuterStep::clear_gaps(std::byte* block) const {
  for (const Gap& gap : gaps_) std::memset(block + gap.begin, 0, gap.bytes);
}

void OuterStep::run(const OuterRound& round, const std::byte* global, std::byte* mean) {
  assert(active());
  const FusedParams code = program_.at(round);
  View in[kFusedInputs], out[kFusedOutputs];
  KernelCall call;
  call.in = in, call.out = out, call.params = &code;
  in[call.n_in++] = flat_view(global, elements_, dtype_);
  in[call.n_in++] = out[call.n_out++] = flat_view(mean, elements_, dtype_);
  for (size_t i = 0; i < states_.size(); ++i) {
    in[call.n_in++] = flat_view(states_[i].data(), elements_, dtype_);
    if (program_.states()[i].assigned) out[call.n_out++] = in[call.n_in - 1];
  }
  kernel_->run(call);
  for (int i = 0; i < call.n_out; ++i) clear_gaps(out[i].as<std::byte>());
}

double outer_gain(const OuterProgram& program, double workers) {
  constexpr int kMostRounds = 100'000;
  constexpr double kSettled = 1e-12;  // relative change from one round to the next: 1e-9 from the limit at a momentum of 0.999
  if (program.empty()) return 1;
  ParamWindow one;
  one.elements = 1;
  OuterStep step(program, Dtype::f64, {&one, 1}, 1);
  double gain = 0;
  for (int round = 0; round < kMostRounds; ++round) {
    // The global value is 0 and the mean 1 below it, each time: only the state remembers.
    const double global = 0;
    double result = -1;
    step.run({.workers = workers, .progress = 1, .round = static_cast<double>(round), .learning_rate = 1},
             reinterpret_cast<const std::byte*>(&global), reinterpret_cast<std::byte*>(&result));
    if (!std::isfinite(result)) break;
    if (round > 0 && std::fabs(-result - gain) <= kSettled * std::fabs(result)) return -result;
    gain = -result;
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace perigee
