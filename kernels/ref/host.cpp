// Calls the program's functions, on copies of those operands that do not lie contiguous.
#include "kernels/ops/host.h"

#include <cstring>

#include "kernels/registry.h"

namespace perigee {
namespace {

size_t bytes_of(const View& view) { return (static_cast<size_t>(view.elements()) * dtype_bytes(view.dtype) + 63) / 64 * 64; }

size_t host_scratch_bytes(const KernelCall& call) {
  size_t bytes = 0;
  for (int i = 0; i < call.n_in; ++i) bytes += call.in[i].contiguous() ? 0 : bytes_of(call.in[i]);
  for (int i = 0; i < call.n_out; ++i) bytes += call.out[i].contiguous() ? 0 : bytes_of(call.out[i]);
  return bytes;
}

void copy_host_dim(const View& x, const View& y, int dim, const std::byte* from, std::byte* to) {
  const size_t width = dtype_bytes(x.dtype);
  if (dim == x.rank) {
    std::memcpy(to, from, width);
    return;
  }
  const auto step = static_cast<int64_t>(width);
  for (int64_t i = 0; i < x.dims[dim]; ++i) copy_host_dim(x, y, dim + 1, from + i * x.strides[dim] * step, to + i * y.strides[dim] * step);
}

void copy(const View& x, const View& y) { copy_host_dim(x, y, 0, x.as<std::byte>(), y.as<std::byte>()); }

// The operand itself, or room for it in the scratch memory.
View packed(const View& view, std::byte*& scratch) {
  if (view.contiguous()) return view;
  View dense = view;
  int64_t stride = 1;
  for (int d = view.rank - 1; d >= 0; --d) {
    dense.strides[d] = stride;
    stride *= view.dims[d];
  }
  dense.data = scratch;
  scratch += bytes_of(view);
  return dense;
}

template <class Call>
void with_contiguous(const KernelCall& call, Call run) {
  View in[kMaxHostOperands + 2], out[kMaxHostOperands];
  auto* scratch = static_cast<std::byte*>(call.scratch);
  for (int i = 0; i < call.n_in; ++i) {
    in[i] = packed(call.in[i], scratch);
    if (in[i].data != call.in[i].data) copy(call.in[i], in[i]);
  }
  for (int i = 0; i < call.n_out; ++i) out[i] = packed(call.out[i], scratch);
  run(call.as<HostParams>(), in, out);
  for (int i = 0; i < call.n_out; ++i)
    if (out[i].data != call.out[i].data) copy(out[i], call.out[i]);
}

void forward_host(const KernelCall& call) {
  with_contiguous(call, [&](const HostParams& host, const View* in, const View* out) {
    host.kernel.forward(host.kernel.definition, host.options, in, call.n_in, out[0]);
  });
}

void backward_host(const KernelCall& call) {
  with_contiguous(call, [&](const HostParams& host, const View* in, const View* out) {
    host.kernel.backward(host.kernel.definition, host.options, in, call.n_in, out, call.n_out);
  });
}

const Kernel kHostKernels[] = {
    {.op = "host", .name = "ref", .run = forward_host, .scratch_bytes = host_scratch_bytes},
    {.op = "host_grad", .name = "ref", .run = backward_host, .scratch_bytes = host_scratch_bytes},
};

}  // namespace

extern const KernelList kernels_ref_host;
const KernelList kernels_ref_host = kernel_list(kHostKernels);

}  // namespace perigee
