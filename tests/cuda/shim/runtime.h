// The part of CUDA's runtime that the module uses, for the host: memory that only queued work may touch, streams that run as late as they
// may, graphs of what was captured from one stream or several. What is queued on the null stream runs at once.
//
// A stream runs when a caller waits for it, and then no further than needed: so a wait that is missing shows, as rubbish or as values of
// the step before. PERIGEE_SHIM_STREAMS=eager runs everything at once instead; both must give the same. Between two runs the device's
// memory can be neither read nor written, so that the host cannot take it for its own. Of several devices (PERIGEE_SHIM_DEVICES) each has
// its own memory, which kernels of the others cannot touch, and is lost by itself; what belongs to one is refused while another is selected,
// as CUDA does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "tests/cuda/shim/counters.h"

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphNode_t = struct CUgraphNode_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorIllegalState = 401,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorPeerAccessAlreadyEnabled = 704,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureMerge = 902,
  cudaErrorStreamCaptureUnmatched = 903,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorStreamCaptureImplicit = 906,
  cudaErrorCapturedEvent = 907,
  cudaErrorStreamCaptureWrongThread = 908,
  cudaErrorTimeout = 909,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3, cudaMemcpyDefault = 4 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed };
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2, cudaHostAllocPortable = 1;

enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive, cudaStreamCaptureStatusInvalidated };
enum cudaGraphDependencyType { cudaGraphDependencyTypeDefault, cudaGraphDependencyTypeProgrammatic };
struct cudaGraphEdgeData {
  unsigned char from_port = 0, to_port = 0, type = cudaGraphDependencyTypeDefault;
};
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor = 75 };
struct cudaFuncAttributes {
  int ptxVersion = 0;
};
enum cudaLaunchAttributeID { cudaLaunchAttributeIgnore, cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id = cudaLaunchAttributeIgnore;
  struct {
    int programmaticStreamSerializationAllowed = 0;
  } val;
};
#define CUDART_VERSION 13000

struct cudaDeviceProp {
  char name[256] = {};
  int major = 0, minor = 0, multiProcessorCount = 0, l2CacheSize = 0;
  size_t totalGlobalMem = 0;
};

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream);
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
// For a stream that is captured or not; no graph.
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges, size_t* count);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count);  // counts alone
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* edges, size_t* count);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);

namespace shim {

// A kernel's launch, or another piece of work: at once on the null stream, else later.
cudaError_t enqueue(cudaStream_t stream, bool kernel, std::function<void()> work);
// A launch of a kernel that begins as ours do. Who `overlaps` comes in before the one kernel that it follows, which must be one of those,
// has ended: refused where that is not so, or where a device knows nothing of it.
cudaError_t enqueue_own(cudaStream_t stream, bool overlaps, std::function<void()> work);
// Time passes by what runs alone: nothing here depends on how fast the host is.
void pass_time(double milliseconds);
void lose_device(int device);  // as a kernel does that faults

// Joint work of several streams, one per device: where each gets to one, it waits until all have, and `work` is done once. How NCCL
// looks from outside. One object for all meetings of the same streams; they meet in the same order on each.
struct Meeting {
  explicit Meeting(size_t members) : members(members) {}
  struct Member {
    std::deque<CUstream_st*> queued;  // where its next ones are
    long reached = 0, left = 0;       // how many
  };
  std::vector<Member> members;
  long done = 0;
  bool aborted = false;
};
// The `work` of the last to arrive counts.
cudaError_t enqueue_meeting(cudaStream_t stream, Meeting& meeting, size_t member, std::function<void()> work);

}  // namespace shim
