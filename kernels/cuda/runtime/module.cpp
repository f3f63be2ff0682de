#include "kernels/cuda/runtime/module.h"

#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>

#include "kernels/cuda/library/libraries.h"
#include "kernels/cuda/library/library_cache.h"
#include "kernels/cuda/runtime/overlap.h"
#include "kernels/cuda/runtime/patience.h"
#include "kernels/cuda/runtime/registry.h"

namespace perigee {
namespace {

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }
cudaGraphExec_t graph_of(void* graph) { return static_cast<cudaGraphExec_t>(graph); }

// Clears the last error, so that the next call that asks for it does not find it again; a sticky error comes back by itself.
int told(cudaError_t status) {
  if (status != cudaSuccess) cudaGetLastError();
  return status;
}

int counted(int64_t CudaCounts::*which, cudaError_t status) {
  count_cuda(which);
  return told(status);
}

std::atomic<bool> gave_up{false}, hurried{false};

double patience_s() {
  constexpr double kHurried = 5;
  return hurried ? std::min(kHurried, cuda_patience_s()) : cuda_patience_s();
}

// Until what `query` asks for is there. A step is waited for without a pause; what takes longer does not miss one.
template <class Query>
cudaError_t wait_until(Query query) {
  constexpr double kWithoutPause = 0.2;
  static_assert(kCudaTimeout == cudaErrorTimeout);
  const auto begin = std::chrono::steady_clock::now();
  while (!gave_up) {
    const cudaError_t status = query();
    if (status != cudaErrorNotReady) return status;
    told(status);
    const double waited_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (waited_s > kWithoutPause) std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (waited_s > patience_s()) gave_up = true;
  }
  return cudaErrorTimeout;
}

void shorten_timeouts() { hurried = true; }

int device_count(int* count) { return told(cudaGetDeviceCount(count)); }

int device(int index, CudaDevice* device) {
  cudaDeviceProp properties;
  const cudaError_t status = cudaGetDeviceProperties(&properties, index);
  if (status != cudaSuccess) return told(status);
  static_assert(sizeof device->name == sizeof properties.name);
  std::memcpy(device->name, properties.name, sizeof device->name);
  device->major = properties.major, device->minor = properties.minor;
  device->memory_bytes = properties.totalGlobalMem;
  device->l2_bytes = static_cast<size_t>(properties.l2CacheSize);
  return cudaSuccess;
}

int versions(int* driver, int* runtime) {
  const cudaError_t status = cudaDriverGetVersion(driver);
  return told(status != cudaSuccess ? status : cudaRuntimeGetVersion(runtime));
}

const char* message(int code) { return cudaGetErrorString(static_cast<cudaError_t>(code)); }

int select(int device) { return told(cudaSetDevice(device)); }
int memory(size_t* free, size_t* total) { return told(cudaMemGetInfo(free, total)); }
int allocate(size_t bytes, void** memory) { return counted(&CudaCounts::allocations, cudaMalloc(memory, bytes)); }
int release(void* memory) { return gave_up ? cudaSuccess : counted(&CudaCounts::allocations, cudaFree(memory)); }
int upload(void* device, const void* host, size_t bytes) {
  return counted(&CudaCounts::host_waits, cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
}
int download(void* host, const void* device, size_t bytes) {
  return counted(&CudaCounts::host_waits, cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}
int allocate_pinned(size_t bytes, void** memory) {
  return counted(&CudaCounts::allocations, cudaHostAlloc(memory, bytes, cudaHostAllocPortable));
}
int release_pinned(void* memory) { return gave_up ? cudaSuccess : counted(&CudaCounts::allocations, cudaFreeHost(memory)); }

int create_stream(void** stream) { return told(cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(stream), cudaStreamNonBlocking)); }
int destroy_stream(void* stream) { return gave_up ? cudaSuccess : told(cudaStreamDestroy(stream_of(stream))); }
int wait_for_stream(void* stream) {
  return counted(&CudaCounts::host_waits, wait_until([&] { return cudaStreamQuery(stream_of(stream)); }));
}
int create_event(void** event) { return told(cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), cudaEventDisableTiming)); }
int create_timer(void** event) { return told(cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), cudaEventDefault)); }
int destroy_event(void* event) { return gave_up ? cudaSuccess : told(cudaEventDestroy(event_of(event))); }
int record_event(void* event, void* stream) { return told(cudaEventRecord(event_of(event), stream_of(stream))); }
int wait_for_event(void* event) {
  count_cuda(&CudaCounts::event_waits);
  const cudaError_t status = cudaEventQuery(event_of(event));
  if (status != cudaErrorNotReady) return told(status);
  told(status);
  return counted(&CudaCounts::blocked_event_waits, wait_until([&] { return cudaEventQuery(event_of(event)); }));
}
int elapsed(void* begin, void* end, float* milliseconds) {
  return told(cudaEventElapsedTime(milliseconds, event_of(begin), event_of(end)));
}
int stream_waits(void* stream, void* event) { return told(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0)); }
int event_reached(void* event) {
  static_assert(kCudaNotReady == cudaErrorNotReady);
  return told(cudaEventQuery(event_of(event)));
}
int copy_between(void* to, int to_device, const void* from, int from_device, size_t bytes, void* stream) {
  return bytes == 0 ? cudaSuccess : told(cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream_of(stream)));
}
int enable_peer_access(int device, int peer) {
  int can = 0;
  const cudaError_t status = cudaDeviceCanAccessPeer(&can, device, peer);
  // It may be there already, or refused (too many peers); without it copies go by way of the host. What is sticky comes again.
  if (status == cudaSuccess && can != 0) told(cudaDeviceEnablePeerAccess(peer, 0));
  return told(status);
}
int copy(void* to, const void* from, size_t bytes, void* stream) {
  if (bytes == 0) return cudaSuccess;
  return counted(&CudaCounts::copies, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)));
}
int clear(void* memory, size_t bytes, void* stream) {
  if (bytes == 0) return cudaSuccess;
  return counted(&CudaCounts::launches, cudaMemsetAsync(memory, 0, bytes, stream_of(stream)));
}

// Library state that captured graphs use but do not own.
struct {
  std::mutex mutex;
  std::map<void*, HeldByGraph> of;
} held;

// Relaxed: what a library allocates or loads on a first call is no work of the stream, and must not end the capture.
int begin_capture(void* stream) {
  const int status = told(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeRelaxed));
  count_nothing(status == cudaSuccess);
  if (status == cudaSuccess) begin_holding(), begin_overlaps();
  return status;
}

int end_capture(void* stream, void** graph) {
  cudaGraph_t captured = nullptr;
  count_nothing(false);
  end_overlaps();
  HeldByGraph used = end_holding();
  cudaError_t status = cudaStreamEndCapture(stream_of(stream), &captured);
  if (status == cudaSuccess && graph != nullptr) status = cudaGraphInstantiate(reinterpret_cast<cudaGraphExec_t*>(graph), captured, 0);
  size_t nodes = 0;
  if (status == cudaSuccess && cudaGraphGetNodes(captured, nullptr, &nodes) == cudaSuccess)
    set_captured(static_cast<int64_t>(nodes), overlaps_of(captured));
  if (captured != nullptr) cudaGraphDestroy(captured);
  if (status == cudaSuccess && graph != nullptr && !used.empty()) {
    const std::lock_guard lock(held.mutex);
    held.of[*graph] = std::move(used);
  }
  return told(status);
}

int launch_graph(void* graph, void* stream) {
  return counted(&CudaCounts::graph_launches, cudaGraphLaunch(graph_of(graph), stream_of(stream)));
}
int destroy_graph(void* graph) {
  if (gave_up) return cudaSuccess;
  const int status = told(cudaGraphExecDestroy(graph_of(graph)));
  const std::lock_guard lock(held.mutex);
  held.of.erase(graph);
  return status;
}

// For what cuBLASLt and cuDNN write between their own steps; an algorithm that wants more is not chosen.
constexpr size_t kWorkspace = size_t{128} << 20;

bool wants_workspace() {
  for (const KernelList& list : cuda_kernel_lists())
    for (size_t i = 0; i < list.count; ++i) {
      const std::string_view name = list.first[i].name;
      if (name == "cublas" && cuda_library_missing(CudaLibrary::cublas_lt) == nullptr) return true;
      if (name == "cudnn" && cuda_library_missing(CudaLibrary::cudnn) == nullptr) return true;
    }
  return false;
}

void close_queue(CudaQueue* queue) {
  if (gave_up) return void(*queue = {});
  drop_cuda_libraries(queue->libraries);
  if (queue->workspace != nullptr) release(queue->workspace);
  if (queue->stream != nullptr) destroy_stream(queue->stream);
  if (queue->counters != nullptr) release(queue->counters);
  *queue = {};
}

// Releases what it opened if any part fails.
int open_queue(int device, CudaQueue* queue) {
  *queue = {};
  queue->device = device;
  queue->libraries = make_cuda_libraries();
  if (wants_workspace() && allocate(kWorkspace, &queue->workspace) == cudaSuccess) queue->workspace_bytes = kWorkspace;
  int status = create_stream(&queue->stream);
  void* counters = nullptr;
  constexpr size_t kBytes = kCudaCounters * sizeof(uint32_t);
  if (status == cudaSuccess) status = allocate(kBytes, &counters);
  queue->counters = static_cast<uint32_t*>(counters);
  if (status == cudaSuccess) status = clear(counters, kBytes, queue->stream);
  if (status != cudaSuccess) close_queue(queue);
  else prepare_overlaps(device);
  return status;
}

}  // namespace
}  // namespace perigee

const perigee::CudaModule* perigee_cuda_module() {
  using namespace perigee;
  static const CudaModule module{.device_count = device_count,
                                 .device = device,
                                 .message = message,
                                 .library = cuda_library,
                                 .versions = versions,
                                 .select = select,
                                 .memory = memory,
                                 .allocate = allocate,
                                 .release = release,
                                 .upload = upload,
                                 .download = download,
                                 .allocate_pinned = allocate_pinned,
                                 .release_pinned = release_pinned,
                                 .shorten_timeouts = shorten_timeouts,
                                 .create_stream = create_stream,
                                 .destroy_stream = destroy_stream,
                                 .wait_for_stream = wait_for_stream,
                                 .create_event = create_event,
                                 .create_timer = create_timer,
                                 .destroy_event = destroy_event,
                                 .record_event = record_event,
                                 .wait_for_event = wait_for_event,
                                 .elapsed = elapsed,
                                 .stream_waits = stream_waits,
                                 .event_reached = event_reached,
                                 .copy = copy,
                                 .copy_between = copy_between,
                                 .enable_peer_access = enable_peer_access,
                                 .clear = clear,
                                 .begin_capture = begin_capture,
                                 .end_capture = end_capture,
                                 .launch_graph = launch_graph,
                                 .destroy_graph = destroy_graph,
                                 .counts = cuda_counts,
                                 .open_queue = open_queue,
                                 .close_queue = close_queue,
                                 .kernels = cuda_kernel_lists,
                                 .steps = &cuda_steps(),
                                 .codecs = &codec_cuda(),
                                 .rounds = &cuda_rounds(),
                                 .groups = &cuda_groups()};
  return &module;
}
