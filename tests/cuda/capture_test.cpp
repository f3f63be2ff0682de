// The rules of CUDA's stream capture, as the shim has them: what the manual forbids is refused with its code, and nothing comes of what was
// captured. So that code which breaks one fails here and not on the first GPU.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "tests/cuda/shim/shim.h"

namespace {

// Two streams, events recorded outside and inside, and memory of each kind.
struct CaptureSite {
  explicit CaptureSite(unsigned flags = cudaStreamNonBlocking) {
    for (cudaStream_t* stream : {&line, &beside}) EXPECT_EQ(cudaStreamCreateWithFlags(stream, flags), cudaSuccess);
    for (cudaEvent_t* event : {&outside, &inside, &other}) EXPECT_EQ(cudaEventCreateWithFlags(event, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&device, 64), cudaSuccess);
    EXPECT_EQ(cudaHostAlloc(&pinned, 64, cudaHostAllocPortable), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(outside, beside), cudaSuccess);
  }
  CaptureSite(const CaptureSite&) = delete;
  CaptureSite& operator=(const CaptureSite&) = delete;
  ~CaptureSite() {
    EXPECT_EQ(cudaStreamSynchronize(line), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(beside), cudaSuccess);
    for (cudaEvent_t event : {outside, inside, other}) cudaEventDestroy(event);
    for (cudaStream_t stream : {line, beside}) cudaStreamDestroy(stream);
    cudaFree(device);
    cudaFreeHost(pinned);
    cudaGetLastError();
  }

  cudaError_t begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed) { return cudaStreamBeginCapture(line, mode); }
  cudaError_t clear(cudaStream_t stream) { return cudaMemsetAsync(device, 0, 64, stream); }
  cudaError_t fork() {
    const cudaError_t status = cudaEventRecord(inside, line);
    return status != cudaSuccess ? status : cudaStreamWaitEvent(beside, inside, 0);
  }
  cudaError_t join() {
    const cudaError_t status = cudaEventRecord(other, beside);
    return status != cudaSuccess ? status : cudaStreamWaitEvent(line, other, 0);
  }
  // The code, and that there is a graph if and only if it is 0.
  cudaError_t end() {
    cudaGraph_t graph = nullptr;
    const cudaError_t status = cudaStreamEndCapture(line, &graph);
    EXPECT_EQ(graph != nullptr, status == cudaSuccess);
    if (graph != nullptr) cudaGraphDestroy(graph);
    return status;
  }

  cudaStream_t line = nullptr, beside = nullptr;
  cudaEvent_t outside = nullptr, inside = nullptr, other = nullptr;
  void *device = nullptr, *pinned = nullptr;
  char pageable[64] = {};
};

// A call made while `line` is captured and `beside` may be, its result, and the result of the capture.
struct Rule {
  const char* name;
  bool forked;
  std::function<cudaError_t(CaptureSite&)> act;
  cudaError_t told, ended;
};

cudaError_t copy(CaptureSite& site, void* host) { return cudaMemcpyAsync(site.device, host, 64, cudaMemcpyDefault, site.line); }

const cudaError_t kSpoilt = cudaErrorStreamCaptureInvalidated;
const Rule kRules[] = {
    {"nothing", false, [](CaptureSite&) { return cudaSuccess; }, cudaSuccess, cudaSuccess},
    {"work", false, [](CaptureSite& s) { return s.clear(s.line); }, cudaSuccess, cudaSuccess},
    {"the host waits for the stream", false, [](CaptureSite& s) { return cudaStreamSynchronize(s.line); },
     cudaErrorStreamCaptureUnsupported, kSpoilt},
    {"the host waits for a stream that joined", true, [](CaptureSite& s) { return cudaStreamSynchronize(s.beside); },
     cudaErrorStreamCaptureUnsupported, kSpoilt},
    {"the host waits for another stream", false, [](CaptureSite& s) { return cudaStreamSynchronize(s.beside); }, cudaSuccess, cudaSuccess},
    {"the host asks for an event of the capture", true, [](CaptureSite& s) { return cudaEventQuery(s.inside); }, cudaErrorCapturedEvent,
     kSpoilt},
    {"the host waits for an event of the capture", true, [](CaptureSite& s) { return cudaEventSynchronize(s.inside); },
     cudaErrorCapturedEvent, kSpoilt},
    {"an event from before is waited for", false, [](CaptureSite& s) { return cudaStreamWaitEvent(s.line, s.outside, 0); },
     cudaErrorStreamCaptureIsolation, kSpoilt},
    {"a stream that joined does work", true, [](CaptureSite& s) { return s.clear(s.beside); }, cudaSuccess, cudaErrorStreamCaptureUnjoined},
    {"a stream that joined comes back", true, [](CaptureSite& s) { return s.clear(s.beside), s.join(); }, cudaSuccess, cudaSuccess},
    {"it begins again", false, [](CaptureSite& s) { return s.begin(); }, cudaErrorIllegalState, kSpoilt},
    {"it ends where it did not begin", true,
     [](CaptureSite& s) {
       cudaGraph_t graph = nullptr;
       return cudaStreamEndCapture(s.beside, &graph);
     },
     cudaErrorStreamCaptureUnmatched, kSpoilt},
    {"pinned memory is copied", false, [](CaptureSite& s) { return copy(s, s.pinned); }, cudaSuccess, cudaSuccess},
    {"pageable memory is copied", false, [](CaptureSite& s) { return copy(s, s.pageable); }, cudaErrorStreamCaptureUnsupported, kSpoilt},
    {"work goes on after a rule was broken", false, [](CaptureSite& s) { return cudaStreamSynchronize(s.line), s.clear(s.line); }, kSpoilt,
     kSpoilt},
};

TEST(Capture, FollowsTheRulesOfTheManual) {
  for (const Rule& rule : kRules) {
    SCOPED_TRACE(rule.name);
    CaptureSite site;
    EXPECT_EQ(site.begin(), cudaSuccess);
    EXPECT_EQ(rule.forked ? site.fork() : cudaSuccess, cudaSuccess);
    EXPECT_EQ(rule.act(site), rule.told);
    EXPECT_EQ(site.end(), rule.ended);
    // Whatever came of it, the streams are free.
    EXPECT_EQ(site.clear(site.line), cudaSuccess);
    EXPECT_EQ(site.clear(site.beside), cudaSuccess);
  }
}

TEST(Capture, AllowsAllocationsAndWaitsInTheRelaxedModeAlone) {
  const std::function<cudaError_t(CaptureSite&)> calls[] = {
      [](CaptureSite&) {
        void* memory = nullptr;
        const cudaError_t status = cudaMalloc(&memory, 16);
        return status == cudaSuccess ? cudaFree(memory) : status;
      },
      [](CaptureSite&) {
        void* memory = nullptr;
        const cudaError_t status = cudaHostAlloc(&memory, 16, 0);
        return status == cudaSuccess ? cudaFreeHost(memory) : status;
      },
      [](CaptureSite& s) { return cudaMemcpy(s.device, s.pageable, 64, cudaMemcpyHostToDevice); },
      [](CaptureSite& s) { return cudaEventSynchronize(s.outside); },
      [](CaptureSite& s) { return cudaStreamSynchronize(s.beside); },
  };
  for (const auto& call : calls) {
    for (const cudaStreamCaptureMode mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
      const bool relaxed = mode == cudaStreamCaptureModeRelaxed;
      CaptureSite site;
      EXPECT_EQ(site.begin(mode), cudaSuccess);
      EXPECT_EQ(call(site), relaxed ? cudaSuccess : cudaErrorStreamCaptureUnsupported);
      EXPECT_EQ(site.end(), relaxed ? cudaSuccess : kSpoilt);
    }
    // Another thread is held up by the global mode alone.
    for (const cudaStreamCaptureMode mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
      CaptureSite site;
      EXPECT_EQ(site.begin(mode), cudaSuccess);
      cudaError_t status = cudaSuccess;
      std::thread([&] { status = call(site); }).join();
      EXPECT_EQ(status, mode == cudaStreamCaptureModeGlobal ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
      EXPECT_EQ(site.end(), mode == cudaStreamCaptureModeGlobal ? kSpoilt : cudaSuccess);
    }
  }
}

TEST(Capture, EndsInTheThreadThatBeganItUnlessItIsRelaxed) {
  for (const cudaStreamCaptureMode mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    CaptureSite site;
    EXPECT_EQ(site.begin(mode), cudaSuccess);
    cudaError_t status = cudaSuccess;
    std::thread([&] { status = site.end(); }).join();
    EXPECT_EQ(status, mode == cudaStreamCaptureModeRelaxed ? cudaSuccess : cudaErrorStreamCaptureWrongThread);
    EXPECT_EQ(site.end(), status == cudaSuccess ? cudaErrorIllegalState : kSpoilt);
  }
}

TEST(Capture, OfABlockingStreamLeavesTheNullStreamAlone) {
  for (const unsigned flags : {0u, cudaStreamNonBlocking}) {
    CaptureSite site(flags);
    EXPECT_EQ(site.begin(), cudaSuccess);
    EXPECT_EQ(site.clear(nullptr), flags == 0 ? cudaErrorStreamCaptureImplicit : cudaSuccess);
    EXPECT_EQ(site.end(), flags == 0 ? kSpoilt : cudaSuccess);
  }
}

TEST(Capture, TwoOfThemDoNotMeet) {
  CaptureSite site;
  EXPECT_EQ(site.begin(), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(site.beside, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(site.join(), cudaErrorStreamCaptureMerge);
  EXPECT_EQ(site.end(), kSpoilt);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(site.beside, &graph), kSpoilt);
}

// An event of a capture that is over stands for nothing until it is recorded again.
TEST(Capture, LeavesItsEventsOfNoUse) {
  CaptureSite site;
  EXPECT_EQ(site.begin(), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(site.inside, site.line), cudaSuccess);
  EXPECT_EQ(site.end(), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(site.beside, site.inside, 0), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventQuery(site.inside), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventRecord(site.inside, site.line), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(site.beside, site.inside, 0), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(site.inside), cudaSuccess);
}

TEST(Memory, CopiesAndClearsWhatIsWhereTheCallSays) {
  CaptureSite site;
  EXPECT_EQ(cudaMemcpy(site.device, site.pageable, 64, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(site.pageable, site.device, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(site.device, site.pinned, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(site.pinned, 1, 64, site.line), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(site.pageable, 1, 64, site.line), cudaErrorInvalidValue);
}

// Pinned memory must outlive what is queued on it.
TEST(MemoryDeathTest, OfTheHostThatIsGoneIsNotCopied) {
  testing::GTEST_FLAG(death_test_style) = "fast";
  CaptureSite site;
  const auto copy_late = [&] {
    void* gone = nullptr;
    cudaHostAlloc(&gone, 64, cudaHostAllocPortable);
    cudaMemcpyAsync(site.device, gone, 64, cudaMemcpyDefault, site.line);
    cudaFreeHost(gone);
    cudaStreamSynchronize(site.line);
  };
  EXPECT_EXIT(copy_late(), testing::ExitedWithCode(3), "which is in no buffer");
}

}  // namespace
