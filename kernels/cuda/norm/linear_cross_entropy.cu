// A classifier's head in one launch. A block takes a row, with one barrier: its warps multiply the row with the weight's, up to four classes
// each at once; then every warp makes the loss and the gradient of the logits, a lane a class, in the order of softmax.cu, so that both have
// its bits; its threads multiply that with the weight's columns, which the first cache still has. No sum goes over rows, so blocks do not wait
// for each other. Floor: x read and its gradient written once, the weight read by each multiprocessor, 4 N K C operations.
#include "kernels/ops/linear_cross_entropy.h"

#include <algorithm>
#include <cstring>

#include "kernels/cuda/reduce/rows.cuh"
#include "kernels/cuda/runtime/registry.h"

namespace perigee {
namespace {

constexpr int kHeadThreads = 128;
constexpr int kHeadWarps = kHeadThreads / kWarp;
constexpr int kClasses = 4;   // of a warp at once
constexpr int kAhead = 4;     // vectors of a row that are read together
constexpr int kTogether = 8;  // vectors of a column, one a class
using Floats = Vector<float>;
constexpr int kWidth = Floats::kLanes;
static_assert(kHeadClasses <= kWarp && kWarp % kTogether == 0);

struct HeadCall {
  const float *x, *weight, *bias, *flow;
  const int64_t* classes;
  float *logits, *losses, *slopes, *dx;
  int inputs, outputs;
  int64_t x_row, weight_row, dx_row, logits_row, logits_column, slopes_row, slopes_column;
  int64_t bias_stride, flow_stride, classes_stride, losses_stride;
  float keep, rest;  // of cross_entropy's q
  bool relu;
};

// Per class the logit, and per warp the logits' gradient. No templates, so that the test's stand-in for a GPU can fill them with
// rubbish.
static __device__ inline float* logits_room() {
  __shared__ float room[kHeadClasses];
  return room;
}
static __device__ inline float* slopes_room() {
  __shared__ float room[kHeadWarps][kWarp];
  return room[warp_of_block()];
}

__device__ inline Floats floats_at(const float* from) { return *reinterpret_cast<const Floats*>(from); }

// Loops go as often in all warps: the compiler then knows that a warp's lanes meet in the sums.
__device__ inline void head_logits(const HeadCall& call, const float* x) {
  const int lane = lane_of_warp();
#pragma unroll 1
  for (int all = 0; all < call.outputs; all += kClasses * kHeadWarps) {
    const int first = all + warp_of_block();
    const float* weights[kClasses];  // behind the last class, that again
    for (int c = 0; c < kClasses; ++c)
      weights[c] = call.weight + min(first + c * kHeadWarps, call.outputs - 1) * call.weight_row + lane * kWidth;
    float sum[kClasses] = {};
#pragma unroll 1
    for (int begin = 0; begin < call.inputs; begin += kAhead * kWarp * kWidth) {
      Floats of_x[kAhead] = {}, of_weight[kClasses][kAhead] = {};
      for (int a = 0; a < kAhead; ++a) {
        const int k = begin + a * kWarp * kWidth;
        if (k + lane * kWidth >= call.inputs) continue;
        of_x[a] = floats_at(x + k + lane * kWidth);
        for (int c = 0; c < kClasses; ++c) of_weight[c][a] = floats_at(weights[c] + k);
      }
      for (int a = 0; a < kAhead; ++a)
        for (int l = 0; l < kWidth; ++l)
          for (int c = 0; c < kClasses; ++c) sum[c] = fmaf(of_x[a].lane[l], of_weight[c][a].lane[l], sum[c]);
    }
    for (int c = 0; c < kClasses; ++c) {
      const float logit = group_sum<kWarp>(sum[c]);
      if (lane == c && first + c * kHeadWarps < call.outputs) logits_room()[first + c * kHeadWarps] = logit;
    }
  }
}

// All warps alike; the first one writes.
__device__ inline void head_loss(const HeadCall& call, int64_t row, int64_t chosen, float flow, float bias) {
  const int c = lane_of_warp();
  const bool there = c < call.outputs, writes = there && warp_of_block() == 0;
  const float x = there ? logits_room()[c] + bias : -INFINITY, top = group_largest<kWarp>(x);
  const float total = top + std::log(group_sum<kWarp>(there ? std::exp(x - top) : 0.0f));
  const bool valid = chosen >= 0 && chosen < call.outputs;
  const float q = call.keep * static_cast<float>(c == chosen) + call.rest;
  const float loss = group_sum<kWarp>(there ? q * (total - x) : 0.0f), mass = group_sum<kWarp>(there ? q : 0.0f);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const float slope = (std::exp(x - total) * (valid ? mass : kNan) - q) * flow;
  if (writes && c == 0) call.losses[row * call.losses_stride] = valid ? loss : kNan;
  if (writes) call.logits[row * call.logits_row + c * call.logits_column] = x;
  if (writes) call.slopes[row * call.slopes_row + c * call.slopes_column] = slope;
  slopes_room()[c] = there ? slope : 0;
  __syncwarp();
}

// A thread takes four columns.
__device__ inline void head_back(const HeadCall& call, const float* x, float* dx) {
#pragma unroll 1
  for (int k = static_cast<int>(threadIdx.x) * kWidth; k < call.inputs; k += kHeadThreads * kWidth) {
    const float* weight = call.weight + k;
    const Floats kept = call.relu ? floats_at(x + k) : Floats{{1, 1, 1, 1}};
    Floats sum = {};
#pragma unroll 1
    for (int all = 0; all < call.outputs; all += kTogether) {
      Floats of_weight[kTogether] = {};
      for (int c = 0; c < kTogether; ++c, weight += call.weight_row)
        if (all + c < call.outputs) of_weight[c] = floats_at(weight);
      for (int c = 0; c < kTogether; ++c)
        for (int l = 0; l < kWidth; ++l) sum.lane[l] = fmaf(slopes_room()[all + c], of_weight[c].lane[l], sum.lane[l]);
    }
    for (int l = 0; l < kWidth; ++l)
      if (!(kept.lane[l] > 0)) sum.lane[l] = 0;
    *reinterpret_cast<Floats*>(dx + k) = sum;
  }
}

__global__ void __launch_bounds__(kHeadThreads, 4) head_kernel(const __grid_constant__ HeadCall call) {
  begin_kernel();
  const int64_t row = blockIdx.x;
  const float* const x = call.x + row * call.x_row;
  // Read ahead.
  const int64_t chosen = call.classes[row * call.classes_stride];
  const float flow = call.flow[row * call.flow_stride];
  const int c = lane_of_warp();
  const float bias = call.bias != nullptr && c < call.outputs ? call.bias[c * call.bias_stride] : 0;
  head_logits(call, x);
  __syncthreads();
  head_loss(call, row, chosen, flow, bias);
  head_back(call, x, call.dx + row * call.dx_row);
}

bool has_bias(const KernelCall& call) { return call.n_in > 4 && call.in[4].data != nullptr; }

// The four ops one after the other, each by the kernel that would be the first choice for it.
const Kernel* kernel_for(const char* op, const KernelCall& call) {
  for (const KernelList& list : cuda_kernel_lists())
    for (size_t i = 0; i < list.count; ++i)
      if (const Kernel& kernel = list.first[i]; std::strcmp(op, kernel.op) == 0 && (!kernel.decline || !kernel.decline(call)))
        return &kernel;
  return nullptr;
}

void run_part(const char* op, const KernelCall& call, void*) { kernel_for(op, call)->run(call); }
void need_part(const char* op, const KernelCall& call, void* why) {
  if (kernel_for(op, call) == nullptr) *static_cast<const char**>(why) = "an op that it stands for has no kernel";
}
void room_of_part(const char* op, const KernelCall& call, void* most) {
  const Kernel* const kernel = kernel_for(op, call);
  auto& bytes = *static_cast<size_t*>(most);
  if (kernel != nullptr && kernel->scratch_bytes != nullptr) bytes = std::max(bytes, kernel->scratch_bytes(call));
}

void parts(const KernelCall& call) { linear_cross_entropy_parts(call, run_part); }

const char* decline_parts(const KernelCall& call) {
  const char* why = nullptr;
  linear_cross_entropy_parts(call, need_part, &why);
  return why;
}

size_t parts_scratch(const KernelCall& call) {
  size_t most = 0;
  linear_cross_entropy_parts(call, room_of_part, &most);
  return most;
}

bool in_vectors(const View& rows) { return rows.strides[1] == 1 && rows.dims[1] % kWidth == 0 && rows.strides[0] % kWidth == 0; }

void head(const KernelCall& call) {
  const View &x = call.in[0], &weight = call.in[1], &classes = call.in[2], &flow = call.in[3], &logits = call.out[0], &slopes = call.out[2],
             &dx = call.out[3];
  if (!on_vector_border(x.data) || !on_vector_border(weight.data) || !on_vector_border(dx.data)) return parts(call);
  const auto& params = call.as<LinearCrossEntropyParams>();
  const float smoothing = static_cast<float>(params.loss.label_smoothing);
  const HeadCall all{.x = x.as<float>(),
                     .weight = weight.as<float>(),
                     .bias = has_bias(call) ? call.in[4].as<float>() : nullptr,
                     .flow = flow.as<float>(),
                     .classes = classes.as<int64_t>(),
                     .logits = logits.as<float>(),
                     .losses = call.out[1].as<float>(),
                     .slopes = slopes.as<float>(),
                     .dx = dx.as<float>(),
                     .inputs = static_cast<int>(weight.dims[1]),
                     .outputs = static_cast<int>(weight.dims[0]),
                     .x_row = x.strides[0],
                     .weight_row = weight.strides[0],
                     .dx_row = dx.strides[0],
                     .logits_row = logits.strides[0],
                     .logits_column = logits.strides[1],
                     .slopes_row = slopes.strides[0],
                     .slopes_column = slopes.strides[1],
                     .bias_stride = has_bias(call) ? call.in[4].strides[0] : 0,
                     .flow_stride = flow.strides[0],
                     .classes_stride = classes.strides[0],
                     .losses_stride = call.out[1].strides[0],
                     .keep = 1.0f - smoothing,
                     .rest = smoothing / static_cast<float>(weight.dims[0]),
                     .relu = params.below.activation == LinearActivation::relu};
  Launches on(*call.queue, "linear_cross_entropy");
  on.launch(head_kernel, x.dims[0], kHeadThreads, all);
}

const char* decline_head(const KernelCall& call) {
  const View &x = call.in[0], &weight = call.in[1];
  if (weight.dtype != Dtype::f32) return "only f32";
  if (!in_vectors(x) || !in_vectors(weight) || !in_vectors(call.out[3])) return "only rows of vectors of four";
  return weight.dims[0] > kHeadClasses || weight.elements() > kHeadWeights ? "only up to 32 classes and 24576 weights" : nullptr;
}

const Kernel kKernels[] = {
    {.op = "linear_cross_entropy",
     .name = "rows",
     .backend = Backend::cuda,
     .decline = decline_head,
     .run = head,
     .scratch_bytes = parts_scratch},
    {.op = "linear_cross_entropy",
     .name = "parts",
     .backend = Backend::cuda,
     .decline = decline_parts,
     .run = parts,
     .scratch_bytes = parts_scratch},
};

}  // namespace

extern const KernelList kernels_cuda_linear_cross_entropy;
const KernelList kernels_cuda_linear_cross_entropy = kernel_list(kKernels);

}  // namespace perigee
