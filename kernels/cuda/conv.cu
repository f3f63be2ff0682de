// Convolution and its gradients as sums of products (tile.cuh) over patches that are never written out: for machines without cuDNN, and for
// any strides. 2 N OH OW O (C/G) kh kw operations each.
#include "kernels/cuda/conv_loaders.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

// None of these pools, whatever the params say of it.
ConvLoops shape_of(const KernelCall& call, const View& x, const View& w, const View& y) {
  ConvLoops shape(call.as<ConvParams>(), x, w, y);
  shape.p.pool[0] = shape.p.pool[1] = 1;
  return shape;
}

ConvLoops forward_shape(const KernelCall& call) { return shape_of(call, call.in[0], call.in[1], call.out[0]); }
ConvLoops grad_input_shape(const KernelCall& call) { return shape_of(call, call.out[0], call.in[1], call.in[0]); }
ConvLoops grad_weight_shape(const KernelCall& call) { return shape_of(call, call.in[1], call.out[0], call.in[0]); }

void conv2d(const KernelCall& call) {
  const View &x = call.in[0], &w = call.in[1], &y = call.out[0];
  const ConvLoops shape = forward_shape(call);
  const int64_t groups = shape.p.groups;
  const MatrixLoader<float> weights{.of = Elements(w),
                                    .lines = stride_index(shape.outputs, w.strides[0]),
                                    .depth = tap_index(w, 1, shape.inputs),
                                    .batches = stride_index(groups, shape.outputs * w.strides[0])};
  MatrixResult<float> result{.to = Elements(y),
                             .rows = pixel_index(y),
                             .columns = stride_index(shape.outputs, y.strides[1]),
                             .batches = stride_index(groups, shape.outputs * y.strides[1]),
                             .relu = shape.p.relu != 0};
  if (call.n_in > 2 && call.in[2].data != nullptr) {
    result.bias = Elements(call.in[2]);
    result.bias_stride = call.in[2].strides[0];
    result.bias_batch = shape.outputs * result.bias_stride;
  }
  Launches on(*call.queue, "conv2d");
  run_tiles<float>(on, PatchLoader(shape, x), weights, result, shape.pixels(), shape.outputs, shape.taps() * shape.inputs, groups,
                   call.scratch);
}

void conv2d_grad_input(const KernelCall& call) {
  const View& dy = call.in[0];
  Launches on(*call.queue, "conv2d_grad_input");
  run_grad_input(on, call, grad_input_shape(call), PlainSource(dy), call.in[1], dy.dims[2], dy.dims[3]);
}

void conv2d_grad_weight(const KernelCall& call) {
  Launches on(*call.queue, "conv2d_grad_weight");
  run_grad_weight(on, call, grad_weight_shape(call), PlainSource(call.in[0]), call.in[1]);
}

size_t scratch_forward(const KernelCall& call) {
  const ConvLoops shape = forward_shape(call);
  return tile_scratch<float>(shape.pixels(), shape.outputs, shape.taps() * shape.inputs, shape.p.groups);
}
size_t scratch_grad_input(const KernelCall& call) { return grad_input_scratch(grad_input_shape(call)); }
size_t scratch_grad_weight(const KernelCall& call) { return grad_weight_scratch(grad_weight_shape(call)); }

constexpr Kernel kernel(const char* op, void (*run)(const KernelCall&), size_t (*scratch)(const KernelCall&), bool accumulates) {
  return {.op = op,
          .name = "tiles",
          .backend = Backend::cuda,
          .decline = decline_unless_f32,
          .run = run,
          .scratch_bytes = scratch,
          .accumulates = accumulates};
}

const Kernel kKernels[] = {
    kernel("conv2d", conv2d, scratch_forward, false),
    kernel("conv2d_grad_input", conv2d_grad_input, scratch_grad_input, true),
    kernel("conv2d_grad_weight", conv2d_grad_weight, scratch_grad_weight, true),
};

}  // namespace

extern const KernelList kernels_cuda_conv;
const KernelList kernels_cuda_conv = kernel_list(kKernels);

}  // namespace perigee
