// A cuDNN whose graph API computes on the host: it keeps the attributes of descriptors as they were set and executes plans by the
// definition of convolution. Like cuDNN it has no engine for relu without bias, and its first choice rounds f32 to bf16 and says so.
#include <cudnn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "tests/cuda/fakes/numbers.h"

namespace {

using namespace perigee;

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<std::byte>> attributes;
  bool finalized = false;
  const Descriptor* graph = nullptr;  // of configurations
  bool rounds = false;                // of configurations and engines

  template <class T>
  std::vector<T> all(int name) const {
    const auto found = attributes.find(name);
    std::vector<T> values(found == attributes.end() ? 0 : found->second.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), found->second.data(), values.size() * sizeof(T));
    return values;
  }
  template <class T>
  T one(int name) const {
    const std::vector<T> values = all<T>(name);
    return values.empty() ? T{} : values.front();
  }
  const Descriptor& child(int name) const { return *one<const Descriptor*>(name); }
};

size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    default: return 4;
  }
}

Descriptor& at(cudnnBackendDescriptor_t descriptor) { return *static_cast<Descriptor*>(descriptor); }

// A tensor with its memory; what is virtual has its own.
struct Tensor {
  std::vector<int64_t> dims, strides;
  Number number = Number::f32;
  void* data = nullptr;
  bool rounds = false;

  int64_t offset(int64_t n, int64_t c, int64_t h, int64_t w) const {
    const int64_t index[4] = {n, c, h, w};
    int64_t sum = 0;
    for (int i = 0; i < 4; ++i) sum += dims[i] == 1 ? 0 : index[i] * strides[i];
    return sum;
  }
  double get(int64_t n, int64_t c, int64_t h, int64_t w) const {
    const double value = load(data, offset(n, c, h, w), number);
    return rounds && number == Number::f32 ? float_from_bf16(bf16_from_float(static_cast<float>(value))) : value;
  }
  void set(int64_t n, int64_t c, int64_t h, int64_t w, double value) const { store(data, offset(n, c, h, w), number, value); }
  template <class F>
  void each(F f) const {
    for (int64_t n = 0; n < dims[0]; ++n)
      for (int64_t c = 0; c < dims[1]; ++c)
        for (int64_t h = 0; h < dims[2]; ++h)
          for (int64_t w = 0; w < dims[3]; ++w) f(n, c, h, w);
  }
};

class Execution {
 public:
  Execution(const Descriptor& pack, bool rounds)
      : pointers_(pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)),
        ids_(pack.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)),
        rounds_(rounds) {}

  cudnnStatus_t run(const Descriptor& operation) {
    switch (operation.type) {
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        convolve(operation, 0, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                 CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
        break;
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        convolve(operation, 1, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
        break;
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        convolve(operation, 2, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
        break;
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: pointwise(operation); break;
      default: return CUDNN_STATUS_NOT_SUPPORTED;
    }
    return status_;
  }

 private:
  Tensor tensor(const Descriptor& d) {
    Tensor t{.dims = d.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS), .strides = d.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES)};
    const auto type = d.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
    t.number = type == CUDNN_DATA_HALF ? Number::f16 : type == CUDNN_DATA_BFLOAT16 ? Number::bf16 : Number::f32;
    const auto id = d.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    if (d.one<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0) {
      auto& room = inside_[id];
      room.resize(static_cast<size_t>(t.dims[0] * t.dims[1] * t.dims[2] * t.dims[3]));
      t.data = room.data();
      return t;
    }
    for (size_t i = 0; i < ids_.size(); ++i)
      if (ids_[i] == id) t.data = pointers_[i];
    const auto address = reinterpret_cast<uintptr_t>(t.data);
    if (address == 0 || address % static_cast<uintptr_t>(d.one<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)) != 0)
      status_ = CUDNN_STATUS_BAD_PARAM;
    return t;
  }

  void convolve(const Descriptor& operation, int direction, int conv, int image, int kernel, int result) {
    constexpr int kBetas[] = {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    const auto beta = static_cast<double>(operation.one<float>(kBetas[direction]));
    const Descriptor& d = operation.child(conv);
    const auto before = d.all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS), after = d.all<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
    const auto stride = d.all<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES), dilation = d.all<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
    Tensor x = tensor(operation.child(image)), w = tensor(operation.child(kernel)), y = tensor(operation.child(result));
    if (status_ != CUDNN_STATUS_SUCCESS) return;
    for (int i = 0; i < 2; ++i)
      if ((x.dims[2 + i] + before[i] + after[i] - dilation[i] * (w.dims[2 + i] - 1) - 1) / stride[i] + 1 != y.dims[2 + i])
        status_ = CUDNN_STATUS_BAD_PARAM;
    x.rounds = w.rounds = rounds_;
    const int64_t group_out = w.dims[0] / (x.dims[1] / w.dims[1]);
    Tensor& target = direction == 0 ? y : direction == 1 ? x : w;
    const auto place = [&target](int64_t a, int64_t b, int64_t c, int64_t e) {
      return static_cast<size_t>(((a * target.dims[1] + b) * target.dims[2] + c) * target.dims[3] + e);
    };
    std::vector<double> total(place(target.dims[0], 0, 0, 0));
    y.each([&](int64_t n, int64_t o, int64_t i, int64_t j) {
      for (int64_t c = 0; c < w.dims[1]; ++c)
        for (int64_t p = 0; p < w.dims[2]; ++p)
          for (int64_t q = 0; q < w.dims[3]; ++q) {
            const int64_t h = i * stride[0] - before[0] + p * dilation[0], v = j * stride[1] - before[1] + q * dilation[1];
            if (h < 0 || h >= x.dims[2] || v < 0 || v >= x.dims[3]) continue;
            const int64_t channel = o / group_out * w.dims[1] + c;
            if (direction == 0) total[place(n, o, i, j)] += x.get(n, channel, h, v) * w.get(o, c, p, q);
            if (direction == 1) total[place(n, channel, h, v)] += y.get(n, o, i, j) * w.get(o, c, p, q);
            if (direction == 2) total[place(o, c, p, q)] += y.get(n, o, i, j) * x.get(n, channel, h, v);
          }
    });
    target.each([&](int64_t a, int64_t b, int64_t c, int64_t e) {
      target.set(a, b, c, e, total[place(a, b, c, e)] + (beta == 0 ? 0 : beta * target.get(a, b, c, e)));
    });
  }

  void pointwise(const Descriptor& operation) {
    const auto mode = operation.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR).one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    const Tensor x = tensor(operation.child(CUDNN_ATTR_OPERATION_POINTWISE_XDESC)),
                 y = tensor(operation.child(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    const bool adds = mode == CUDNN_POINTWISE_ADD;
    const Tensor b = adds ? tensor(operation.child(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)) : Tensor{};
    if (status_ != CUDNN_STATUS_SUCCESS) return;
    y.each([&](int64_t n, int64_t c, int64_t i, int64_t j) {
      const double value = x.get(n, c, i, j);
      y.set(n, c, i, j, adds ? value + b.get(0, c, 0, 0) : value > 0 ? value : 0);
    });
  }

  std::vector<void*> pointers_;
  std::vector<int64_t> ids_;
  bool rounds_;
  std::map<int64_t, std::vector<float>> inside_;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
};

bool relu_without_bias(const Descriptor& graph) {
  int adds = 0, relus = 0;
  for (const Descriptor* operation : graph.all<const Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    if (operation->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) continue;
    const auto mode = operation->child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR).one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    ++(mode == CUDNN_POINTWISE_ADD ? adds : relus);
  }
  return relus > adds;
}

// Two configurations: one that rounds, one that does not.
cudnnStatus_t heuristic_results(const Descriptor& heuristic, int64_t room, int64_t* count, void* values) {
  const Descriptor& graph = heuristic.child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  *count = relu_without_bias(graph) ? 0 : 2;
  for (int64_t i = 0; i < std::min(room, *count); ++i) {
    Descriptor& config = *static_cast<Descriptor**>(values)[i];
    config.graph = &graph, config.rounds = i == 0;
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

void fake_queue_by(QueueWork how) { queue_work = how; }

size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "CUDNN_STATUS_OF_THE_FAKE"; }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return *handle = reinterpret_cast<cudnnHandle_t>(make_handle<void*>(nullptr)), CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return drop_handle(reinterpret_cast<void**>(handle)), CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return *reinterpret_cast<void**>(handle) = stream, CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* made) {
  return *made = make_handle<Descriptor>(type), CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return drop_handle(&at(descriptor)), CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  if (at(descriptor).finalized) return CUDNN_STATUS_BAD_PARAM;
  const auto* const bytes = static_cast<const std::byte*>(values);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    for (int64_t i = 0; i < count; ++i)
      if (!static_cast<Descriptor* const*>(values)[i]->finalized && name != CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
        return CUDNN_STATUS_BAD_PARAM;
  at(descriptor).attributes[name].assign(bytes, bytes + static_cast<size_t>(count) * size_of(type));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t,
                                       int64_t room, int64_t* count, void* values) {
  const Descriptor& d = at(descriptor);
  *count = 1;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) return heuristic_results(d, room, count, values);
  if (name == CUDNN_ATTR_ENGINECFG_ENGINE) return (*static_cast<Descriptor**>(values))->rounds = d.rounds, CUDNN_STATUS_SUCCESS;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) return *static_cast<int64_t*>(values) = 64, CUDNN_STATUS_SUCCESS;
  if (name != CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) return CUDNN_STATUS_NOT_SUPPORTED;
  if (d.rounds) *static_cast<cudnnBackendNumericalNote_t*>(values) = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
  else *count = 0;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) { return at(descriptor).finalized = true, CUDNN_STATUS_SUCCESS; }

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  const Descriptor& config = at(plan).child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;  // of work that is done at once
  do_on(*reinterpret_cast<void**>(handle), [&config, pack = at(pack), now = queue_work == nullptr ? &status : nullptr] {
    Execution execution(pack, config.rounds);
    for (const Descriptor* operation : config.graph->all<const Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
      const cudnnStatus_t said = execution.run(*operation);
      if (said == CUDNN_STATUS_SUCCESS) continue;
      if (now == nullptr) std::abort();  // nobody is left to be told
      return void(*now = said);
    }
  });
  return status;
}

}  // extern "C"
