// batch_norm and its gradients by cuDNN: its kernels keep in registers and shared memory what they have read, as far as that goes, so that
// images need not be read twice as by ours. They sum in f32. Ours come first in the table; a measurement decides.
#include "kernels/cuda/library/cudnn_norm.h"
#include "kernels/cuda/library/libraries.h"
#include "kernels/cuda/norm/norm_statistics.h"
#include "kernels/ops/batch_norm.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

View given(const KernelCall& call, int input) { return call.n_in > input ? call.in[input] : View(); }

// Checks that both passes share; absent images are skipped.
const char* decline_operands(std::initializer_list<View> images, std::initializer_list<View> by_channel) {
  if (const char* why = cuda_library_missing(CudaLibrary::cudnn)) return why;
  const View& x = *images.begin();
  if (x.dtype != Dtype::f32 && x.dtype != Dtype::f16 && x.dtype != Dtype::bf16) return "only f32, f16 and bf16";
  if (x.rank != 4 && x.rank != 2) return "only images, and rows of features";
  if (x.elements() == 0) return "no elements";
  if (x.dims[1] * static_cast<int64_t>(dtype_bytes(x.dtype)) % 16 != 0) return "channels that are not a multiple of 16 bytes";
  for (const View& image : images) {
    if (image.data == nullptr) continue;
    if (image.dtype != x.dtype) return "mixed dtypes";
    if (image.rank == 4 ? !image.channels_last() : !image.contiguous()) return "images whose channels do not lie last, or with gaps";
  }
  for (const View& numbers : by_channel) {
    if (numbers.data == nullptr) return "without gamma or beta";
    if (numbers.dtype != Dtype::f32 || (numbers.dims[0] != 1 && numbers.strides[0] != 1))
      return "numbers by channel that are not f32, or with gaps";
  }
  return nullptr;
}

CudnnNorm describe(const View& x, const BatchNormParams& params) {
  CudnnNorm norm{.dtype = x.dtype, .image = {x.dims[0], x.dims[1], 1, 1}, .relu = params.relu != 0};
  for (int d = 2; d < x.rank; ++d) norm.image[d] = x.dims[d];
  return norm;
}

size_t inverse_bytes(const View& x) { return static_cast<size_t>(x.dims[1]) * sizeof(float); }
size_t forward_scratch(const KernelCall& call) { return inverse_bytes(call.in[0]); }
size_t backward_scratch(const KernelCall& call) { return inverse_bytes(call.in[1]); }

void no_plan(CudaQueue& queue, const char* name) { report_library(queue, name, "cuDNN has no plan for this within the workspace"); }

const char* decline_forward(const KernelCall& call) {
  if (given(call, 3).data != nullptr && call.as<BatchNormParams>().relu == 0) return "a residual without relu";
  return decline_operands({call.in[0], call.out[0], given(call, 3)}, {given(call, 1), given(call, 2), call.out[1], call.out[2]});
}

void run_forward(const KernelCall& call) {
  constexpr const char* kName = "batch_norm cudnn";
  const auto& params = call.as<BatchNormParams>();
  const View& x = call.in[0];
  CudnnNorm norm = describe(x, params);
  norm.residual = given(call, 3).data != nullptr;
  const CudnnNormData data{.x = x.data,
                           .residual = given(call, 3).data,
                           .gamma = call.in[1].data,
                           .beta = call.in[2].data,
                           .mean = call.out[1].data,
                           .inverse = call.scratch,
                           .y = call.out[0].data,
                           .epsilon = static_cast<float>(params.epsilon)};
  if (!queue_cudnn_norm(norm, data, *call.queue, kName)) return no_plan(*call.queue, kName);
  queue_norm_statistics({.from = static_cast<const float*>(call.scratch),
                         .to = call.out[2].as<float>(),
                         .channels = x.dims[1],
                         .epsilon = static_cast<double>(data.epsilon),
                         .to_variance = true},
                        *call.queue);
}

const char* decline_backward(const KernelCall& call) {
  const auto& params = call.as<BatchNormParams>();
  const bool keeps = params.residual != 0, masked = call.in[2].data != nullptr;
  if (keeps && !(params.relu != 0 && masked)) return "a residual's gradient without relu and its result";
  const View beta = params.relu != 0 && !masked ? call.in[4] : call.in[5];  // else unused
  return decline_operands({call.in[1], call.in[0], call.in[2], call.out[0], keeps ? call.out[3] : View()},
                          {call.in[3], beta, call.in[5], call.in[6], call.out[1], call.out[2]});
}

void run_backward(const KernelCall& call) {
  constexpr const char* kName = "batch_norm_grad cudnn";
  const auto& params = call.as<BatchNormParams>();
  const View& x = call.in[1];
  CudnnNorm norm = describe(x, params);
  norm.backward = true, norm.residual = norm.relu && call.in[2].data != nullptr, norm.keeps_masked = params.residual != 0;
  CudnnNormData data{.x = x.data,
                     .gamma = call.in[3].data,
                     .mean = call.in[5].data,
                     .inverse = call.scratch,
                     .dy = call.in[0].data,
                     .dx = call.out[0].data,
                     .dgamma = call.out[1].data,
                     .dbeta = call.out[2].data};
  if (norm.residual) data.y = call.in[2].data;
  else if (norm.relu) data.beta = call.in[4].data;
  if (norm.keeps_masked) data.masked = call.out[3].data;
  queue_norm_statistics({.from = call.in[6].as<float>(),
                         .to = static_cast<float*>(call.scratch),
                         .channels = x.dims[1],
                         .epsilon = static_cast<double>(static_cast<float>(params.epsilon))},
                        *call.queue);
  if (!queue_cudnn_norm(norm, data, *call.queue, kName)) no_plan(*call.queue, kName);
}

constexpr Kernel kernel(const char* op, const char* (*decline)(const KernelCall&), void (*run)(const KernelCall&),
                        size_t (*scratch)(const KernelCall&)) {
  return {.op = op, .name = "cudnn", .backend = Backend::cuda, .decline = decline, .run = run, .scratch_bytes = scratch};
}

constexpr Kernel kKernels[] = {
    kernel("batch_norm", decline_forward, run_forward, forward_scratch),
    kernel("batch_norm_grad", decline_backward, run_backward, backward_scratch),
};

}  // namespace

extern const KernelList kernels_cuda_batch_norm_cudnn;
const KernelList kernels_cuda_batch_norm_cudnn = kernel_list(kKernels);

}  // namespace perigee
