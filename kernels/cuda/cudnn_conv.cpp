#include "kernels/cuda/cudnn_conv.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "kernels/cuda/counters.h"
#include "kernels/cuda/cudnn_graph.cuh"

namespace perigee {
namespace {

constexpr int kPlans = 6;  // of one shape that are looked at

enum Id : int64_t { kImage = 1, kKernel, kResult, kBias, kSum, kBiased };

cudnnDataType_t type_of(Dtype dtype) {
  return dtype == Dtype::f16 ? CUDNN_DATA_HALF : dtype == Dtype::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

CudnnDescriptor tensor(const CudnnConv& conv, Id id, std::span<const int64_t> dims, int64_t alignment, bool inside) {
  const int64_t c = dims[1], area = dims[2] * dims[3];
  const std::array<int64_t, 4> last = {c * area, 1, dims[3] * c, c}, first = {c * area, area, dims[3], 1};
  CudnnDescriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, inside ? CUDNN_DATA_FLOAT : type_of(conv.dtype))
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims)
      .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::span<const int64_t>(conv.channels_last ? last : first))
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, static_cast<int64_t>(id))
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, inside)
      .finalize();
  return made;
}

CudnnDescriptor geometry(const ConvParams& p) {
  const std::array<int64_t, 2> before = {p.padding[0], p.padding[2]}, after = {p.padding[1], p.padding[3]};
  const std::array<int64_t, 2> stride = {p.stride[0], p.stride[1]}, dilation = {p.dilation[0], p.dilation[1]};
  const auto pair = [](const std::array<int64_t, 2>& values) { return std::span<const int64_t>(values); };
  CudnnDescriptor made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  made.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, pair(before))
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, pair(after))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, pair(stride))
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, pair(dilation))
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2})
      .finalize();
  return made;
}

// The attribute names of one direction's operation.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t alpha, beta, conv, image, kernel, result;
};
constexpr Names kNames[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}};

CudnnDescriptor pointwise_of(cudnnPointwiseMode_t mode) {
  CudnnDescriptor made(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .finalize();
  return made;
}

CudnnDescriptor pointwise(const CudnnDescriptor& what, const CudnnDescriptor& x, const CudnnDescriptor* b, const CudnnDescriptor& y) {
  CudnnDescriptor made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b != nullptr) made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y).finalize();
  return made;
}

// What plans are built for: a queue's handle, or the description of a device.
struct Target {
  cudnnHandle_t handle = nullptr;
  const CudnnDescriptor* device = nullptr;
};

// How cuDNN may compute one graph: plans are built when they are first wanted, which can take a compilation, in the heuristic's order.
struct Plans {
  std::vector<CudnnDescriptor> parts;  // what the graph points to
  CudnnDescriptor graph;
  std::vector<CudnnDescriptor> configs;  // of the heuristic; empty where a plan has taken its one
  size_t next = 0;                       // of the configs: the first that was not tried
  bool asked = false, fell_back = false;
  struct Usable {
    CudnnDescriptor config, plan;
  };
  std::vector<Usable> usable;
};

// Convolution, then bias, then relu; what lies between is virtual and stays in registers.
void describe_graph(const CudnnConv& conv, int64_t alignment, const Target& target, Plans* plan) {
  const Names& names = kNames[static_cast<size_t>(conv.direction)];
  const bool relu = conv.params.relu != 0;
  const std::array<int64_t, 4> bias_dims = {1, conv.result[1], 1, 1};
  std::vector<CudnnDescriptor>& parts = plan->parts;
  parts.reserve(12);  // so that references stay
  const auto part = [&parts](CudnnDescriptor made) -> const CudnnDescriptor& { return parts.emplace_back(std::move(made)); };
  const auto& image = part(tensor(conv, kImage, conv.image, alignment, false));
  const auto& kernel = part(tensor(conv, kKernel, conv.kernel, alignment, false));
  const auto& result = part(tensor(conv, kResult, conv.result, alignment, false));
  const auto& bias = part(tensor(conv, kBias, bias_dims, alignment, false));
  const auto& sum = part(tensor(conv, kSum, conv.result, alignment, true));
  const auto& biased = part(tensor(conv, kBiased, conv.result, alignment, true));
  const auto& shape = part(geometry(conv.params));
  const auto& add = part(pointwise_of(CUDNN_POINTWISE_ADD));
  const auto& clip = part(pointwise_of(CUDNN_POINTWISE_RELU_FWD));

  const size_t first = parts.size();
  CudnnDescriptor convolution(names.operation);
  convolution.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f)
      .set(names.beta, CUDNN_TYPE_FLOAT, conv.accumulate ? 1.0f : 0.0f)
      .set(names.conv, shape)
      .set(names.image, image)
      .set(names.kernel, kernel)
      .set(names.result, conv.bias || relu ? sum : result)
      .finalize();
  part(std::move(convolution));
  if (conv.bias) part(pointwise(add, sum, &bias, relu ? biased : result));
  if (relu) part(pointwise(clip, conv.bias ? biased : sum, nullptr, result));

  std::vector<cudnnBackendDescriptor_t> operations;
  for (size_t i = first; i < parts.size(); ++i)
    if (parts[i].ok()) operations.push_back(parts[i].get());
  if (operations.size() < parts.size() - first) return;
  plan->graph = CudnnDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  plan->graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span<const cudnnBackendDescriptor_t>(operations));
  if (target.device == nullptr) plan->graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
  plan->graph.finalize();
}

// Engines that compute with fewer digits than was asked for, or in an order of their own, are passed over.
bool acceptable(const CudnnDescriptor& config, const CudnnConv& conv, const CudaQueue& queue) {
  const CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t place = engine.get();
  config.read(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span(&place, 1));
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes;
  const auto count = std::min<int64_t>(
      engine.read(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, std::span<cudnnBackendNumericalNote_t>(notes)),
      static_cast<int64_t>(notes.size()));
  return std::none_of(notes.begin(), notes.begin() + count, [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: return conv.dtype == Dtype::f32 && !queue.tf32;
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: return true;
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC: return queue.deterministic;
      default: return false;
    }
  });
}

// The plan of the next config; nothing where cuDNN cannot build it, or not within the workspace.
void try_next(const CudnnConv& conv, const Target& target, const CudaQueue& queue, Plans* plans) {
  CudnnDescriptor& config = plans->configs[plans->next++];
  if (!acceptable(config, conv, queue)) return;
  CudnnDescriptor made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (target.device != nullptr) made.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.device);
  else made.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
  made.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config).finalize();
  if (!made.ok()) return;
  int64_t workspace = 0;
  made.read(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, std::span(&workspace, 1));
  if (workspace > static_cast<int64_t>(queue.workspace_bytes)) return;
  plans->usable.push_back({std::move(config), std::move(made)});
}

void ask(cudnnBackendHeurMode_t mode, const Target& target, Plans* plans) {
  CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  if (target.device != nullptr) heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.device);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, plans->graph).set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode).finalize();
  if (!heuristic.ok()) return;
  const int64_t count = heuristic.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span<cudnnBackendDescriptor_t>());
  std::vector<cudnnBackendDescriptor_t> places;
  const size_t before = plans->configs.size();
  for (int64_t i = 0; i < count; ++i) places.push_back(plans->configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  const int64_t filled = heuristic.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span(places));
  plans->configs.resize(before + static_cast<size_t>(std::min(count, filled)));  // one that was not filled in is nothing to build from
}

// Number `algorithm` of the plans, or the last where there are fewer; null where there is none.
const Plans::Usable* find_plan(const CudnnConv& conv, int64_t alignment, const Target& target, const CudaQueue& queue, Plans* plans) {
  if (!std::exchange(plans->asked, true)) {
    describe_graph(conv, alignment, target, plans);
    if (plans->graph.get() != nullptr && plans->graph.ok()) ask(CUDNN_HEUR_MODE_A, target, plans);
  }
  const auto wanted = static_cast<size_t>(std::min(queue.algorithm, kPlans - 1));
  while (plans->usable.size() <= wanted && plans->next < plans->configs.size()) try_next(conv, target, queue, plans);
  if (plans->usable.empty() && plans->graph.ok() && plans->graph.get() != nullptr && !std::exchange(plans->fell_back, true)) {
    ask(CUDNN_HEUR_MODE_FALLBACK, target, plans);
    while (plans->usable.empty() && plans->next < plans->configs.size()) try_next(conv, target, queue, plans);
  }
  return plans->usable.empty() ? nullptr : &plans->usable[std::min(wanted, plans->usable.size() - 1)];
}

using Key = std::array<int64_t, 32>;
struct KeyHash {
  size_t operator()(const Key& key) const { return std::hash<std::string_view>()({reinterpret_cast<const char*>(key.data()), sizeof key}); }
};

// Grows with the shapes of the queue's plans, which are bounded; nothing goes before the queue does, since captured graphs hold on to it.
struct State : CudaLibraryState {
  State() { status = cudnn().create(&handle); }
  ~State() override {
    plans.clear();
    if (handle != nullptr) cudnn().destroy(handle);
  }
  cudnnStatus_t status;
  cudnnHandle_t handle = nullptr;
  std::unordered_map<Key, Plans, KeyHash> plans;
};

Key key_of(const CudnnConv& conv, int64_t alignment, const CudaQueue& queue) {
  const ConvParams& p = conv.params;
  Key key = {static_cast<int64_t>(conv.direction),
             static_cast<int64_t>(conv.dtype),
             conv.channels_last,
             conv.bias + 2 * conv.accumulate,
             p.relu,
             alignment,
             queue.tf32,
             queue.deterministic,
             static_cast<int64_t>(queue.workspace_bytes),
             p.groups};
  size_t at = 10;
  for (const auto* dims : {&conv.image, &conv.kernel, &conv.result})
    for (const int64_t size : *dims) key[at++] = size;
  for (const int32_t value : p.stride) key[at++] = value;
  for (const int32_t value : p.padding) key[at++] = value;
  for (const int32_t value : p.dilation) key[at++] = value;
  return key;
}

int64_t alignment_of(const CudnnConvData& data) {
  uintptr_t all = 16;
  for (const void* address : {data.image, data.kernel, data.result, data.bias}) all |= reinterpret_cast<uintptr_t>(address);
  return static_cast<int64_t>(all & (~all + 1));
}

cudnnStatus_t execute(const CudnnConv& conv, const CudnnConvData& data, const CudnnDescriptor& plan, cudnnHandle_t handle,
                      const CudaQueue& queue) {
  const std::array<void*, 4> pointers = {data.image, data.kernel, data.result, data.bias};
  const std::array<int64_t, 4> ids = {kImage, kKernel, kResult, kBias};
  const size_t count = conv.bias ? 4 : 3;
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::span(pointers.data(), count))
      .set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::span(ids.data(), count))
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, queue.workspace)
      .finalize();
  count_cuda(&CudaCounts::launches);
  return pack.ok() ? cudnn().execute(handle, plan.get(), pack.get()) : pack.status();
}

}  // namespace

bool queue_cudnn_conv(const CudnnConv& conv, const CudnnConvData& data, CudaQueue& queue, const char* name) {
  if (queue.status != 0) return true;
  auto& state = queue.libraries->state<State>(CudaLibrary::cudnn);
  cudnnStatus_t status = state.status;
  if (status == CUDNN_STATUS_SUCCESS) status = cudnn().set_stream(state.handle, static_cast<cudaStream_t>(queue.stream));
  if (status == CUDNN_STATUS_SUCCESS) {
    const int64_t alignment = alignment_of(data);
    Plans& plans = state.plans[key_of(conv, alignment, queue)];
    const Plans::Usable* const found = find_plan(conv, alignment, {.handle = state.handle}, queue, &plans);
    if (found == nullptr) return false;
    queue.taken = std::max(queue.taken, static_cast<int>(found - plans.usable.data()));
    status = execute(conv, data, found->plan, state.handle, queue);
  }
  if (status != CUDNN_STATUS_SUCCESS) report_library(queue, name, cudnn().error_string(status));
  return true;
}

bool cudnn_has_plan(const CudnnConv& conv, const char* device, const CudaQueue& queue) {
  CudnnDescriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties
      .set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, std::span<const char>(device, std::string_view(device).size() + 1))
      .finalize();
  Plans plans;
  return properties.ok() && find_plan(conv, 16, {.device = &properties}, queue, &plans) != nullptr;
}

}  // namespace perigee
