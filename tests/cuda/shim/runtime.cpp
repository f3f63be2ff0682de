#include "tests/cuda/shim/runtime.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/shim/graph.h"
#include "tests/cuda/shim/shim.h"

struct CUevent_st {
  int device = 0;
  uint64_t recorded = 0, reached = 0;  // how often
  CUstream_st* stream = nullptr;       // of the last record
  CUgraph_st* capture = nullptr;       // that the last record was part of
  std::vector<size_t> nodes;           // there: those that the event comes after
  double at_ms = 0;                    // when it was reached last
  uint64_t asked = 0;                  // the record that was asked about, and not reached
  bool timed = false;
};

struct CUstream_st {
  struct Work {
    std::function<void()> run;    // or
    CUevent_st* event = nullptr;  // which has been reached `number` times here, or is waited for
    uint64_t number = 0;
    bool wait = false;
    std::shared_ptr<shim::GraphRun> graph = nullptr;
    shim::Meeting* meeting = nullptr;
    size_t member = 0;
  };
  int device = 0;
  bool busy = false;
  std::deque<Work> queued;
  CUgraph_st* capture = nullptr;
  std::vector<size_t> tail;  // nodes of the capture that the next one here comes after
};

struct CUgraph_st : shim::Graph {
  std::vector<CUstream_st*> streams;  // that are being captured; the first began it
};

struct CUgraphExec_st : shim::Graph {
  explicit CUgraphExec_st(const CUgraph_st& graph) : Graph(graph) {}
};

namespace {

using shim::Counters;

std::recursive_mutex mutex;
Counters counters;
double now_ms = 0;  // of the device
constexpr int kMostDevices = 64, kNone = -1, kAll = -2;
cudaError_t lost[kMostDevices] = {};
cudaError_t last = cudaSuccess;
long malloc_fault = 0, launch_fault = 0;  // 1: the next one
int faulty_device = kAll;
struct DeviceMemory {
  std::unique_ptr<shim::Buffer> buffer;
  int device = 0;
};
std::map<void*, DeviceMemory> memory;
int open_depth = 0, opened = kNone;  // for kernels of that device
thread_local int current_device = 0;
CUstream_st* newest = nullptr;  // on which something was queued last

long number_from(const char* variable, long fallback) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atol(text) : fallback;
}

bool is(const char* variable, const std::string& value) {
  const char* text = std::getenv(variable);
  return text != nullptr && value == text;
}

// "launch:40" or "malloc:3".
void faults_of_environment() {
  const char* text = std::getenv("PERIGEE_SHIM_FAULT");
  const std::string fault = text != nullptr ? text : "";
  const size_t colon = fault.find(':');
  if (colon != std::string::npos) shim_fault(fault.substr(0, colon).c_str(), std::atol(fault.c_str() + colon + 1));
}

cudaError_t say(cudaError_t status, int device = current_device) {
  static const bool once = (faults_of_environment(), true);
  (void)once;
  if (status == cudaSuccess) status = lost[device];
  if (status != cudaSuccess) last = status;
  return status;
}

// PERIGEE_SHIM_MEMORY=open leaves the watch over memory out: with many allocations most of the time goes there.
bool watched() {
  static const bool yes = !is("PERIGEE_SHIM_MEMORY", "open");
  return yes;
}

void open_for(int device) {
  if (device == opened || !watched()) return;
  for (auto& [at, of] : memory) {
    const auto touched = [own = of.device](int by) { return by == kAll || by == own; };
    if (touched(device) != touched(opened)) of.buffer->allow(touched(device));
  }
  opened = device;
}

// While it lives, devices' memory can be touched: by what open_for() says.
struct Open {
  Open() { ++open_depth; }
  ~Open() {
    if (--open_depth == 0) open_for(kNone);
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
};

bool faulty(long* fault) { return *fault > 0 && --*fault == 0; }

void run_kernel(int device, const std::function<void()>& kernel) {
  if ((faulty_device == kAll || faulty_device == device) && faulty(&launch_fault)) lost[device] = cudaErrorIllegalAddress;
  static const bool skip = is("PERIGEE_SHIM_SKIP", "1");  // for those who only count
  if (lost[device] != cudaSuccess || skip) return;
  open_for(device);
  kernel();
}

bool run_first(CUstream_st* stream);

// False: it waits for a member that nobody has sent there.
bool meet(shim::Meeting& meeting, size_t member, int device, const std::function<void()>& work) {
  auto& self = meeting.members[member];
  const long round = self.left + 1;
  const auto leave = [&] {
    self.left = round;
    self.queued.pop_front();
    return true;
  };
  if (lost[device] != cudaSuccess || meeting.aborted) return leave();  // who is lost never gets there
  self.reached = round;
  for (auto& other : meeting.members)
    while (other.reached < round && !meeting.aborted)
      if (other.queued.empty() || !run_first(other.queued.front())) return false;
  if (meeting.done < round && !meeting.aborted) {
    meeting.done = round;
    open_for(kAll);
    work();
  }
  return leave();
}

bool run_graph(CUstream_st* stream, shim::GraphRun& run) {
  while (!run.done()) {
    const auto& node = run.next();
    if (node.meeting != nullptr) {
      if (!meet(*node.meeting, node.member, stream->device, node.run)) return false;
    } else {
      node.run();
    }
    run.ran();
    if (node.meeting != nullptr) return true;  // the others' turn
  }
  return true;
}

bool reached(const CUstream_st* stream, const CUevent_st* event, uint64_t number) {
  return event == nullptr ? stream == nullptr || stream->queued.empty() : event->reached >= number;
}

// False: what comes first waits for what does not come, or is being run already, further out.
bool run_first(CUstream_st* stream) {
  if (stream->queued.empty() || stream->busy) return false;
  stream->busy = true;
  CUstream_st::Work& work = stream->queued.front();
  bool done = true;
  if (work.wait) {
    while (!reached(work.event->stream, work.event, work.number) && done) done = run_first(work.event->stream);
  } else if (work.event != nullptr) {
    work.event->reached = work.number;
    work.event->at_ms = now_ms;
  } else if (work.meeting != nullptr) {
    done = meet(*work.meeting, work.member, stream->device, work.run);
  } else if (work.graph != nullptr) {
    const bool moved = run_graph(stream, *work.graph);
    stream->busy = false;
    if (work.graph->done()) stream->queued.pop_front();
    return moved;
  } else {
    work.run();
  }
  stream->busy = false;
  if (done) stream->queued.pop_front();
  return done;
}

// The stream up to where it reaches the event; all of it when there is none. False: it cannot.
bool run_until(CUstream_st* stream, const CUevent_st* event, uint64_t number) {
  const Open open;
  while (!reached(stream, event, number))
    if (!run_first(stream)) return false;
  return true;
}

void wait_for_ever() {
  std::fprintf(stderr, "shim: the host waits for a stream that waits for what nobody has queued\n");
  std::abort();
}

cudaError_t push(CUstream_st* stream, CUstream_st::Work work) {
  stream->queued.push_back(std::move(work));
  newest = stream;
  if (is("PERIGEE_SHIM_STREAMS", "eager")) run_until(stream, nullptr, 0);
  return say(cudaSuccess, stream->device);
}

// Of a stream that is captured: what comes next there comes after these too.
void come_after(CUstream_st* stream, const std::vector<size_t>& nodes) {
  stream->tail.insert(stream->tail.end(), nodes.begin(), nodes.end());
  std::sort(stream->tail.begin(), stream->tail.end());
  stream->tail.erase(std::unique(stream->tail.begin(), stream->tail.end()), stream->tail.end());
}

int device_count() { return static_cast<int>(number_from("PERIGEE_SHIM_DEVICES", 1)); }

// PERIGEE_SHIM_MEMORY_MB=1024,512: of each device; those that are not named have as much as the last.
size_t total_memory(int device = current_device) {
  const char* text = std::getenv("PERIGEE_SHIM_MEMORY_MB");
  if (text == nullptr) text = "1024";
  for (; device > 0 && std::strchr(text, ',') != nullptr; --device) text = std::strchr(text, ',') + 1;
  return static_cast<size_t>(std::atol(text)) << 20;
}

size_t used_memory() {  // of the current device
  size_t sum = 0;
  for (const auto& [at, of] : memory)
    if (of.device == current_device) sum += of.buffer->size();
  return sum;
}

cudaError_t driver_fault() {
  if (is("PERIGEE_SHIM_DRIVER", "old")) return cudaErrorInsufficientDriver;
  return device_count() == 0 ? cudaErrorNoDevice : cudaSuccess;
}

}  // namespace

extern "C" {
Counters* shim_counters() { return &counters; }

void shim_fault(const char* what, long nth) {
  const std::lock_guard lock(mutex);
  const std::string text = what;
  const size_t at = text.find('@');
  const std::string kind = text.substr(0, at);
  malloc_fault = kind == "malloc" ? nth : 0;
  launch_fault = kind == "launch" ? nth : 0;
  faulty_device = at == std::string::npos ? kAll : std::atoi(text.c_str() + at + 1);
  if (text.empty()) last = cudaSuccess, std::fill(std::begin(lost), std::end(lost), cudaSuccess);
}
}

void shim::pass_time(double milliseconds) { now_ms += milliseconds; }

cudaError_t shim::enqueue(cudaStream_t stream, bool kernel, std::function<void()> work) {
  const std::lock_guard lock(mutex);
  if (kernel && is("PERIGEE_SHIM_DRIVER", "image")) return say(cudaErrorNoKernelImageForDevice);
  const int device = stream != nullptr ? stream->device : current_device;
  if (lost[device] != cudaSuccess) return say(lost[device]);
  if (kernel && device != current_device) return say(cudaErrorInvalidResourceHandle);
  if (kernel) work = [device, inner = std::move(work)] { run_kernel(device, inner); };
  else work = [device, inner = std::move(work)] { lost[device] == cudaSuccess ? (open_for(kAll), inner()) : void(); };
  if (stream == nullptr) {
    const Open open;
    work();
    return say(cudaSuccess);
  }
  if (stream->capture != nullptr) {
    stream->capture->nodes.push_back({std::move(work), stream->tail});
    stream->tail = {stream->capture->nodes.size() - 1};
    return cudaSuccess;
  }
  counters.launches += kernel;
  return push(stream, {.run = std::move(work)});
}

cudaError_t shim::enqueue_meeting(cudaStream_t stream, Meeting& meeting, size_t member, std::function<void()> work) {
  const std::lock_guard lock(mutex);
  if (stream->capture != nullptr) {
    stream->capture->nodes.push_back({std::move(work), stream->tail, &meeting, member});
    stream->tail = {stream->capture->nodes.size() - 1};
    return cudaSuccess;
  }
  meeting.members[member].queued.push_back(stream);
  ++counters.launches;
  return push(stream, {.run = std::move(work), .meeting = &meeting, .member = member});
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (const cudaError_t status = driver_fault(); status != cudaSuccess) return say(status);
  *count = device_count();
  return say(cudaSuccess);
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return say(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= device_count()) return say(cudaErrorInvalidDevice);
  const char* const name = std::getenv("PERIGEE_SHIM_NAME");
  std::snprintf(properties->name, sizeof properties->name, "%s %d", name != nullptr ? name : "shim", device);
  properties->major = 9, properties->minor = 0, properties->multiProcessorCount = 4, properties->l2CacheSize = 1 << 20;
  properties->totalGlobalMem = total_memory(device);
  return say(cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t status = driver_fault(); status != cudaSuccess) return say(status);
  if (device < 0 || device >= device_count()) return say(cudaErrorInvalidDevice);
  current_device = device;
  return say(cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = is("PERIGEE_SHIM_DRIVER", "old") ? 11000 : 13000;
  return say(cudaSuccess);
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return say(cudaSuccess);
}

cudaError_t cudaGetLastError() {
  const cudaError_t status = last;
  last = lost[current_device];
  return status;
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorNoKernelImageForDevice: return "no kernel image is available for execution on the device";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorPeerAccessAlreadyEnabled: return "peer access is already enabled";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureUnjoined: return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation: return "dependency created on uncaptured work in another stream";
  }
  return "unrecognized error code";
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(mutex);
  *total = total_memory();
  *free = *total - std::min(*total, used_memory());
  return say(cudaSuccess);
}

cudaError_t cudaMalloc(void** to, size_t bytes) {
  const std::lock_guard lock(mutex);
  if (const cudaError_t status = say(driver_fault()); status != cudaSuccess) return status;
  if (faulty(&malloc_fault) || used_memory() + bytes > total_memory()) return say(cudaErrorMemoryAllocation);
  auto buffer = std::make_unique<shim::Buffer>("device memory", bytes, 256);
  buffer->allow(opened == kAll || opened == current_device || !watched());
  *to = buffer->data();
  ++counters.allocations;
  memory.emplace(*to, DeviceMemory{std::move(buffer), current_device});
  return say(cudaSuccess);
}

cudaError_t cudaFree(void* at) {
  const std::lock_guard lock(mutex);
  const auto found = memory.find(at);
  if (at != nullptr && found == memory.end()) return say(cudaErrorInvalidValue);
  if (at == nullptr) return say(cudaSuccess);
  found->second.buffer->allow(true);  // it looks whether something was written beside it
  memory.erase(found);
  return say(cudaSuccess);
}

cudaError_t cudaHostAlloc(void** to, size_t bytes, unsigned) {
  *to = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return say(*to != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void* at) {
  std::free(at);
  return say(cudaSuccess);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  const std::lock_guard lock(mutex);
  if (lost[current_device] != cudaSuccess) return say(lost[current_device]);
  const Open open;
  open_for(kAll);
  std::memmove(to, from, bytes);
  ++counters.waits;
  return say(cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return shim::enqueue(stream, false, [=] { std::memmove(to, from, bytes); });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream) {
  const auto of = [](const void* at) {
    const auto next = memory.upper_bound(const_cast<void*>(at));
    return next == memory.begin() ? kNone : std::prev(next)->second.device;
  };
  const std::lock_guard lock(mutex);
  if (of(to) != to_device || of(from) != from_device) return say(cudaErrorInvalidValue);
  return shim::enqueue(stream, false, [=] { std::memmove(to, from, bytes); });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer;
  return say(cudaSuccess);
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  static bool before = false;
  return say(std::exchange(before, true) ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess);
}

cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream) {
  return shim::enqueue(stream, false, [=] { std::memset(at, value, bytes); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (const cudaError_t status = say(driver_fault()); status != cudaSuccess) return status;
  *stream = std::make_unique<CUstream_st>().release();
  (*stream)->device = current_device;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  run_until(stream, nullptr, 0);
  if (newest == stream) newest = nullptr;
  const std::unique_ptr<CUstream_st> dropped(stream);
  return say(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  if (stream->capture != nullptr) return say(cudaErrorStreamCaptureUnsupported);
  ++counters.waits;
  if (!run_until(stream, nullptr, 0)) wait_for_ever();
  return say(cudaSuccess, stream->device);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(mutex);
  if (event->capture != nullptr) {
    if (stream->capture == nullptr) {  // it becomes part of the capture
      stream->capture = event->capture;
      stream->capture->streams.push_back(stream);
      stream->tail.clear();
    }
    if (stream->capture != event->capture) return say(cudaErrorStreamCaptureIsolation);
    come_after(stream, event->nodes);
    return say(cudaSuccess);
  }
  if (stream->capture != nullptr) return say(cudaErrorStreamCaptureIsolation);
  return push(stream, {.event = event, .number = event->recorded, .wait = true});
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(mutex);
  if (stream->capture != nullptr) return say(cudaErrorStreamCaptureUnsupported);
  stream->capture = std::make_unique<CUgraph_st>().release();
  stream->capture->streams.push_back(stream);
  stream->tail.clear();
  return say(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(mutex);
  if (stream->capture == nullptr || stream->capture->streams[0] != stream) return say(cudaErrorInvalidValue);
  std::unique_ptr<CUgraph_st> captured(stream->capture);
  const bool whole = captured->all_before(stream->tail);
  for (CUstream_st* of : std::exchange(captured->streams, {})) of->capture = nullptr;
  *graph = whole ? captured.release() : nullptr;
  return say(whole ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = std::make_unique<CUevent_st>().release();
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  (*event)->device = current_device;
  return say(cudaSuccess);
}

// What is queued may still look at it, and then nobody else can.
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  static std::vector<std::unique_ptr<CUevent_st>> dropped;
  const std::lock_guard lock(mutex);
  dropped.emplace_back(event);
  return say(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  if (event->device != stream->device) return say(cudaErrorInvalidResourceHandle);
  event->capture = stream->capture;
  if (stream->capture != nullptr) {
    event->nodes = stream->tail;
    return say(cudaSuccess);
  }
  event->stream = stream;
  return push(stream, {.event = event, .number = ++event->recorded});
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(mutex);
  if (event->capture != nullptr) return say(cudaErrorStreamCaptureUnsupported);
  if (event->reached == event->recorded) {
    ++counters.event_waits;
    return say(cudaSuccess, event->device);
  }
  if (!run_until(event->stream, event, event->recorded)) wait_for_ever();
  ++(event->stream->queued.empty() && newest == event->stream ? counters.newest_waits : counters.event_waits);
  return say(cudaSuccess, event->device);
}

// A host that asks again and again: the device gets on with it from the second time.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(mutex);
  if (event->capture != nullptr) return say(cudaErrorStreamCaptureUnsupported);
  if (event->reached == event->recorded) {
    ++counters.event_waits;
    return say(cudaSuccess, event->device);
  }
  if (std::exchange(event->asked, event->recorded) != event->recorded) return say(cudaErrorNotReady, event->device);
  if (!run_until(event->stream, event, event->recorded)) {
    const cudaError_t status = lost[event->device];
    return status != cudaSuccess ? say(status) : cudaErrorNotReady;
  }
  ++(event->stream->queued.empty() && newest == event->stream ? counters.newest_waits : counters.event_waits);
  return say(cudaSuccess, event->device);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const std::lock_guard lock(mutex);
  for (const CUevent_st* event : {begin, end})
    if (!event->timed || event->recorded == 0 || event->reached != event->recorded) return say(cudaErrorInvalidValue);
  *milliseconds = static_cast<float>(end->at_ms - begin->at_ms);
  return say(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = std::make_unique<CUgraphExec_st>(*graph).release();
  return say(cudaSuccess);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (nodes != nullptr) return say(cudaErrorInvalidValue);
  *count = graph->nodes.size();
  return say(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::unique_ptr<CUgraph_st> dropped(graph);
  return say(cudaSuccess);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  const std::unique_ptr<CUgraphExec_st> dropped(exec);
  return say(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  if (lost[stream->device] != cudaSuccess) return say(lost[stream->device]);
  if (stream->capture != nullptr) return say(cudaErrorStreamCaptureUnsupported);
  ++counters.graph_launches;
  for (const auto& node : exec->nodes)
    if (node.meeting != nullptr) node.meeting->members[node.member].queued.push_back(stream);
  return push(stream, {.graph = std::make_shared<shim::GraphRun>(*exec)});
}
