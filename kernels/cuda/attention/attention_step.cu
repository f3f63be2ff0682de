// One step of attention: a thread for each feature of the result goes over the ring with a running maximum and sum. Sessions run on the CPU;
// this serves plans that stay on a device.
#include "kernels/ops/attention_step.h"

#include <cmath>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/ops/attention.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

struct Call {
  AttentionStepParams p;
  Elements x, past, before, o;
  View now, ring, steps, to;  // dims and strides
  int64_t heads, threads;
};

// Feature `c` of the result of a head.
template <class T>
__device__ void look(const Call& call, int64_t i) {
  const int64_t features = call.now.dims[3], groups = call.p.groups, slots = call.ring.dims[1];
  const int64_t c = i % features, h = i / features % call.heads, n = i / features / call.heads, g = h / (call.heads / groups);
  const int64_t before = call.before.load<int64_t>(n * call.steps.strides[0]), looked = steps_looked_at(before, slots);
  const auto of_step = [&](int64_t head, int64_t feature) {
    return call.x.load<T>(n * call.now.strides[0] + head * call.now.strides[2] + feature * call.now.strides[3]);
  };
  const auto of_past = [&](int64_t back, int64_t head, int64_t feature) {
    return call.past.load<T>(n * call.ring.strides[0] + slot_of_step(before, back, slots) * call.ring.strides[1] +
                             head * call.ring.strides[2] + feature * call.ring.strides[3]);
  };
  const T slope = call.p.alibi ? static_cast<T>(std::exp2(alibi_exponent(h, call.heads))) : T(0);
  T most = T(-1e30), total = 0, sum = 0;
#pragma unroll 1
  for (int64_t back = 0; back <= looked; ++back) {
    T score = 0;
    for (int64_t f = 0; f < features; ++f) score += of_step(h, f) * (back == 0 ? of_step(call.heads + g, f) : of_past(back, g, f));
    score = score * static_cast<T>(call.p.scale) - slope * static_cast<T>(back);
    const T now = score > most ? score : most, lower = std::exp(most - now), weight = std::exp(score - now);
    total = total * lower + weight;
    sum = sum * lower + weight * (back == 0 ? of_step(call.heads + groups + g, c) : of_past(back, groups + g, c));
    most = now;
  }
  call.o.store<T>(n * call.to.strides[0] + h * call.to.strides[2] + c * call.to.strides[3], sum / total);
}

template <class T>
__global__ void __launch_bounds__(kThreads) attention_step_kernel(const __grid_constant__ Call call) {
  begin_kernel();
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < call.threads; i += threads_of_grid()) look<T>(call, i);
}

void run(const KernelCall& call) {
  const View &x = call.in[0], &o = call.out[0];
  const Call all{.p = call.as<AttentionStepParams>(),
                 .x = Elements(x),
                 .past = Elements(call.in[1]),
                 .before = Elements(call.in[2]),
                 .o = Elements(o),
                 .now = x,
                 .ring = call.in[1],
                 .steps = call.in[2],
                 .to = o,
                 .heads = o.dims[2],
                 .threads = o.elements()};
  Launches on(*call.queue, "attention_step");
  on.launch(x.dtype == Dtype::f64 ? attention_step_kernel<double> : attention_step_kernel<float>, blocks_for(all.threads), kThreads, all);
}

const Kernel kKernels[] = {{.op = "attention_step", .name = "features", .backend = Backend::cuda, .run = run}};

}  // namespace

extern const KernelList kernels_cuda_attention_step;
const KernelList kernels_cuda_attention_step = kernel_list(kKernels);

}  // namespace perigee
