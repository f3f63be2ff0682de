// random_uniform, random_normal: each element is written once. A thread draws one Philox block, which is four elements, so that any thread can
// begin anywhere in the stream; the bits are the host's.
#include "kernels/ops/random.h"

#include <numbers>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/cuda/elementwise/walk.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/philox.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

struct RandomCall {
  Elements out;
  Walk<1> walk;  // over the elements of one row, in logical order
  int64_t rows, row_stride;
  RandomParams params;
  bool normal;
};

// Pairs by Box and Muller, in double as on the host.
__device__ inline void draw_normal(const PhiloxBlock& block, float (&x)[4]) {
  for (int pair = 0; pair < 4; pair += 2) {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - double{uniform_from_bits(block.lane[pair])}));
    const double angle = 2.0 * std::numbers::pi * double{uniform_from_bits(block.lane[pair + 1])};
    x[pair] = static_cast<float>(radius * std::cos(angle));
    x[pair + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

__global__ void __launch_bounds__(kThreads) random_kernel(RandomCall call, const StepInfo* step) {
  begin_kernel();
  const RandomParams& params = call.params;
  const PhiloxKey key = philox_key(step->seed, params.stream);
  const int64_t n = call.walk.n, blocks = (n + 3) / 4;
  const float offset = static_cast<float>(params.offset), scale = static_cast<float>(params.scale);
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < call.rows * blocks; i += threads_of_grid()) {
    const int64_t row = divide(i, blocks, call.rows * blocks), number = i - row * blocks;
    const auto example = static_cast<uint64_t>(step->example_ids != nullptr ? step->example_ids[row] : row);
    const PhiloxBlock block = params.per_example ? philox_for_example(key, step->epoch, example, static_cast<uint32_t>(number))
                                                 : philox_for_step(key, step->step, static_cast<uint32_t>(number));
    float x[4];
    if (call.normal) draw_normal(block, x);
    else
      for (int lane = 0; lane < 4; ++lane) x[lane] = uniform_from_bits(block.lane[lane]);
    for (int lane = 0; lane < 4 && 4 * number + lane < n; ++lane) {
      int64_t at[1];
      locate(call.walk, 4 * number + lane, at);
      call.out.store<float>(row * call.row_stride + at[0], offset + scale * x[lane]);
    }
  }
}

template <bool kNormal>
void run(const KernelCall& call) {
  const View& out = call.out[0];
  const auto& params = call.as<RandomParams>();
  const View row = params.per_example ? without_axis(out, 0) : out;
  const RandomCall all{Elements(out),
                       make_logical_walk<1>(row, {&row}),
                       params.per_example ? out.dims[0] : 1,
                       params.per_example ? out.strides[0] : 0,
                       params,
                       kNormal};
  Launches on(*call.queue, kNormal ? "random_normal" : "random_uniform");
  on.launch(random_kernel, blocks_for(all.rows * ceil_divide(all.walk.n, 4)), kThreads, all, call.step);
}

const Kernel kKernels[] = {{.op = "random_uniform", .name = "random", .backend = Backend::cuda, .run = run<false>},
                           {.op = "random_normal", .name = "random", .backend = Backend::cuda, .run = run<true>}};

}  // namespace

extern const KernelList kernels_cuda_random;
const KernelList kernels_cuda_random = kernel_list(kKernels);

}  // namespace perigee
