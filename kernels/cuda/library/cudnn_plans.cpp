#include "kernels/cuda/library/cudnn_plans.cuh"

#include <algorithm>
#include <memory>
#include <utility>

#include "kernels/cuda/library/library_cache.h"
#include "kernels/cuda/runtime/counters.h"

namespace perigee {
namespace {

// The target that plans are built for: a queue's handle, or the description of a device.
struct Target {
  cudnnHandle_t handle = nullptr;
  const CudnnDescriptor* device = nullptr;
};

// How cuDNN may compute one graph: plans are built when they are first wanted, which can take a compilation, in the heuristic's order.
struct Plans {
  std::unique_ptr<CudnnParts> parts;  // what the graph points to
  CudnnDescriptor graph;
  std::vector<CudnnDescriptor> configs;  // of the heuristic; empty where a plan has taken its one
  size_t next = 0;                       // of the configs: the first that was not tried
  bool asked = false, fell_back = false;
  struct Usable {
    CudnnDescriptor config, plan;
  };
  std::vector<Usable> usable;
};

void describe_graph(const CudnnGraph& graph, int64_t alignment, const Target& target, Plans* plans) {
  plans->parts = std::make_unique<CudnnParts>(alignment);
  graph.describe(*plans->parts);
  const auto operations = plans->parts->operations();
  if (operations.empty()) return;
  plans->graph = CudnnDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  plans->graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations);
  if (target.device == nullptr) plans->graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
  plans->graph.finalize();
}

// Engines that compute with fewer digits than was asked for, or in an order of their own, are passed over.
bool acceptable(const CudnnDescriptor& config, Dtype dtype, const CudaQueue& queue) {
  const CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t place = engine.get();
  config.read(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span(&place, 1));
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes;
  const auto count = std::min<int64_t>(
      engine.read(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, std::span<cudnnBackendNumericalNote_t>(notes)),
      static_cast<int64_t>(notes.size()));
  return std::none_of(notes.begin(), notes.begin() + count, [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: return dtype == Dtype::f32 && !queue.tf32;
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: return true;
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC: return queue.deterministic;
      default: return false;
    }
  });
}

// The plan of the next config; nothing where cuDNN cannot build it, or not within the workspace.
void try_next(Dtype dtype, const Target& target, const CudaQueue& queue, Plans* plans) {
  CudnnDescriptor& config = plans->configs[plans->next++];
  if (!acceptable(config, dtype, queue)) return;
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
const Plans::Usable* find_plan(const CudnnGraph& graph, int64_t alignment, const Target& target, const CudaQueue& queue, Plans* plans) {
  if (!std::exchange(plans->asked, true)) {
    describe_graph(graph, alignment, target, plans);
    if (plans->graph.get() != nullptr && plans->graph.ok()) ask(CUDNN_HEUR_MODE_A, target, plans);
  }
  const Dtype dtype = graph.dtype();
  const auto wanted = static_cast<size_t>(std::min(queue.algorithm, graph.most_plans() - 1));
  while (plans->usable.size() <= wanted && plans->next < plans->configs.size()) try_next(dtype, target, queue, plans);
  if (plans->usable.empty() && plans->graph.ok() && plans->graph.get() != nullptr && !std::exchange(plans->fell_back, true)) {
    ask(CUDNN_HEUR_MODE_FALLBACK, target, plans);
    while (plans->usable.empty() && plans->next < plans->configs.size()) try_next(dtype, target, queue, plans);
  }
  return plans->usable.empty() ? nullptr : &plans->usable[std::min(wanted, plans->usable.size() - 1)];
}

struct KeyHash {
  size_t operator()(const CudnnKey& key) const {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(key.data()), sizeof key});
  }
};

struct State : CudaLibraryState {
  State() { status = cudnn().create(&handle); }
  ~State() override {
    plans.clear();
    if (handle != nullptr) cudnn().destroy(handle);
  }
  cudnnStatus_t status;
  cudnnHandle_t handle = nullptr;
  LibraryCache<CudnnKey, Plans, KeyHash> plans;
};

CudnnKey key_of(const CudnnGraph& graph, int64_t alignment, const CudaQueue& queue) {
  CudnnKey key = {alignment, queue.tf32, queue.deterministic, static_cast<int64_t>(queue.workspace_bytes),
                  static_cast<int64_t>(graph.dtype())};
  graph.fill_key(key);
  return key;
}

int64_t alignment_of(std::span<const CudnnOperand> operands) {
  uintptr_t all = 16;
  for (const CudnnOperand& operand : operands)
    if (!operand.by_value) all |= reinterpret_cast<uintptr_t>(operand.data);
  return static_cast<int64_t>(all & (~all + 1));
}

cudnnStatus_t execute(std::span<const CudnnOperand> operands, const CudnnDescriptor& plan, cudnnHandle_t handle, const CudaQueue& queue) {
  constexpr size_t kMost = 16;
  std::array<const void*, kMost> pointers;
  std::array<int64_t, kMost> ids;
  size_t count = 0;
  for (const CudnnOperand& operand : operands.first(std::min(operands.size(), kMost)))
    if (operand.data != nullptr) pointers[count] = operand.data, ids[count++] = operand.id;
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::span<const void* const>(pointers.data(), count))
      .set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::span<const int64_t>(ids.data(), count))
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, queue.workspace)
      .finalize();
  count_cuda(&CudaCounts::launches);
  return pack.ok() ? cudnn().execute(handle, plan.get(), pack.get()) : pack.status();
}

}  // namespace

cudnnDataType_t cudnn_type(Dtype dtype) {
  return dtype == Dtype::f16 ? CUDNN_DATA_HALF : dtype == Dtype::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

const CudnnDescriptor& CudnnParts::keep(CudnnDescriptor made) {
  ok_ = ok_ && made.ok() && parts_.size() < kMost;
  return parts_.emplace_back(std::move(made));
}

const CudnnDescriptor& CudnnParts::tensor(const CudnnTensor& tensor) {
  const int64_t c = tensor.dims[1], width = tensor.dims[3], area = tensor.dims[2] * width;
  const std::array<int64_t, 4> last = {c * area, 1, width * c, c}, first = {c * area, area, width, 1};
  CudnnDescriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, tensor.type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, tensor.dims)
      .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::span<const int64_t>(tensor.channels_last ? last : first))
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, tensor.id)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, tensor.place == CudnnPlace::by_value ? int64_t{4} : alignment_)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, tensor.place == CudnnPlace::inside);
  if (tensor.place == CudnnPlace::by_value) made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
  made.finalize();
  return keep(std::move(made));
}

void CudnnParts::operation(CudnnDescriptor made) { operations_.push_back(keep(std::move(made)).get()); }

const CudnnDescriptor& CudnnParts::pointwise_mode(cudnnPointwiseMode_t mode) {
  CudnnDescriptor made(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .finalize();
  return keep(std::move(made));
}

void CudnnParts::pointwise(cudnnPointwiseMode_t mode, const CudnnDescriptor& x, const CudnnDescriptor* b, const CudnnDescriptor& y) {
  CudnnDescriptor made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise_mode(mode)).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b != nullptr) made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y).finalize();
  operation(std::move(made));
}

void CudnnParts::relu_gradient(const CudnnDescriptor& dy, const CudnnDescriptor& x, const CudnnDescriptor& dx) {
  CudnnDescriptor made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise_mode(CUDNN_POINTWISE_RELU_BWD))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, dy)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dx)
      .finalize();
  operation(std::move(made));
}

std::span<const cudnnBackendDescriptor_t> CudnnParts::operations() const {
  return ok_ ? std::span<const cudnnBackendDescriptor_t>(operations_) : std::span<const cudnnBackendDescriptor_t>();
}

bool queue_cudnn_graph(const CudnnGraph& graph, std::span<const CudnnOperand> operands, CudaQueue& queue, const char* name) {
  if (queue.status != 0) return true;
  auto& state = queue.libraries->state<State>(CudaLibrary::cudnn);
  cudnnStatus_t status = state.status;
  if (status == CUDNN_STATUS_SUCCESS) status = cudnn().set_stream(state.handle, static_cast<cudaStream_t>(queue.stream));
  if (status == CUDNN_STATUS_SUCCESS) {
    const int64_t alignment = alignment_of(operands);
    bool fresh = false;
    Plans& plans = state.plans.at(key_of(graph, alignment, queue), &fresh);
    const Plans::Usable* const found = find_plan(graph, alignment, {.handle = state.handle}, queue, &plans);
    if (found == nullptr) return false;
    queue.taken = std::max(queue.taken, static_cast<int>(found - plans.usable.data()));
    status = execute(operands, found->plan, state.handle, queue);
  }
  if (status != CUDNN_STATUS_SUCCESS) report_library(queue, name, cudnn().error_string(status));
  return true;
}

bool cudnn_has_plan(const CudnnGraph& graph, const char* device, const CudaQueue& queue) {
  CudnnDescriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties
      .set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, std::span<const char>(device, std::string_view(device).size() + 1))
      .finalize();
  Plans plans;
  return properties.ok() && find_plan(graph, 16, {.device = &properties}, queue, &plans) != nullptr;
}

}  // namespace perigee
