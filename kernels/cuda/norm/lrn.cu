// Local response normalisation: a thread makes one element; its window of channels lies in the first cache, since with channels last the
// neighbouring threads read it too. Each image is read once from memory and written once.
#include "kernels/ops/lrn.h"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/cuda/elementwise/walk.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

struct Channels {
  Elements of;
  int64_t stride = 0;
  __device__ float at(int64_t position, int64_t c) const { return of.load<float>(position + c * stride); }
};

Channels channels_of(const View& view) { return {Elements(view), view.strides[1]}; }

struct LrnCall {
  Channels x, dy, out;
  int64_t channels, size;
  float k, alpha, beta;
  Walk<4> walk;  // positions in x, dy, out; channel

  __device__ float denominator(int64_t position, int64_t c) const {
    float sum = 0;
#pragma unroll 1
    for (int64_t j = max(int64_t{0}, c - size / 2); j < min(channels, c - size / 2 + size); ++j) {
      const float value = x.at(position, j);
      sum += value * value;
    }
    return k + alpha * sum;
  }
};

__global__ void __launch_bounds__(kThreads) lrn_kernel(const __grid_constant__ LrnCall call) {
  begin_kernel();
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < call.walk.n; i += threads_of_grid()) {
    int64_t at[4];
    locate(call.walk, i, at);
    const int64_t c = at[3];
    call.out.of.store<float>(at[2] + c * call.out.stride, call.x.at(at[0], c) * powf(call.denominator(at[0], c), -call.beta));
  }
}

__global__ void __launch_bounds__(kThreads) lrn_grad_kernel(const __grid_constant__ LrnCall call) {
  begin_kernel();
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < call.walk.n; i += threads_of_grid()) {
    int64_t at[4];
    locate(call.walk, i, at);
    const int64_t c = at[3], first = max(int64_t{0}, c - (call.size - 1 - call.size / 2)), last = min(call.channels - 1, c + call.size / 2);
    float sum = 0;  // over the windows that c is in
#pragma unroll 1
    for (int64_t j = first; j <= last; ++j)
      sum += call.dy.at(at[1], j) * call.x.at(at[0], j) * powf(call.denominator(at[0], j), -call.beta - 1);
    const float own = call.dy.at(at[1], c) * powf(call.denominator(at[0], c), -call.beta);
    call.out.of.store<float>(at[2] + c * call.out.stride, own - 2 * call.alpha * call.beta * call.x.at(at[0], c) * sum);
  }
}

// The view with one channel for all, so that walks give positions.
View positions_of(const View& view) {
  View positions = view;
  positions.strides[1] = 0;
  return positions;
}

LrnCall lrn_call(const KernelCall& call, const View& x, const View* dy) {
  const auto& p = call.as<LrnParams>();
  const View& out = call.out[0];
  const View x_positions = positions_of(x), out_positions = positions_of(out), dy_positions = dy ? positions_of(*dy) : View{};
  View channel = x;
  for (int64_t& stride : channel.strides) stride = 0;
  channel.strides[1] = 1;
  return {.x = channels_of(x),
          .dy = dy ? channels_of(*dy) : Channels{},
          .out = channels_of(out),
          .channels = x.dims[1],
          .size = p.size,
          .k = static_cast<float>(p.k),
          .alpha = static_cast<float>(p.alpha),
          .beta = static_cast<float>(p.beta),
          .walk = make_walk<4>(out, {&x_positions, dy ? &dy_positions : nullptr, &out_positions, &channel})};
}

void forward(const KernelCall& call) {
  const LrnCall all = lrn_call(call, call.in[0], nullptr);
  Launches on(*call.queue, "lrn");
  on.launch(lrn_kernel, blocks_for(all.walk.n), kThreads, all);
}

void backward(const KernelCall& call) {
  const LrnCall all = lrn_call(call, call.in[1], &call.in[0]);
  Launches on(*call.queue, "lrn_grad");
  on.launch(lrn_grad_kernel, blocks_for(all.walk.n), kThreads, all);
}

const Kernel kKernels[] = {
    {.op = "lrn", .name = "channels", .backend = Backend::cuda, .decline = decline_unless_f32, .run = forward},
    {.op = "lrn_grad", .name = "channels", .backend = Backend::cuda, .decline = decline_unless_f32, .run = backward},
};

}  // namespace

extern const KernelList kernels_cuda_lrn;
const KernelList kernels_cuda_lrn = kernel_list(kKernels);

}  // namespace perigee
