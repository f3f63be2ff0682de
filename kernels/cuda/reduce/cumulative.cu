// cumulative_sum: each element is read and written once. A warp takes a line that lies along memory, 32 elements at a time with what came
// before carried on; where lines lie side by side, a thread takes one.
#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/cuda/reduce/rows.cuh"
#include "kernels/ops/reduce.h"
#include "kernels/registry.h"
#include "kernels/wrap.h"

namespace perigee {
namespace {

struct CumulativeCall {
  Elements in, out;
  Walk<2> lines;
  int64_t n, in_stride, out_stride;
  bool exclusive, reverse, accumulate;
};

template <int kGroup, class T>
__global__ void __launch_bounds__(kThreads) cumulative_kernel(const __grid_constant__ CumulativeCall call) {
  begin_kernel();
  const int self = rank_in_group<kGroup>();
#pragma unroll 1
  for (int64_t line = group_of_grid<kGroup>(); line < call.lines.n; line += groups_of_grid<kGroup>()) {
    int64_t at[2];
    locate(call.lines, line, at);
    T carried = 0;
#pragma unroll 1
    for (int64_t first = 0; first < call.n; first += kGroup) {
      const int64_t k = first + self, i = call.reverse ? call.n - 1 - k : k;
      const T x = k < call.n ? call.in.load<T>(at[0] + i * call.in_stride) : T(0);
      T sum = x;
      if constexpr (kGroup > 1)
        for (int step = 1; step < kGroup; step *= 2) {
          const T before = __shfl_up_sync(kAllLanes, sum, static_cast<unsigned>(step));
          if (self >= step) sum = wrapped_add(before, sum);
        }
      const T before = kGroup > 1 ? __shfl_up_sync(kAllLanes, sum, 1u) : T(0);
      const T result = !call.exclusive ? wrapped_add(carried, sum) : self > 0 ? wrapped_add(carried, before) : carried;
      if (k < call.n) call.out.put<T>(at[1] + i * call.out_stride, result, call.accumulate);
      carried = wrapped_add(carried, kGroup > 1 ? __shfl_sync(kAllLanes, sum, kGroup - 1) : sum);
    }
  }
}

void cumulative_sum(const KernelCall& call) {
  const View &in = call.in[0], &out = call.out[0];
  const auto& params = call.as<CumulativeParams>();
  const View in_lines = without_axis(in, params.axis), out_lines = without_axis(out, params.axis);
  const CumulativeCall all{.in = Elements(in),
                           .out = Elements(out),
                           .lines = make_walk<2>(out_lines, {&in_lines, &out_lines}),
                           .n = in.dims[params.axis],
                           .in_stride = in.strides[params.axis],
                           .out_stride = out.strides[params.axis],
                           .exclusive = params.exclusive,
                           .reverse = params.reverse,
                           .accumulate = call.accumulate};
  Launches on(*call.queue, "cumulative_sum");
  with_computing_type(in.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (all.in_stride == 1) on.launch(cumulative_kernel<kWarp, T>, blocks_for_rows(all.lines.n, kWarp), kThreads, all);
    else on.launch(cumulative_kernel<1, T>, blocks_for(all.lines.n), kThreads, all);
  });
}

const Kernel kKernels[] = {{.op = "cumulative_sum", .name = "lines", .backend = Backend::cuda, .run = cumulative_sum, .accumulates = true}};

}  // namespace

extern const KernelList kernels_cuda_cumulative;
const KernelList kernels_cuda_cumulative = kernel_list(kKernels);

}  // namespace perigee
