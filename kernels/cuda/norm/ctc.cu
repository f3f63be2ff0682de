// The loss of labels without places: a thread takes one example, with the paths of its steps in scratch memory.
#include "kernels/ops/ctc.h"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

struct Call {
  CtcParams p;
  View x, labels, flow, steps, out;
  void* scratch;
  int64_t room;  // numbers of scratch memory for an example
  bool gradient;
};

template <class T>
__device__ T* numbers(const View& view) {
  return static_cast<T*>(view.data);
}

template <class T>
__global__ void __launch_bounds__(kThreads) ctc_kernel(const __grid_constant__ Call call) {
  begin_kernel();
#pragma unroll 1
  for (int64_t n = thread_of_grid(); n < call.x.dims[0]; n += threads_of_grid()) {
    const int64_t steps = call.steps.data ? numbers<int64_t>(call.steps)[n * call.steps.strides[0]] : call.x.dims[2];
    const CtcExample<T> example{numbers<T>(call.x) + n * call.x.strides[0],
                                call.x.strides[1],
                                call.x.strides[2],
                                call.x.dims[1],
                                steps,
                                numbers<int64_t>(call.labels) + n * call.labels.strides[0],
                                call.labels.strides[1],
                                call.labels.dims[1],
                                call.p.blank};
    T* const to = numbers<T>(call.out) + n * call.out.strides[0];
    const T flow = call.gradient ? numbers<T>(call.flow)[n * call.flow.strides[0]] : T(1);
    const T loss =
        ctc_of<T>(example, call.p, call.x.dims[2], flow, static_cast<T*>(call.scratch) + n * call.room, call.gradient ? to : nullptr,
                  call.gradient ? call.out.strides[1] : 0, call.gradient ? call.out.strides[2] : 0);
    if (!call.gradient) *to = loss;
  }
}

int64_t room_of(const KernelCall& call) { return ctc_scratch(call.in[0].dims[1], call.in[0].dims[2], call.in[1].dims[1]); }

template <bool kGradient>
void run(const KernelCall& call) {
  constexpr int kSteps = kGradient ? 3 : 2;
  const Call all{call.as<CtcParams>(),
                 call.in[0],
                 call.in[1],
                 kGradient ? call.in[2] : View(),
                 call.n_in > kSteps ? call.in[kSteps] : View(),
                 call.out[0],
                 call.scratch,
                 room_of(call),
                 kGradient};
  if (all.x.dims[0] == 0) return;
  Launches on(*call.queue, kGradient ? "ctc_grad" : "ctc");
  on.launch(all.x.dtype == Dtype::f64 ? ctc_kernel<double> : ctc_kernel<float>, blocks_for(all.x.dims[0]), kThreads, all);
}

size_t scratch_bytes(const KernelCall& call) {
  return static_cast<size_t>(call.in[0].dims[0] * room_of(call)) * dtype_bytes(call.in[0].dtype);
}

const char* decline(const KernelCall& call) {
  return call.in[0].dtype == Dtype::f32 || call.in[0].dtype == Dtype::f64 ? nullptr : "takes f32 and f64";
}

const Kernel kKernels[] = {
    {.op = "ctc", .name = "examples", .backend = Backend::cuda, .decline = decline, .run = run<false>, .scratch_bytes = scratch_bytes},
    {.op = "ctc_grad", .name = "examples", .backend = Backend::cuda, .decline = decline, .run = run<true>, .scratch_bytes = scratch_bytes},
};

}  // namespace

extern const KernelList kernels_cuda_ctc;
const KernelList kernels_cuda_ctc = kernel_list(kKernels);

}  // namespace perigee
