// update_<rule> of f64: one kernel that looks up the rule when it runs, an element a thread. The bits are the host's, as those of update.cu.
#include <array>
#include <iterator>
#include <utility>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/update.h"
#include "kernels/ops/update_rules.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

struct WideUpdate {
  int rule;
  const double* gradient;
  double* parameter;
  double* state[3];
  int64_t n;
};

template <class Rule>
__device__ void update_element(const UpdateParams& params, const WideUpdate& call, int64_t i) {
  const update::Gradient<double> prepare(params);
  const typename Rule::template Step<double> step(params);
  double& parameter = call.parameter[i];
  const double gradient = call.gradient[i];
  const double g = update::Gradient<double>::wanted(params) ? prepare.full(gradient, parameter) : prepare.plain(gradient);
  double delta;
  if constexpr (Rule::kSlots == 0) delta = step(g);
  if constexpr (Rule::kSlots == 1) delta = step(g, call.state[0][i]);
  if constexpr (Rule::kSlots == 2) delta = step(g, call.state[0][i], call.state[1][i]);
  if constexpr (Rule::kSlots == 3) delta = step(g, call.state[0][i], call.state[1][i], call.state[2][i]);
  parameter = (parameter - params.decay * parameter) - delta;
}

template <class... Rule>
__device__ void update_by_rule(update::RuleList<Rule...>, const UpdateParams& params, const WideUpdate& call, int64_t i) {
  int rule = 0;
  ((call.rule == rule++ ? update_element<Rule>(params, call, i) : void()), ...);
}

__global__ void __launch_bounds__(kThreads) update_wide(const CudaUpdate* update, const __grid_constant__ WideUpdate call) {
  begin_kernel();
  if (update->skip != 0) return;
  const auto* const windows = reinterpret_cast<const CudaUpdateWindow*>(update + 1);
  int window = 0;
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < call.n; i += threads_of_grid()) {
    while (window < update->windows && windows[window].end <= i) ++window;
    if (window == update->windows) return;
    if (windows[window].begin > i) continue;
    update_by_rule(update::Rules(), windows[window].params, call, i);
  }
}

void run_rule(int rule, const KernelCall& call) {
  WideUpdate all{.rule = rule, .gradient = call.in[0].as<double>(), .parameter = call.out[0].as<double>(), .n = call.out[0].elements()};
  for (int s = 1; s < call.n_out && s <= 3; ++s) all.state[s - 1] = call.out[s].as<double>();
  Launches on(*call.queue, update::Rules::kOps[rule]);
  on.launch(update_wide, blocks_for(all.n), kThreads, static_cast<const CudaUpdate*>(call.params), all);
}

const char* decline(const KernelCall& call) {
  constexpr const char* kWhy = "only contiguous f64";
  if (call.in[0].dtype != Dtype::f64 || !call.in[0].contiguous()) return kWhy;
  for (int i = 0; i < call.n_out; ++i)
    if (call.out[i].dtype != Dtype::f64 || !call.out[i].contiguous()) return kWhy;
  return nullptr;
}

template <int kRule>
constexpr Kernel kernel() {
  return {
      .op = update::Rules::kOps[kRule], .name = "wide", .backend = Backend::cuda, .decline = decline, .run = [](const KernelCall& call) {
        run_rule(kRule, call);
      }};
}

template <int... kRule>
constexpr std::array<Kernel, sizeof...(kRule)> kernels(std::integer_sequence<int, kRule...>) {
  return {kernel<kRule>()...};
}

constexpr auto kKernels = kernels(std::make_integer_sequence<int, std::size(update::Rules::kOps)>());

}  // namespace

extern const KernelList kernels_cuda_wide_update;
const KernelList kernels_cuda_wide_update = {kKernels.data(), kKernels.size()};

}  // namespace perigee
