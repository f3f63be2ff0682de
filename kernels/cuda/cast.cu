// cast: each element is read and written once.
#include "kernels/cuda/moves.cuh"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/ops/cast.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

// T holds every value of the input.
template <class T>
__global__ void __launch_bounds__(kThreads) cast_kernel(Elements in, Elements out, Walk<2> walk, bool accumulate) {
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < walk.n; i += threads_of_grid()) {
    int64_t at[2];
    locate(walk, i, at);
    const T x = in.load<T>(at[0]);
    if (accumulate) out.store<double>(at[1], out.load<double>(at[1]) + static_cast<double>(x));
    else out.store<T>(at[1], x);
  }
}

void cast(const KernelCall& call) {
  Launches on(*call.queue, "cast");
  cast_elements(on, call.in[0], call.out[0], make_walk<2>(call.out[0], {&call.in[0], &call.out[0]}), call.accumulate);
}

const Kernel kKernels[] = {{.op = "cast", .name = "cast", .backend = Backend::cuda, .run = cast, .accumulates = true}};

}  // namespace

void cast_elements(Launches& on, const View& in, const View& out, const Walk<2>& walk, bool accumulate) {
  with_computing_type(in.dtype, [&](auto zero) {
    on.launch(cast_kernel<decltype(zero)>, blocks_for(walk.n), kThreads, Elements(in), Elements(out), walk, accumulate);
  });
}

extern const KernelList kernels_cuda_cast;
const KernelList kernels_cuda_cast = kernel_list(kKernels);

}  // namespace perigee
