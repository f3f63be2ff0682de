#include "kernels/cuda/runtime/overlap.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/runtime/launch.cuh"

// Names of CUDA 12.3, the first whose captures have such edges.
#if CUDART_VERSION < 13000
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v3
#define cudaGraphGetEdges cudaGraphGetEdges_v2
#endif

namespace perigee {
namespace {

#if CUDART_VERSION >= 12030
constexpr int kFirstDriver = 12030, kMostDevices = 64;

__global__ void nothing_kernel() { begin_kernel(); }

struct OwnKernel {
  const void* stream = nullptr;
  unsigned long long capture = 0;
  cudaGraphNode_t node = nullptr;  // null: none
};
thread_local int captures = 0;
thread_local bool wanted = false;
thread_local std::vector<OwnKernel> newest;  // of each stream

std::mutex mutex;
uint64_t able = 0;  // a bit for each device; under the mutex

// The one node that the stream's next comes after, if it is one alone and done when that begins.
OwnKernel before_next(void* stream) {
  OwnKernel before{.stream = stream};
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 0;
  const cudaError_t told =
      cudaStreamGetCaptureInfo(static_cast<cudaStream_t>(stream), &status, &before.capture, nullptr, &nodes, &edges, &count);
  if (told != cudaSuccess) cudaGetLastError();
  const bool one = told == cudaSuccess && status == cudaStreamCaptureStatusActive && count == 1;
  if (one && (edges == nullptr || edges->type == cudaGraphDependencyTypeDefault)) before.node = *nodes;
  return before;
}

OwnKernel& newest_of(const void* stream) {
  for (OwnKernel& known : newest)
    if (known.stream == stream) return known;
  return newest.emplace_back(OwnKernel{.stream = stream});
}

// Captures what steps capture: a kernel that overlaps one which another stream waits for, and one that comes after both streams.
class Probe {
 public:
  Probe() {
    for (cudaStream_t* stream : {&line_, &beside_}) check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    for (cudaEvent_t* event : {&fork_, &join_}) check(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    if (status_ != cudaSuccess) return;
    check(cudaStreamBeginCapture(line_, cudaStreamCaptureModeRelaxed));
    if (status_ != cudaSuccess) return;
    begin_overlaps();
    launch(line_);
    check(cudaEventRecord(fork_, line_));
    check(cudaStreamWaitEvent(beside_, fork_, 0));
    launch(beside_);
    launch(line_);
    check(cudaEventRecord(join_, beside_));
    check(cudaStreamWaitEvent(line_, join_, 0));
    launch(line_);
    end_overlaps();
    check(cudaStreamEndCapture(line_, &graph_));
    if (status_ == cudaSuccess) check(cudaGraphInstantiate(&runs_, graph_, 0));
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  ~Probe() {
    if (runs_ != nullptr) cudaGraphExecDestroy(runs_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
    for (cudaEvent_t event : {fork_, join_})
      if (event != nullptr) cudaEventDestroy(event);
    for (cudaStream_t stream : {line_, beside_})
      if (stream != nullptr) cudaStreamDestroy(stream);
    cudaGetLastError();
  }

  bool worked() const { return status_ == cudaSuccess && overlaps_of(graph_) == 1; }

 private:
  void check(cudaError_t status) {
    if (status_ == cudaSuccess) status_ = status;
  }
  void launch(cudaStream_t stream) {
    Launches on(stream);
    on.launch(nothing_kernel, 1, kWarp);
    check(static_cast<cudaError_t>(on.status()));
  }

  cudaError_t status_ = cudaSuccess;
  cudaStream_t line_ = nullptr, beside_ = nullptr;
  cudaEvent_t fork_ = nullptr, join_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t runs_ = nullptr;
};

bool has_code_that_waits(const void* kernel) {
  cudaFuncAttributes code = {};
  if (cudaFuncGetAttributes(&code, kernel) == cudaSuccess) return code.ptxVersion >= kOverlapsFrom;
  cudaGetLastError();
  return false;
}

bool is_wanted() {
  const char* const said = std::getenv("PERIGEE_CUDA_OVERLAP");
  return said == nullptr || std::string_view(said) != "0";
}

bool is_able(int device) {
  const std::lock_guard lock(mutex);
  return device < kMostDevices && (able >> device & 1) != 0;
}

void set_able(int device, bool is) {
  const std::lock_guard lock(mutex);
  const uint64_t bit = uint64_t{1} << device;
  able = is ? able | bit : able & ~bit;
}
#endif

}  // namespace

#if CUDART_VERSION >= 12030
void prepare_overlaps(int device) {
  int major = 0, driver = 0;
  if (device >= kMostDevices || is_able(device) || !is_wanted()) return;
  const bool asked = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
                     cudaDriverGetVersion(&driver) == cudaSuccess;
  if (!asked) cudaGetLastError();
  if (!asked || 10 * major < kOverlapsFrom || driver < kFirstDriver || !has_code_that_waits(reinterpret_cast<const void*>(nothing_kernel)))
    return;
  set_able(device, true);
  if (!Probe().worked()) set_able(device, false);
}

void begin_overlaps() {
  wanted = is_wanted();
  ++captures;
}

void end_overlaps() {
  if (captures > 0 && --captures == 0) newest.clear();
}

bool follows_own_kernel(void* stream) {
  if (captures == 0 || !wanted) return false;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || !is_able(device)) return false;
  const OwnKernel before = before_next(stream);
  const OwnKernel& known = newest_of(stream);
  return before.node != nullptr && before.node == known.node && before.capture == known.capture;
}

void launched_own_kernel(void* stream) {
  if (captures > 0) newest_of(stream) = before_next(stream);
}

int64_t overlaps_of(void* graph) {
  size_t count = 0;
  auto* const of = static_cast<cudaGraph_t>(graph);
  if (cudaGraphGetEdges(of, nullptr, nullptr, nullptr, &count) != cudaSuccess) return 0;
  std::vector<cudaGraphNode_t> from(count), to(count);
  std::vector<cudaGraphEdgeData> edges(count);
  if (count == 0 || cudaGraphGetEdges(of, from.data(), to.data(), edges.data(), &count) != cudaSuccess) return 0;
  return std::count_if(edges.begin(), edges.end(), [](const auto& edge) { return edge.type == cudaGraphDependencyTypeProgrammatic; });
}
#else
void prepare_overlaps(int) {}
void begin_overlaps() {}
void end_overlaps() {}
bool follows_own_kernel(void*) { return false; }
void launched_own_kernel(void*) {}
int64_t overlaps_of(void*) { return 0; }
#endif

OwnLaunch::OwnLaunch(const void* kernel, int64_t blocks, int threads, cudaStream_t stream) {
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  count_cuda(&CudaCounts::launches);
#if CUDART_VERSION >= 12030
  if (!follows_own_kernel(stream) || !has_code_that_waits(kernel)) return;
  overlaps.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlaps.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlaps, config.numAttrs = 1;
#endif
}

}  // namespace perigee
