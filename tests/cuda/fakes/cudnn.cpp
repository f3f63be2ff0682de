// A cuDNN whose graph API computes on the host: it keeps the attributes of descriptors as they were set and executes plans by the
// definitions of convolution and batch norm. Like cuDNN it has no engine for relu without bias, nor for forms of batch norm that cuDNN
// refused when it was asked; its first choice rounds f32 to bf16 and says so; and what it fuses with a convolution wants borders of 16 bytes,
// whatever the descriptors say.
#include <cudnn.h>

#include <cmath>
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
  std::vector<const Descriptor*> children;  // that were ever set
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
    T value{};
    const auto found = attributes.find(name);
    if (found != attributes.end() && found->second.size() >= sizeof value) std::memcpy(&value, found->second.data(), sizeof value);
    return value;
  }
  bool has(int name) const { return attributes.contains(name); }
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
  // Numbers by value are read now: later the caller's are gone.
  Execution(const Descriptor& pack, const Descriptor& config)
      : pointers_(pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)),
        ids_(pack.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)),
        rounds_(config.rounds) {
    for (const Descriptor* operation : config.graph->all<const Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS))
      for (const Descriptor* tensor : operation->children) {
        const auto id = tensor->one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
        if (tensor->one<char>(CUDNN_ATTR_TENSOR_IS_BY_VALUE) == 0) continue;
        for (size_t i = 0; i < ids_.size(); ++i)
          if (ids_[i] == id) inside_[id] = {*static_cast<const float*>(pointers_[i])};
      }
  }

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
      case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR: normalise(operation); break;
      case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR: normalise_backward(operation); break;
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
    if (d.one<char>(CUDNN_ATTR_TENSOR_IS_BY_VALUE) != 0) {
      if (!inside_.contains(id)) return status_ = CUDNN_STATUS_BAD_PARAM, t;
      t.data = inside_[id].data();
      return t;
    }
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
    const bool backward = mode == CUDNN_POINTWISE_RELU_BWD, two = backward || mode != CUDNN_POINTWISE_RELU_FWD;
    const Tensor x = tensor(operation.child(CUDNN_ATTR_OPERATION_POINTWISE_XDESC)),
                 y = tensor(operation.child(backward ? CUDNN_ATTR_OPERATION_POINTWISE_DXDESC : CUDNN_ATTR_OPERATION_POINTWISE_YDESC)),
                 b = !two
                         ? Tensor{}
                         : tensor(operation.child(backward ? CUDNN_ATTR_OPERATION_POINTWISE_DYDESC : CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
    if (status_ != CUDNN_STATUS_SUCCESS) return;
    y.each([&](int64_t n, int64_t c, int64_t i, int64_t j) {
      const double value = x.get(n, c, i, j), other = two ? b.get(n, c, i, j) : 0;
      switch (mode) {
        case CUDNN_POINTWISE_ADD: return y.set(n, c, i, j, value + other);
        case CUDNN_POINTWISE_MUL: return y.set(n, c, i, j, value * other);
        case CUDNN_POINTWISE_CMP_GT: return y.set(n, c, i, j, value > other);
        case CUDNN_POINTWISE_RELU_FWD: return y.set(n, c, i, j, value > 0 ? value : 0);
        case CUDNN_POINTWISE_RELU_BWD: return y.set(n, c, i, j, value > 0 ? other : 0);
        default: status_ = CUDNN_STATUS_NOT_SUPPORTED;
      }
    });
  }

  void normalise(const Descriptor& operation) {
    const bool training = operation.one<cudnnBackendNormFwdPhase_t>(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) == CUDNN_NORM_FWD_TRAINING;
    const Tensor x = tensor(operation.child(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC)),
                 y = tensor(operation.child(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC)),
                 mean = tensor(operation.child(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC)),
                 inverse = tensor(operation.child(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC)),
                 gamma = tensor(operation.child(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC)),
                 beta = tensor(operation.child(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC));
    const Tensor epsilon = training ? tensor(operation.child(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC)) : Tensor{};
    if (status_ != CUDNN_STATUS_SUCCESS) return;
    const double count = static_cast<double>(x.dims[0] * x.dims[2] * x.dims[3]);
    std::vector<double> sum(static_cast<size_t>(x.dims[1])), squares(sum.size());
    if (training) {
      x.each([&](int64_t n, int64_t c, int64_t i, int64_t j) { sum[static_cast<size_t>(c)] += x.get(n, c, i, j) / count; });
      x.each([&](int64_t n, int64_t c, int64_t i, int64_t j) {
        const double d = x.get(n, c, i, j) - sum[static_cast<size_t>(c)];
        squares[static_cast<size_t>(c)] += d * d / count;
      });
      mean.each([&](int64_t, int64_t c, int64_t, int64_t) {
        mean.set(0, c, 0, 0, sum[static_cast<size_t>(c)]);
        inverse.set(0, c, 0, 0, 1 / std::sqrt(squares[static_cast<size_t>(c)] + epsilon.get(0, 0, 0, 0)));
      });
    }
    y.each([&](int64_t n, int64_t c, int64_t i, int64_t j) {
      const double normal = (x.get(n, c, i, j) - mean.get(0, c, 0, 0)) * inverse.get(0, c, 0, 0);
      y.set(n, c, i, j, normal * gamma.get(0, c, 0, 0) + beta.get(0, c, 0, 0));
    });
  }

  void normalise_backward(const Descriptor& operation) {
    const Tensor x = tensor(operation.child(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC)),
                 dy = tensor(operation.child(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC)),
                 dx = tensor(operation.child(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC)),
                 mean = tensor(operation.child(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC)),
                 inverse = tensor(operation.child(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC)),
                 gamma = tensor(operation.child(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC)),
                 dgamma = tensor(operation.child(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC)),
                 dbeta = tensor(operation.child(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC));
    if (status_ != CUDNN_STATUS_SUCCESS) return;
    const double count = static_cast<double>(x.dims[0] * x.dims[2] * x.dims[3]);
    std::vector<double> sum(static_cast<size_t>(x.dims[1])), slope(sum.size());
    const auto normal = [&](int64_t n, int64_t c, int64_t i, int64_t j) {
      return (x.get(n, c, i, j) - mean.get(0, c, 0, 0)) * inverse.get(0, c, 0, 0);
    };
    x.each([&](int64_t n, int64_t c, int64_t i, int64_t j) {
      sum[static_cast<size_t>(c)] += dy.get(n, c, i, j);
      slope[static_cast<size_t>(c)] += dy.get(n, c, i, j) * normal(n, c, i, j);
    });
    dgamma.each([&](int64_t, int64_t c, int64_t, int64_t) {
      dbeta.set(0, c, 0, 0, sum[static_cast<size_t>(c)]);
      dgamma.set(0, c, 0, 0, slope[static_cast<size_t>(c)]);
    });
    dx.each([&](int64_t n, int64_t c, int64_t i, int64_t j) {
      const double rest = dy.get(n, c, i, j) - (sum[static_cast<size_t>(c)] + normal(n, c, i, j) * slope[static_cast<size_t>(c)]) / count;
      dx.set(n, c, i, j, gamma.get(0, c, 0, 0) * inverse.get(0, c, 0, 0) * rest);
    });
  }

  std::vector<void*> pointers_;
  std::vector<int64_t> ids_;
  bool rounds_;
  std::map<int64_t, std::vector<float>> inside_;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
};

int count(const Descriptor& graph, cudnnPointwiseMode_t mode) {
  int found = 0;
  for (const Descriptor* operation : graph.all<const Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS))
    found += operation->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR &&
             operation->child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR).one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE) == mode;
  return found;
}

bool refuses_epilogues = false;

// Convolution: relu without bias, and where a test says so, either. Batch norm: a residual without relu; relu's gradient at what is not made by inference in the same graph.
bool refused(const Descriptor& graph) {
  bool norm = false, inference = false;
  for (const Descriptor* operation : graph.all<const Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    norm |= operation->has(CUDNN_ATTR_OPERATION_NORM_FWD_MODE) || operation->has(CUDNN_ATTR_OPERATION_NORM_BWD_MODE);
    inference |= operation->has(CUDNN_ATTR_OPERATION_NORM_FWD_MODE) &&
                 operation->one<cudnnBackendNormFwdPhase_t>(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) == CUDNN_NORM_FWD_INFERENCE;
  }
  const int adds = count(graph, CUDNN_POINTWISE_ADD), relus = count(graph, CUDNN_POINTWISE_RELU_FWD);
  return norm ? adds > relus || (count(graph, CUDNN_POINTWISE_RELU_BWD) > 0 && !inference)
              : relus > adds || (refuses_epilogues && adds + relus > 0);
}

// Two configurations: one that rounds, one that does not.
cudnnStatus_t heuristic_results(const Descriptor& heuristic, int64_t room, int64_t* count, void* values) {
  const Descriptor& graph = heuristic.child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  *count = refused(graph) ? 0 : 2;
  for (int64_t i = 0; i < std::min(room, *count); ++i) {
    Descriptor& config = *static_cast<Descriptor**>(values)[i];
    config.graph = &graph, config.rounds = i == 0;
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

int64_t fake_live_handles() { return live_handles; }

void fake_queue_by(QueueWork how) { queue_work = how; }

void fake_refuse_epilogues(bool refuse) { refuses_epilogues = refuse; }

size_t cudnnGetVersion() { return 91900; }
size_t cudnnGetCudartVersion() {
  const char* const other = std::getenv("FAKE_CUDNN_BUILT_FOR");
  return other != nullptr ? static_cast<size_t>(std::atoi(other)) : 13000;
}
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
    for (int64_t i = 0; i < count; ++i) {
      const Descriptor* const child = static_cast<Descriptor* const*>(values)[i];
      if (!child->finalized && name != CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) return CUDNN_STATUS_BAD_PARAM;
      at(descriptor).children.push_back(child);
    }
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
  const auto operations = config.graph->all<const Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (operations.size() > 1 && operations.front()->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
    for (const uintptr_t operand : at(pack).all<uintptr_t>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS))
      if (operand % 16 != 0) return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;  // of work that is done at once
  do_on(*reinterpret_cast<void**>(handle), [&config, begin = Execution(at(pack), config), now = queue_work == nullptr ? &status : nullptr] {
    Execution execution = begin;
    for (const Descriptor* operation : config.graph->all<const Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
      const cudnnStatus_t said = execution.run(*operation);
      if (said == CUDNN_STATUS_SUCCESS) continue;
      if (now == nullptr) std::abort();  // no caller is left to report to
      return void(*now = said);
    }
  });
  return status;
}

}  // extern "C"
