// Rotary positions: a thread for each pair, or for each feature that is copied. The angle is taken in f64, since in f32 it would have lost its
// fraction after some thousand steps.
#include "kernels/ops/rotary.h"

#include <cmath>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

struct Call {
  RotaryParams p;
  Elements x, y, before;
  View from, to;  // dims and strides
  int64_t before_stride;
  int64_t threads;
};

template <class T>
__device__ void turn(const Call& call, int64_t i) {
  const RotaryParams& p = call.p;
  const int64_t features = call.from.dims[3], half = p.width / 2, slots = features - half;  // pairs first, then what is behind them
  const int64_t slot = i % slots, h = i / slots % call.from.dims[2], t = i / slots / call.from.dims[2] % call.from.dims[1],
                n = i / slots / call.from.dims[2] / call.from.dims[1];
  const int64_t from = n * call.from.strides[0] + t * call.from.strides[1] + h * call.from.strides[2];
  const int64_t to = n * call.to.strides[0] + t * call.to.strides[1] + h * call.to.strides[2];
  const auto copy = [&](int64_t c) { call.y.store<T>(to + c * call.to.strides[3], call.x.load<T>(from + c * call.from.strides[3])); };
  if (slot >= half) return copy(p.width + slot - half);
  const int64_t first = first_of_pair(p, slot), second = second_of_pair(p, slot);
  if (h >= p.heads) return copy(first), copy(second);
  const double angle = static_cast<double>(t + p.offset + (call.before.data ? call.before.load<int64_t>(n * call.before_stride) : 0)) *
                       std::pow(p.theta, -2.0 * static_cast<double>(slot) / static_cast<double>(p.width));
  const T cosine = static_cast<T>(std::cos(angle)), sine = static_cast<T>(p.inverse ? -std::sin(angle) : std::sin(angle));
  const T a = call.x.load<T>(from + first * call.from.strides[3]), b = call.x.load<T>(from + second * call.from.strides[3]);
  call.y.store<T>(to + first * call.to.strides[3], a * cosine - b * sine);
  call.y.store<T>(to + second * call.to.strides[3], a * sine + b * cosine);
}

template <class T>
__global__ void __launch_bounds__(kThreads) rotary_kernel(const __grid_constant__ Call call) {
  begin_kernel();
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < call.threads; i += threads_of_grid()) turn<T>(call, i);
}

void run(const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  const RotaryParams& p = call.as<RotaryParams>();
  const View before = call.n_in > 1 ? call.in[1] : View{};
  const Call all{p, Elements(x), Elements(y),       Elements(before),
                 x, y,           before.strides[0], x.dims[0] * x.dims[1] * x.dims[2] * (x.dims[3] - p.width / 2)};
  Launches on(*call.queue, "rotary");
  on.launch(x.dtype == Dtype::f64 ? rotary_kernel<double> : rotary_kernel<float>, blocks_for(all.threads), kThreads, all);
}

const Kernel kKernels[] = {{.op = "rotary", .name = "pairs", .backend = Backend::cuda, .run = run}};

}  // namespace

extern const KernelList kernels_cuda_rotary;
const KernelList kernels_cuda_rotary = kernel_list(kKernels);

}  // namespace perigee
