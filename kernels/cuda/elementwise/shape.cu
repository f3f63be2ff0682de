// concatenate and pad are copies into windows of the result: each element is read and written once, and what pad leaves free is filled.
#include "kernels/ops/shape.h"

#include "kernels/cuda/elementwise/moves.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

void concatenate(const KernelCall& call) {
  const int axis = call.as<ConcatenateParams>().axis;
  const View& out = call.out[0];
  Launches on(*call.queue, "concatenate");
  int64_t begin = 0;
  for (int i = 0; i < call.n_in; ++i) {
    View window = out;
    window.dims[axis] = call.in[i].dims[axis];
    window.data = out.as<std::byte>() + begin * out.strides[axis] * static_cast<int64_t>(dtype_bytes(out.dtype));
    if (window.dims[axis] > 0) copy_view(on, call.in[i], window, call.accumulate);
    begin += call.in[i].dims[axis];
  }
}

// The part of `in` that lands inside `out`, and where it lands. False when nothing does.
bool windows_of(const PadParams& params, View* in, View* out) {
  const auto bytes = static_cast<int64_t>(dtype_bytes(in->dtype));
  int64_t from = 0, to = 0;
  for (int d = 0; d < in->rank; ++d) {
    const int64_t before = params.before[d], step = params.interior[d] + 1;
    const int64_t first = before < 0 ? ceil_divide(-before, step) : 0;
    const int64_t behind = min(in->dims[d], before < out->dims[d] ? ceil_divide(out->dims[d] - before, step) : 0);
    if (first >= behind) return false;
    from += first * in->strides[d];
    to += (before + first * step) * out->strides[d];
    in->dims[d] = out->dims[d] = behind - first;
    out->strides[d] *= step;
  }
  in->data = in->as<std::byte>() + from * bytes;
  out->data = out->as<std::byte>() + to * bytes;
  return true;
}

void pad(const KernelCall& call) {
  const auto& params = call.as<PadParams>();
  Launches on(*call.queue, "pad");
  if (!call.accumulate) fill_view(on, call.out[0], params.value, false);
  View in = call.in[0], window = call.out[0];
  if (windows_of(params, &in, &window)) copy_view(on, in, window, call.accumulate);
}

const char* decline_pad(const KernelCall& call) {
  return call.accumulate && call.as<PadParams>().value != 0 ? "padding that is not zero is not accumulated" : nullptr;
}

const Kernel kKernels[] = {
    {.op = "concatenate", .name = "windows", .backend = Backend::cuda, .run = concatenate, .accumulates = true},
    {.op = "pad", .name = "windows", .backend = Backend::cuda, .decline = decline_pad, .run = pad, .accumulates = true},
};

}  // namespace

extern const KernelList kernels_cuda_shape;
const KernelList kernels_cuda_shape = kernel_list(kKernels);

}  // namespace perigee
