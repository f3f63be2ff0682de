// Updates of contiguous f32 ranges. The compiler vectorises these loops; contraction is off in this file, so that each instruction set
// gives the bits of ref. What bounds them is memory: each state is read and written once.
#include "kernels/ops/update_rules.h"

#include <array>

#include "kernels/registry.h"

namespace perigee {
namespace {

// One loop for each number of states; `Full` when clipping or regularisation is asked for.
template <class Rule, bool Full>
void update(const KernelCall& call) {
  const auto& params = call.as<UpdateParams>();
  const update::Gradient<float> prepare(params);
  const typename Rule::template Step<float> step(params);
  const float decay = static_cast<float>(params.decay);
  const int64_t n = call.out[0].elements();
  const float* __restrict gradient = call.in[0].as<float>();
  float* __restrict p = call.out[0].as<float>();
  float* __restrict s0 = Rule::kSlots > 0 ? call.out[1].as<float>() : nullptr;
  float* __restrict s1 = Rule::kSlots > 1 ? call.out[2].as<float>() : nullptr;
  float* __restrict s2 = Rule::kSlots > 2 ? call.out[3].as<float>() : nullptr;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float g = Full ? prepare.full(gradient[i], p[i]) : prepare.plain(gradient[i]);
    float delta;
    if constexpr (Rule::kSlots == 0) delta = step(g);
    if constexpr (Rule::kSlots == 1) delta = step(g, s0[i]);
    if constexpr (Rule::kSlots == 2) delta = step(g, s0[i], s1[i]);
    if constexpr (Rule::kSlots == 3) delta = step(g, s0[i], s1[i], s2[i]);
    p[i] = (p[i] - decay * p[i]) - delta;
  }
}

template <class Rule>
void run(const KernelCall& call) {
  update::Gradient<float>::wanted(call.as<UpdateParams>()) ? update<Rule, true>(call) : update<Rule, false>(call);
}

const char* decline(const KernelCall& call) {
  if (call.in[0].dtype != Dtype::f32 || !call.in[0].contiguous()) return "only contiguous f32";
  for (int i = 0; i < call.n_out; ++i)
    if (call.out[i].dtype != Dtype::f32 || !call.out[i].contiguous()) return "only contiguous f32";
  return nullptr;
}

template <class Rule>
constexpr Kernel kernel() {
  return {.op = Rule::kOp, .name = "vector", .backend = Backend::cpu, .isa = Isa::PERIGEE_ISA, .decline = decline, .run = run<Rule>};
}

template <class... Rule>
constexpr std::array<Kernel, sizeof...(Rule)> kernels(update::RuleList<Rule...>) {
  return {kernel<Rule>()...};
}

constexpr auto kKernels = kernels(update::Rules());

}  // namespace

extern const KernelList PERIGEE_CPU_KERNELS(update);
const KernelList PERIGEE_CPU_KERNELS(update) = {kKernels.data(), kKernels.size()};

}  // namespace perigee
