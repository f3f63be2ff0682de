#include "kernels/ops/ctc.h"

#include "kernels/registry.h"

namespace perigee {
namespace {

template <class T, bool gradient>
void run_ctc_typed(const KernelCall& call) {
  const View &x = call.in[0], &labels = call.in[1], &out = call.out[0];
  const View* const steps = call.n_in > 2 + gradient ? &call.in[2 + gradient] : nullptr;
  const CtcParams& p = call.as<CtcParams>();
  for (int64_t n = 0; n < x.dims[0]; ++n) {
    const int64_t count = steps && steps->data ? steps->as<int64_t>()[n * steps->strides[0]] : x.dims[2];
    const CtcExample<T> example{x.as<T>() + n * x.strides[0],
                                x.strides[1],
                                x.strides[2],
                                x.dims[1],
                                count,
                                labels.as<int64_t>() + n * labels.strides[0],
                                labels.strides[1],
                                labels.dims[1],
                                p.blank};
    T* const scratch = static_cast<T*>(call.scratch);
    T* const to = out.as<T>() + n * out.strides[0];
    if constexpr (gradient)
      ctc_of(example, p, x.dims[2], call.in[2].as<T>()[n * call.in[2].strides[0]], scratch, to, out.strides[1], out.strides[2]);
    else *to = ctc_of<T>(example, p, x.dims[2], T(1), scratch, nullptr, 0, 0);
  }
}

template <bool gradient>
void run_ctc(const KernelCall& call) {
  if (call.in[0].dtype == Dtype::f64) run_ctc_typed<double, gradient>(call);
  else run_ctc_typed<float, gradient>(call);
}

size_t ctc_scratch_bytes(const KernelCall& call) {
  const View& x = call.in[0];
  return static_cast<size_t>(ctc_scratch(x.dims[1], x.dims[2], call.in[1].dims[1])) * sizeof(double);
}

constexpr Kernel kCtcKernels[] = {
    {.op = "ctc", .name = "ref", .run = run_ctc<false>, .scratch_bytes = ctc_scratch_bytes},
    {.op = "ctc_grad", .name = "ref", .run = run_ctc<true>, .scratch_bytes = ctc_scratch_bytes},
};

}  // namespace

extern const KernelList kernels_ref_ctc;
const KernelList kernels_ref_ctc = kernel_list(kCtcKernels);

}  // namespace perigee
