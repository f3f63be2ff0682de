// conv2d and its adjoints by cuDNN: bias and relu in the forward pass where cuDNN has an engine for it, else by a pass of ours. Tensor cores
// want channels last in images and kernels alike, so a kernel of the block is turned to that order first, and its gradient back.
// Floor: 2 N OH OW O C/G kh kw operations at the tensor cores' rate, or images and kernels moved once.
#include <algorithm>

#include "kernels/cuda/conv/conv_repack.h"
#include "kernels/cuda/library/cudnn_conv.h"
#include "kernels/cuda/library/libraries.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

// A call by its roles: x and y are dx and dy in the adjoints, w is dw in grad_weight.
struct Roles {
  const View *x, *w, *y;
  const View* bias = nullptr;
};

template <ConvDirection Direction>
Roles roles_of(const KernelCall& call) {
  if constexpr (Direction == ConvDirection::grad_input) return {&call.out[0], &call.in[1], &call.in[0]};
  if constexpr (Direction == ConvDirection::grad_weight) return {&call.in[1], &call.out[0], &call.in[0]};
  return {&call.in[0], &call.in[1], &call.out[0], call.n_in > 2 && call.in[2].data != nullptr ? &call.in[2] : nullptr};
}

bool is_channels_last(const Roles& r) { return r.x->channels_last() && r.y->channels_last(); }
int64_t area_of(const View& w) { return w.dims[2] * w.dims[3]; }

// Whether the kernel's order in memory is not the one that cuDNN is given.
bool repacks(const Roles& r) { return is_channels_last(r) ? !r.w->channels_last() : !r.w->contiguous(); }

size_t kernel_bytes(const View& w) { return static_cast<size_t>(w.elements()) * dtype_bytes(w.dtype); }

template <ConvDirection Direction>
CudnnConv describe(const KernelCall& call) {
  const Roles r = roles_of<Direction>(call);
  CudnnConv conv{.direction = Direction,
                 .dtype = r.x->dtype,
                 .channels_last = is_channels_last(r),
                 .params = call.as<ConvParams>(),
                 .bias = r.bias != nullptr,
                 .accumulate = Direction == ConvDirection::grad_input && call.accumulate};
  if (Direction != ConvDirection::forward) conv.params.relu = 0;
  std::copy_n(r.x->dims, 4, conv.image);
  std::copy_n(r.w->dims, 4, conv.kernel);
  std::copy_n(r.y->dims, 4, conv.result);
  return conv;
}

template <ConvDirection Direction>
const char* decline(const KernelCall& call) {
  if (const char* why = cuda_library_missing(CudaLibrary::cudnn)) return why;
  const Roles r = roles_of<Direction>(call);
  const ConvParams& p = call.as<ConvParams>();
  const Dtype dtype = r.x->dtype;
  if (dtype != Dtype::f32 && dtype != Dtype::f16 && dtype != Dtype::bf16) return "only f32, f16 and bf16";
  if (r.w->dtype != dtype || r.y->dtype != dtype || (r.bias != nullptr && r.bias->dtype != dtype)) return "mixed dtypes";
  if (r.x->elements() == 0 || r.y->elements() == 0) return "no elements";
  if (p.padding[0] != p.padding[1] || p.padding[2] != p.padding[3]) return "padding that differs from side to side";
  if (!is_channels_last(r) && !(r.x->contiguous() && r.y->contiguous())) return "images of unlike layouts, or with gaps";
  if (!r.w->contiguous() && !r.w->channels_last()) return "a kernel with gaps";
  if (r.w->elements() > kMostRepacked) return "a kernel of more than 2^30 elements";
  if (r.bias != nullptr && r.bias->dims[0] != 1 && r.bias->strides[0] != 1) return "a bias with gaps";
  return nullptr;
}

template <ConvDirection Direction>
size_t scratch_bytes(const KernelCall& call) {
  const Roles r = roles_of<Direction>(call);
  const bool adds = Direction == ConvDirection::grad_weight && call.accumulate;
  return repacks(r) || adds ? kernel_bytes(*r.w) : 0;
}

// Between the block's order and cuDNN's.
Repack repack_of(const View& w, bool to_cudnn) {
  const bool by_channel = w.contiguous();  // the block's order is [O, C, area], the other [O, area, C]
  Repack repack{.dtype = w.dtype, .outer = w.dims[0], .rows = w.dims[1], .columns = area_of(w)};
  if (by_channel != to_cudnn) std::swap(repack.rows, repack.columns);
  return repack;
}

void no_plan(CudaQueue& queue, const char* name) { report_library(queue, name, "cuDNN has no plan for this shape within the workspace"); }

// The kernel as cuDNN wants it.
void* kernel_for(const Roles& r, const KernelCall& call) {
  if (!repacks(r)) return r.w->data;
  Repack repack = repack_of(*r.w, true);
  repack.from = r.w->data, repack.to = call.scratch;
  queue_repack(repack, *call.queue);
  return call.scratch;
}

void run_forward(const KernelCall& call) {
  constexpr const char* kName = "conv2d cudnn";
  const Roles r = roles_of<ConvDirection::forward>(call);
  CudnnConv conv = describe<ConvDirection::forward>(call);
  const CudnnConvData data{.image = r.x->data, .kernel = kernel_for(r, call), .result = r.y->data, .bias = r.bias ? r.bias->data : nullptr};
  if (queue_cudnn_conv(conv, data, *call.queue, kName)) return;
  const bool relu = conv.params.relu != 0;
  if (!conv.bias && !relu) return no_plan(*call.queue, kName);
  conv.bias = false, conv.params.relu = 0;
  if (!queue_cudnn_conv(conv, data, *call.queue, kName)) return no_plan(*call.queue, kName);
  queue_conv_epilogue({.dtype = conv.dtype,
                       .y = data.result,
                       .bias = data.bias,
                       .elements = r.y->elements(),
                       .channels = r.y->dims[1],
                       .inner = conv.channels_last ? 1 : r.y->dims[2] * r.y->dims[3],
                       .relu = relu},
                      *call.queue);
}

void run_grad_input(const KernelCall& call) {
  constexpr const char* kName = "conv2d_grad_input cudnn";
  const Roles r = roles_of<ConvDirection::grad_input>(call);
  const CudnnConvData data{.image = r.x->data, .kernel = kernel_for(r, call), .result = r.y->data};
  if (!queue_cudnn_conv(describe<ConvDirection::grad_input>(call), data, *call.queue, kName)) no_plan(*call.queue, kName);
}

void run_grad_weight(const KernelCall& call) {
  constexpr const char* kName = "conv2d_grad_weight cudnn";
  const Roles r = roles_of<ConvDirection::grad_weight>(call);
  const bool beside = repacks(r) || call.accumulate;
  const CudnnConvData data{.image = r.x->data, .kernel = beside ? call.scratch : r.w->data, .result = r.y->data};
  if (!queue_cudnn_conv(describe<ConvDirection::grad_weight>(call), data, *call.queue, kName)) return no_plan(*call.queue, kName);
  if (!beside) return;
  Repack repack = repacks(r) ? repack_of(*r.w, false) : Repack{.dtype = r.w->dtype, .outer = 1, .rows = 1, .columns = r.w->elements()};
  repack.from = call.scratch, repack.to = r.w->data, repack.accumulate = call.accumulate;
  queue_repack(repack, *call.queue);
}

template <ConvDirection Direction>
constexpr Kernel kernel(const char* op, void (*run)(const KernelCall&), bool accumulates) {
  return {.op = op,
          .name = "cudnn",
          .backend = Backend::cuda,
          .decline = decline<Direction>,
          .run = run,
          .scratch_bytes = scratch_bytes<Direction>,
          .accumulates = accumulates};
}

constexpr Kernel kKernels[] = {
    kernel<ConvDirection::forward>("conv2d", run_forward, false),
    kernel<ConvDirection::grad_input>("conv2d_grad_input", run_grad_input, true),
    kernel<ConvDirection::grad_weight>("conv2d_grad_weight", run_grad_weight, true),
};

}  // namespace

extern const KernelList kernels_cuda_conv_cudnn;
const KernelList kernels_cuda_conv_cudnn = kernel_list(kKernels);

}  // namespace perigee
