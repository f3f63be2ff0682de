// Slopes of rows. Away from the ends every step has the same weights, which are taken once for each row's length.
#include "kernels/ops/deltas.h"

#include <algorithm>

#include "kernels/registry.h"

namespace perigee {
namespace {

const char* decline(const KernelCall& call) {
  for (const View* v : {&call.in[0], &call.out[0]})
    if (v->dtype != Dtype::f32 || (v->dims[2] != 1 && v->strides[2] != 1)) return "only f32 with contiguous steps";
  return nullptr;
}

// Weights of the values from 2 * reach before a step to as many behind it.
size_t scratch_bytes(const KernelCall& call) { return static_cast<size_t>(4 * call.as<DeltasParams>().reach + 1) * sizeof(float); }

// Steps [first, end) of a row are so far from its ends that they have the same weights.
struct Middle {
  int64_t first, end;
};

Middle write_weights(const DeltasParams& p, int64_t there, float* weights) {
  const int64_t step = 2 * p.reach, margin = p.adjoint ? 2 * step : step;
  if (there < 2 * margin + 1) return {there, there};
  const int64_t t = there / 2;
  for (int64_t d = -step; d <= step; ++d)
    weights[d + step] = static_cast<float>(p.adjoint ? delta_weight(p, there, t + d, t) : delta_weight(p, there, t, t + d));
  return {margin, there - margin};
}

void run(const KernelCall& call) {
  const auto& p = call.as<DeltasParams>();
  const View &x = call.in[0], &y = call.out[0];
  const int64_t all = x.dims[2], step = 2 * p.reach;
  auto* weights = static_cast<float*>(call.scratch);
  Middle middle{};
  int64_t written = -1;
  for (int64_t n = 0; n < x.dims[0]; ++n) {
    const bool counted = call.n_in > 1 && call.in[1].data != nullptr;
    const int64_t there = delta_clamp(counted ? call.in[1].as<int64_t>()[n * call.in[1].strides[0]] : all, 0, all);
    if (there != written) middle = write_weights(p, there, weights), written = there;
    for (int64_t c = 0; c < x.dims[1]; ++c) {
      const float* from = x.as<float>() + n * x.strides[0] + c * x.strides[1];
      float* to = y.as<float>() + n * y.strides[0] + c * y.strides[1];
      for (int64_t t = 0; t < middle.first; ++t) to[t] = static_cast<float>(delta_at(p, from, 1, there, t));
      for (int64_t t = middle.end; t < there; ++t) to[t] = static_cast<float>(delta_at(p, from, 1, there, t));
      std::fill(to + middle.first, to + middle.end, 0.f);
      for (int64_t d = -step; d <= step; ++d) {
        const float weight = weights[d + step];
        if (weight == 0) continue;
#pragma omp simd
        for (int64_t t = middle.first; t < middle.end; ++t) to[t] += weight * from[t + d];
      }
      std::fill(to + there, to + all, 0.f);
    }
  }
}

const Kernel kKernels[] = {{.op = "deltas",
                            .name = "rows",
                            .backend = Backend::cpu,
                            .isa = Isa::PERIGEE_ISA,
                            .decline = decline,
                            .run = run,
                            .scratch_bytes = scratch_bytes}};

}  // namespace

extern const KernelList PERIGEE_CPU_KERNELS(deltas);
const KernelList PERIGEE_CPU_KERNELS(deltas) = kernel_list(kKernels);

}  // namespace perigee
