// full and full_like: each element is written once.
#include "kernels/ops/full.h"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/cuda/elementwise/moves.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

__global__ void __launch_bounds__(kThreads) full_kernel(Elements out, Walk<1> walk, double value, bool accumulate) {
  begin_kernel();
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < walk.n; i += threads_of_grid()) {
    int64_t at[1];
    locate(walk, i, at);
    out.put<double>(at[0], value, accumulate);
  }
}

void full(const KernelCall& call) {
  Launches on(*call.queue, "full");
  fill_view(on, call.out[0], call.as<FullParams>().value, call.accumulate);
}

const Kernel kKernels[] = {{.op = "full", .name = "full", .backend = Backend::cuda, .run = full, .accumulates = true},
                           {.op = "full_like", .name = "full", .backend = Backend::cuda, .run = full, .accumulates = true}};

}  // namespace

void fill_view(Launches& on, const View& out, double value, bool accumulate) {
  const Walk<1> walk = make_walk<1>(out, {&out});
  on.launch(full_kernel, blocks_for(walk.n), kThreads, Elements(out), walk, value, accumulate);
}

extern const KernelList kernels_cuda_full;
const KernelList kernels_cuda_full = kernel_list(kKernels);

}  // namespace perigee
