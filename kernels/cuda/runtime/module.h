// The program's interface to the CUDA module, a shared object that holds every kernel and CUDA's runtime: it is loaded on first use
// (src/device/cuda_module.h), so that one program starts on machines with and without a driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/codec/codec.h"
#include "kernels/cuda/codec/rounds.h"
#include "kernels/cuda/library/libraries.h"
#include "kernels/cuda/runtime/counters.h"
#include "kernels/cuda/runtime/group.h"
#include "kernels/cuda/runtime/queue.h"
#include "kernels/cuda/runtime/step.h"
#include "kernels/registry.h"

namespace perigee {

struct CudaDevice {
  char name[256] = {};
  int major = 0, minor = 0;  // compute capability
  size_t memory_bytes = 0;
  size_t l2_bytes = 0;
};

inline constexpr int kCudaNotReady = 600, kCudaTimeout = 909;

// Functions that return an int give 0 or a code for message(). Streams, events and graphs are the runtime's handles.
struct CudaModule {
  // Grows with every change of what is below: a module of another build is refused.
  static constexpr uint32_t kVersion = 11;
  uint32_t version = kVersion;
  // 0, or a code for message(): where there is no driver, no device, ...
  int (*device_count)(int* count) = nullptr;
  int (*device)(int index, CudaDevice* device) = nullptr;
  const char* (*message)(int code) = nullptr;
  const CudaLibraryInfo& (*library)(CudaLibrary library) = nullptr;
  int (*versions)(int* driver, int* runtime) = nullptr;  // 13000 is 13.0; driver 0: there is none
  int (*select)(int device) = nullptr;                   // for what the calling thread does from now on
  int (*memory)(size_t* free, size_t* total) = nullptr;  // of the current device
  // Memory of the current device, and copies that wait for what was queued before them on the default stream.
  int (*allocate)(size_t bytes, void** memory) = nullptr;
  int (*release)(void* memory) = nullptr;
  int (*upload)(void* device, const void* host, size_t bytes) = nullptr;
  int (*download)(void* host, const void* device, size_t bytes) = nullptr;
  // Memory of the host that the device reaches by the same address, and that copies run beside the host's work from and to.
  int (*allocate_pinned)(size_t bytes, void** memory) = nullptr;
  int (*release_pinned)(void* memory) = nullptr;

  void (*shorten_timeouts)() = nullptr;  // a GPU is lost, for which others may wait: what is waited for from now on has few seconds to come
  int (*create_stream)(void** stream) = nullptr;
  int (*destroy_stream)(void* stream) = nullptr;
  // The host waits: kCudaTimeout when what it waits for does not come in time (patience.h). After that nothing is waited for or given back any
  // more, which could block as well: the process can only end.
  int (*wait_for_stream)(void* stream) = nullptr;
  int (*create_event)(void** event) = nullptr;
  int (*create_timer)(void** event) = nullptr;  // an event that knows when it was reached
  int (*destroy_event)(void* event) = nullptr;
  int (*record_event)(void* event, void* stream) = nullptr;
  int (*wait_for_event)(void* event) = nullptr;                                   // the host waits, likewise
  int (*elapsed)(void* begin, void* end, float* milliseconds) = nullptr;          // between two timers that were reached
  int (*stream_waits)(void* stream, void* event) = nullptr;                       // the stream does
  int (*event_reached)(void* event) = nullptr;                                    // 0, kCudaNotReady or a failure; waits for nothing
  int (*copy)(void* to, const void* from, size_t bytes, void* stream) = nullptr;  // whichever side each is on
  // From one device's memory to another's; `enable_peer_access` lets the current device reach that of `peer` directly where the machine can.
  int (*copy_between)(void* to, int to_device, const void* from, int from_device, size_t bytes, void* stream) = nullptr;
  int (*enable_peer_access)(int device, int peer) = nullptr;
  int (*clear)(void* memory, size_t bytes, void* stream) = nullptr;
  // Work queued between these two becomes a graph and does not run.
  int (*begin_capture)(void* stream) = nullptr;
  int (*end_capture)(void* stream, void** graph) = nullptr;  // null graph: drops what was captured
  int (*launch_graph)(void* graph, void* stream) = nullptr;
  int (*destroy_graph)(void* graph) = nullptr;  // which no stream runs any more: compiled code that it used may go with it
  CudaCounts (*counts)() = nullptr;

  // A queue with a stream of its own, the libraries that this machine has and, where there are any, a workspace for them.
  int (*open_queue)(int device, CudaQueue* queue) = nullptr;
  void (*close_queue)(CudaQueue* queue) = nullptr;
  std::span<const KernelList> (*kernels)() = nullptr;
  const CudaSteps* steps = nullptr;
  const CudaCodecs* codecs = nullptr;
  const CudaRounds* rounds = nullptr;
  const CudaGroups* groups = nullptr;
};

}  // namespace perigee

// The module's one symbol.
extern "C" [[gnu::visibility("default")]] const perigee::CudaModule* perigee_cuda_module();
