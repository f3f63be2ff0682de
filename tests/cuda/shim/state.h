// Shared by the parts of the shim's runtime: streams, events, memory, and lost devices.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/shim/counters.h"
#include "tests/cuda/shim/graph.h"
#include "tests/cuda/shim/runtime.h"
#include "tests/cuda/shim/shim.h"

struct CUgraph_st : shim::Graph {};

struct CUgraphExec_st : shim::Graph {
  explicit CUgraphExec_st(const CUgraph_st& graph) : Graph(graph) {}
};

namespace shim {

// A capture of one stream or several. Events that were recorded there know it for as long as they are not recorded anew.
struct Capture {
  CUgraph_st graph;
  std::vector<CUstream_st*> streams;  // the first began it
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;  // that began it
  bool invalid = false;    // something was done that no capture allows: all that comes fails, and there is no graph
  bool ended = false;
  unsigned long long id = 0;
};

}  // namespace shim

struct CUevent_st {
  int device = 0;
  uint64_t recorded = 0, reached = 0;      // how often
  CUstream_st* stream = nullptr;           // of the last record
  std::shared_ptr<shim::Capture> capture;  // that the last record was part of
  std::vector<size_t> nodes;               // there: those that the event comes after
  double at_ms = 0;                        // when it was reached last
  uint64_t asked = 0;                      // the record that was asked about, and not reached
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
  bool blocking = false;  // waits for what is on the null stream, and the other way round
  bool busy = false;
  bool asked = false;  // whether all is done, and it was not
  std::deque<Work> queued;
  std::shared_ptr<shim::Capture> capture;
  std::vector<size_t> tail;           // nodes of the capture that the next one here comes after
  std::vector<CUgraphNode_st*> told;  // the same, for cudaStreamGetCaptureInfo
};

namespace shim {

constexpr int kMostDevices = 64, kNone = -1, kAll = -2;

extern std::recursive_mutex mutex;
extern Counters counters;
extern cudaError_t lost[kMostDevices];
extern thread_local int current_device;

// The status, or that of a device that is lost, and what cudaGetLastError gives.
cudaError_t say(cudaError_t status, int device = current_device);
bool is(const char* variable, const std::string& value);
long number_from(const char* variable, long fallback);
cudaError_t driver_fault();
bool malloc_is_faulty();
cudaError_t push(CUstream_st* stream, CUstream_st::Work work);
bool run_until(CUstream_st* stream, const CUevent_st* event, uint64_t number);

// memory.cpp: whether kernels of that device, of all or of none may touch memory from now on.
void open_for(int device);
// A variable's value for a device, as in PERIGEE_SHIM_MEMORY_MB=1024,512: those that are not named have what the last has.
const char* of_device(const char* variable, const char* fallback, int device);
size_t total_memory(int device = current_device);
size_t used_memory();  // of the current device
// While it lives, devices' memory can be touched: by what open_for() says.
struct Open {
  Open();
  ~Open();
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
};

// capture.cpp. A node for what comes on a stream that is captured.
cudaError_t add_node(CUstream_st* stream, Graph::Node node);
cudaError_t record_in_capture(CUevent_st* event, CUstream_st* stream);
cudaError_t wait_in_capture(CUstream_st* stream, CUevent_st* event);
// Whether the next node here may be a kernel that overlaps the one before.
bool may_overlap(const CUstream_st* stream);
// A call that a capture does not allow: returns `status` and invalidates the capture.
cudaError_t spoil(Capture& capture, cudaError_t status);
// For a call that waits, allocates or frees: refused while something is captured in another mode than the relaxed one.
cudaError_t unsafe_call();
// For work on the null stream, which stands between all work of streams that are not cudaStreamNonBlocking.
cudaError_t null_stream_call();
// The host looks at an event, or waits for it.
cudaError_t look_at(const CUevent_st* event);
cudaError_t look_at(const CUstream_st* stream);

}  // namespace shim
