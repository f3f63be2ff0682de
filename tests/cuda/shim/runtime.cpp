#include "tests/cuda/shim/runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tests/cuda/shim/state.h"

namespace shim {

std::recursive_mutex mutex;
Counters counters;
cudaError_t lost[kMostDevices] = {};
thread_local int current_device = 0;

namespace {

double now_ms = 0;  // of the device
cudaError_t last = cudaSuccess;
long malloc_fault = 0, launch_fault = 0, hang_fault = 0;  // 1: the next one
bool hung[kMostDevices] = {};                             // kernels there come to no end
int faulty_device = kAll;
CUstream_st* newest = nullptr;  // on which something was queued last

bool faulty(long* fault) { return *fault > 0 && --*fault == 0; }

// "launch:40" or "malloc:3".
void faults_of_environment() {
  const char* text = std::getenv("PERIGEE_SHIM_FAULT");
  const std::string fault = text != nullptr ? text : "";
  const size_t colon = fault.find(':');
  if (colon != std::string::npos) shim_fault(fault.substr(0, colon).c_str(), std::atol(fault.c_str() + colon + 1));
}

int device_count() { return static_cast<int>(number_from("PERIGEE_SHIM_DEVICES", 1)); }

}  // namespace

long number_from(const char* variable, long fallback) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atol(text) : fallback;
}

bool is(const char* variable, const std::string& value) {
  const char* text = std::getenv(variable);
  return text != nullptr && value == text;
}

cudaError_t say(cudaError_t status, int device) {
  static const bool once = (faults_of_environment(), true);
  (void)once;
  if (status == cudaSuccess) status = lost[device];
  if (status != cudaSuccess) last = status;
  return status;
}

cudaError_t driver_fault() {
  if (is("PERIGEE_SHIM_DRIVER", "old")) return cudaErrorInsufficientDriver;
  return device_count() == 0 ? cudaErrorNoDevice : cudaSuccess;
}

bool malloc_is_faulty() { return faulty(&malloc_fault); }

namespace {

void run_kernel(int device, const std::function<void()>& kernel) {
  if ((faulty_device == kAll || faulty_device == device) && faulty(&launch_fault)) lost[device] = cudaErrorIllegalAddress;
  if ((faulty_device == kAll || faulty_device == device) && faulty(&hang_fault)) hung[device] = true;
  static const bool skip = is("PERIGEE_SHIM_SKIP", "1");  // for those who only count
  if (lost[device] != cudaSuccess || hung[device] || skip) return;
  open_for(device);
  kernel();
}

bool run_first(CUstream_st* stream);

// False: it waits for a member that has not arrived.
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
  if (stream->queued.empty() || stream->busy || hung[stream->device]) return false;
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

void wait_for_ever() {
  std::fprintf(stderr, "shim: the host waits for a stream that waits for work that is not queued\n");
  std::abort();
}

}  // namespace

// The stream up to where it reaches the event; all of it when there is none. False: it cannot.
bool run_until(CUstream_st* stream, const CUevent_st* event, uint64_t number) {
  const Open open;
  while (!reached(stream, event, number))
    if (!run_first(stream)) return false;
  return true;
}

cudaError_t push(CUstream_st* stream, CUstream_st::Work work) {
  stream->queued.push_back(std::move(work));
  newest = stream;
  if (is("PERIGEE_SHIM_STREAMS", "eager")) run_until(stream, nullptr, 0);
  return say(cudaSuccess, stream->device);
}

}  // namespace shim

using namespace shim;

extern "C" {
Counters* shim_counters() { return &counters; }

void shim_fault(const char* what, long nth) {
  const std::lock_guard lock(mutex);
  const std::string text = what;
  const size_t at = text.find('@');
  const std::string kind = text.substr(0, at);
  malloc_fault = kind == "malloc" ? nth : 0;
  launch_fault = kind == "launch" ? nth : 0;
  hang_fault = kind == "hang" ? nth : 0;
  faulty_device = at == std::string::npos ? kAll : std::atoi(text.c_str() + at + 1);
  if (!text.empty()) return;
  last = cudaSuccess;
  std::fill(std::begin(lost), std::end(lost), cudaSuccess);
  std::fill(std::begin(hung), std::end(hung), false);
}
}

void shim::pass_time(double milliseconds) { now_ms += milliseconds; }
void shim::lose_device(int device) { lost[device] = cudaErrorIllegalAddress; }

namespace {

cudaError_t enqueue_as(cudaStream_t stream, bool kernel, shim::Graph::Node node) {
  const std::lock_guard lock(mutex);
  if (kernel && is("PERIGEE_SHIM_DRIVER", "image")) return say(cudaErrorNoKernelImageForDevice);
  const int device = stream != nullptr ? stream->device : current_device;
  if (lost[device] != cudaSuccess) return say(lost[device]);
  if (kernel && device != current_device) return say(cudaErrorInvalidResourceHandle);
  if (kernel) node.run = [device, inner = std::move(node.run)] { run_kernel(device, inner); };
  else node.run = [device, inner = std::move(node.run)] { lost[device] == cudaSuccess ? (open_for(kAll), inner()) : void(); };
  if (stream == nullptr) {
    if (const cudaError_t status = null_stream_call(); status != cudaSuccess) return status;
    const Open open;
    node.run();
    return say(cudaSuccess);
  }
  if (stream->capture != nullptr) return add_node(stream, std::move(node));
  counters.launches += kernel;
  return push(stream, {.run = std::move(node.run)});
}

}  // namespace

cudaError_t shim::enqueue(cudaStream_t stream, bool kernel, std::function<void()> work) {
  return enqueue_as(stream, kernel, {.run = std::move(work)});
}

cudaError_t shim::enqueue_own(cudaStream_t stream, bool overlaps, std::function<void()> work) {
  const std::lock_guard lock(mutex);
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, current_device);
  if (overlaps && (major < 9 || stream == nullptr || stream->capture == nullptr)) return say(cudaErrorInvalidValue);
  if (overlaps && (!may_overlap(stream) || is("PERIGEE_SHIM_OVERLAP", "refused")))
    return spoil(*stream->capture, cudaErrorStreamCaptureUnsupported);
  return enqueue_as(stream, true, {.run = std::move(work), .own = true, .overlaps = overlaps});
}

cudaError_t shim::enqueue_meeting(cudaStream_t stream, Meeting& meeting, size_t member, std::function<void()> work) {
  const std::lock_guard lock(mutex);
  if (stream->capture != nullptr) return add_node(stream, {.run = std::move(work), .meeting = &meeting, .member = member});
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
  const int capability = std::atoi(of_device("PERIGEE_SHIM_CAPABILITY", "90", device));
  properties->major = capability / 10, properties->minor = capability % 10, properties->multiProcessorCount = 4,
  properties->l2CacheSize = 1 << 20;
  properties->totalGlobalMem = total_memory(device);
  return say(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  if (which != cudaDevAttrComputeCapabilityMajor) return say(cudaErrorInvalidValue);
  if (device < 0 || device >= device_count()) return say(cudaErrorInvalidDevice);
  *value = std::atoi(of_device("PERIGEE_SHIM_CAPABILITY", "90", device)) / 10;
  return say(cudaSuccess);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  attributes->ptxVersion = static_cast<int>(number_from("PERIGEE_SHIM_CODE", 90));
  return say(cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t status = driver_fault(); status != cudaSuccess) return say(status);
  if (device < 0 || device >= device_count()) return say(cudaErrorInvalidDevice);
  current_device = device;
  return say(cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = is("PERIGEE_SHIM_DRIVER", "old") ? 11000 : is("PERIGEE_SHIM_DRIVER", "12.2") ? 12020 : 13000;
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
    case cudaErrorIllegalState: return "the operation cannot be performed in the present state";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureMerge: return "operation would result in a merge of separate capture sequences";
    case cudaErrorStreamCaptureUnmatched: return "capture was not ended in the same stream as it began";
    case cudaErrorStreamCaptureUnjoined: return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation: return "dependency created on uncaptured work in another stream";
    case cudaErrorStreamCaptureImplicit: return "operation would make the legacy stream depend on a capturing blocking stream";
    case cudaErrorCapturedEvent: return "operation not permitted on an event last recorded in a capturing stream";
    case cudaErrorTimeout: return "wait operation timed out";
    case cudaErrorStreamCaptureWrongThread: return "attempt to terminate a thread-local capture sequence from another thread";
  }
  return "unrecognized error code";
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer && !is("PERIGEE_SHIM_PEERS", "none");
  return say(cudaSuccess);
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  static bool before = false;
  if (is("PERIGEE_SHIM_PEERS", "none")) return say(static_cast<cudaError_t>(217));     // not supported between these
  if (is("PERIGEE_SHIM_PEERS", "refused")) return say(static_cast<cudaError_t>(711));  // too many peers
  return say(std::exchange(before, true) ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (const cudaError_t status = say(driver_fault()); status != cudaSuccess) return status;
  *stream = std::make_unique<CUstream_st>().release();
  (*stream)->device = current_device, (*stream)->blocking = (flags & cudaStreamNonBlocking) == 0;
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
  if (const cudaError_t status = look_at(stream); status != cudaSuccess) return status;
  ++counters.waits;
  if (!run_until(stream, nullptr, 0)) wait_for_ever();
  return say(cudaSuccess, stream->device);
}

// As cudaEventQuery.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  if (const cudaError_t status = look_at(stream); status != cudaSuccess) return status;
  if (!stream->queued.empty() && !std::exchange(stream->asked, true)) return say(cudaErrorNotReady, stream->device);
  if (!run_until(stream, nullptr, 0)) {
    const cudaError_t status = lost[stream->device];
    return status != cudaSuccess ? say(status) : cudaErrorNotReady;
  }
  stream->asked = false;
  ++counters.waits;
  return say(cudaSuccess, stream->device);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(mutex);
  if (event->capture != nullptr || stream->capture != nullptr) return wait_in_capture(stream, event);
  return push(stream, {.event = event, .number = event->recorded, .wait = true});
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = std::make_unique<CUevent_st>().release();
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  (*event)->device = current_device;
  return say(cudaSuccess);
}

// Queued work may still read it, so it must not be reused yet.
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  static std::vector<std::unique_ptr<CUevent_st>> dropped;
  const std::lock_guard lock(mutex);
  dropped.emplace_back(event);
  return say(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  if (event->device != stream->device) return say(cudaErrorInvalidResourceHandle);
  if (stream->capture != nullptr) return record_in_capture(event, stream);
  event->capture.reset();
  event->stream = stream;
  return push(stream, {.event = event, .number = ++event->recorded});
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(mutex);
  if (const cudaError_t status = look_at(event); status != cudaSuccess) return status;
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
  if (const cudaError_t status = look_at(event); status != cudaSuccess) return status;
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
  for (const CUevent_st* event : {begin, end}) {
    if (const cudaError_t status = look_at(event); status != cudaSuccess) return status;
    if (!event->timed || event->recorded == 0 || event->reached != event->recorded) return say(cudaErrorInvalidValue);
  }
  *milliseconds = static_cast<float>(end->at_ms - begin->at_ms);
  return say(cudaSuccess);
}
