// Graphs that cuDNN computes: described once per shape, planned when they are first wanted, kept by the queue. What a graph holds is said
// by its kind (cudnn_conv.cpp, cudnn_norm.cpp); here is what they share.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/cuda/library/cudnn_graph.cuh"
#include "kernels/cuda/runtime/queue.h"
#include "kernels/view.h"

namespace perigee {

cudnnDataType_t cudnn_type(Dtype dtype);  // of f32, f16, bf16

enum class CudnnPlace : uint8_t {
  memory,
  inside,   // never written out
  by_value  // a number that the host hands over
};

struct CudnnTensor {
  int64_t id = 0;
  std::span<const int64_t> dims;  // N, C, H, W
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  CudnnPlace place = CudnnPlace::memory;
  bool channels_last = true;
};

// The descriptors of a graph as they are made; references to them stay good.
class CudnnParts {
 public:
  explicit CudnnParts(int64_t alignment) : alignment_(alignment) { parts_.reserve(kMost); }

  const CudnnDescriptor& keep(CudnnDescriptor made);
  const CudnnDescriptor& tensor(const CudnnTensor& tensor);
  // An operation, in the graph's order. What is not finalized spoils the graph.
  void operation(CudnnDescriptor made);
  // y = mode(x), or mode(x, b).
  void pointwise(cudnnPointwiseMode_t mode, const CudnnDescriptor& x, const CudnnDescriptor* b, const CudnnDescriptor& y);
  // dx = dy where relu let x through.
  void relu_gradient(const CudnnDescriptor& dy, const CudnnDescriptor& x, const CudnnDescriptor& dx);

  // Null where something could not be described.
  std::span<const cudnnBackendDescriptor_t> operations() const;

 private:
  static constexpr size_t kMost = 32;
  const CudnnDescriptor& pointwise_mode(cudnnPointwiseMode_t mode);

  int64_t alignment_;
  std::vector<CudnnDescriptor> parts_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  bool ok_ = true;
};

using CudnnKey = std::array<int64_t, 32>;
inline constexpr size_t kCudnnKeyBegin = 5;  // what comes before is filled in here

class CudnnGraph {
 public:
  virtual ~CudnnGraph() = default;
  // Fills in what distinguishes it from all others of the queue, from key[kCudnnKeyBegin] on; its kind first.
  virtual void fill_key(CudnnKey& key) const = 0;
  virtual void describe(CudnnParts& parts) const = 0;
  virtual Dtype dtype() const = 0;
  virtual int most_plans() const = 0;  // that are looked at
};

struct CudnnOperand {
  int64_t id = 0;
  const void* data = nullptr;
  bool by_value = false;
};

// False when cuDNN has no plan for it within the queue's workspace; nothing was queued then. Other failures are the queue's.
bool queue_cudnn_graph(const CudnnGraph& graph, std::span<const CudnnOperand> operands, CudaQueue& queue, const char* name);

// Whether cuDNN has a plan for a device that need not be here, described by cuDNN's JSON of device properties: for tests. `queue` gives the
// bytes of the workspace and what the plan may do.
bool cudnn_has_plan(const CudnnGraph& graph, const char* device, const CudaQueue& queue);

}  // namespace perigee
