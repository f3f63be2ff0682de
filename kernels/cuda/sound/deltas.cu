// Slopes of rows: a thread for each step. The weights of a step are worked out again by each thread; memory is what counts here.
#include "kernels/ops/deltas.h"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

struct Call {
  DeltasParams p;
  View x, y, steps;
};

template <class T>
__global__ void __launch_bounds__(kThreads) deltas_kernel(const __grid_constant__ Call call) {
  begin_kernel();
  const View &x = call.x, &y = call.y;
  const int64_t all = x.dims[2], total = x.dims[0] * x.dims[1] * all;
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < total; i += threads_of_grid()) {
    const int64_t t = i % all, c = i / all % x.dims[1], n = i / all / x.dims[1];
    const int64_t given = call.steps.data ? static_cast<const int64_t*>(call.steps.data)[n * call.steps.strides[0]] : all;
    const int64_t there = delta_clamp(given, 0, all);
    const T* row = static_cast<const T*>(x.data) + n * x.strides[0] + c * x.strides[1];
    static_cast<T*>(y.data)[n * y.strides[0] + c * y.strides[1] + t * y.strides[2]] =
        t < there ? static_cast<T>(delta_at(call.p, row, x.strides[2], there, t)) : T(0);
  }
}

void run(const KernelCall& call) {
  const Call all{call.as<DeltasParams>(), call.in[0], call.out[0], call.n_in > 1 ? call.in[1] : View()};
  Launches on(*call.queue, "deltas");
  on.launch(all.x.dtype == Dtype::f64 ? deltas_kernel<double> : deltas_kernel<float>, blocks_for(all.x.elements()), kThreads, all);
}

const Kernel kKernels[] = {{.op = "deltas", .name = "steps", .backend = Backend::cuda, .run = run}};

}  // namespace

extern const KernelList kernels_cuda_deltas;
const KernelList kernels_cuda_deltas = kernel_list(kKernels);

}  // namespace perigee
