// Which launches overlap the kernel before: those that follow one kernel of ours in the same capture, and no others; and what the shim says
// of kernels and launches that break the rules of overlap.cuh.
#include "kernels/cuda/runtime/overlap.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "tests/cuda/shim/shim.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

__global__ void double_kernel(uint32_t* values) {
  begin_kernel();
  values[threadIdx.x] *= 2;
}

// Captured: what the calls queue on `line` and `beside`.
struct Site {
  Site() {
    for (cudaStream_t* stream : {&line, &beside}) EXPECT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), cudaSuccess);
    for (cudaEvent_t* event : {&fork, &join}) EXPECT_EQ(cudaEventCreateWithFlags(event, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&memory, kWarp * sizeof(uint32_t)), cudaSuccess);
  }
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;
  ~Site() {
    for (cudaEvent_t event : {fork, join}) cudaEventDestroy(event);
    for (cudaStream_t stream : {line, beside}) cudaStreamDestroy(stream);
    cudaFree(memory);
    cudaGetLastError();
  }

  void own(cudaStream_t stream) {
    Launches on(stream);
    on.launch(double_kernel, 1, kWarp, static_cast<uint32_t*>(memory));
    EXPECT_EQ(on.status(), cudaSuccess);
  }
  void of_a_library(cudaStream_t stream) {
    EXPECT_EQ(shim::enqueue(stream, true, [] {}), cudaSuccess);
  }
  void record(cudaEvent_t event, cudaStream_t stream) { EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess); }
  void wait(cudaStream_t stream, cudaEvent_t event) { EXPECT_EQ(cudaStreamWaitEvent(stream, event, 0), cudaSuccess); }

  int64_t overlaps_in(const std::function<void(Site&)>& work) {
    EXPECT_EQ(cudaStreamBeginCapture(line, cudaStreamCaptureModeRelaxed), cudaSuccess);
    begin_overlaps();
    work(*this);
    end_overlaps();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(line, &graph), cudaSuccess);
    const int64_t overlaps = graph != nullptr ? overlaps_of(graph) : -1;
    cudaGraphDestroy(graph);
    return overlaps;
  }

  cudaStream_t line = nullptr, beside = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
  void* memory = nullptr;
};

struct Case {
  const char* name;
  int64_t overlaps;
  std::function<void(Site&)> work;
};

const Case kCases[] = {
    {"the first of a capture does not", 0, [](Site& s) { s.own(s.line); }},
    {"each does that follows another", 3,
     [](Site& s) {
       for (int i = 0; i < 4; ++i) s.own(s.line);
     }},
    {"not behind a fill", 0, [](Site& s) { s.own(s.line), Launches(s.line).zero(s.memory, 4), s.own(s.line); }},
    {"not behind a copy", 0,
     [](Site& s) {
       s.own(s.line);
       cudaMemcpyAsync(s.memory, static_cast<uint32_t*>(s.memory) + 4, 4, cudaMemcpyDefault, s.line);
       s.own(s.line);
     }},
    {"not behind a library's kernel", 1, [](Site& s) { s.own(s.line), s.of_a_library(s.line), s.own(s.line), s.own(s.line); }},
    {"though another stream waits for the one before", 1,
     [](Site& s) {
       s.own(s.line), s.record(s.fork, s.line), s.wait(s.beside, s.fork), s.own(s.line);
       s.of_a_library(s.beside), s.record(s.join, s.beside), s.wait(s.line, s.join);
     }},
    {"not the first of a branch, which follows another stream's", 1,
     [](Site& s) {
       s.own(s.line), s.record(s.fork, s.line), s.wait(s.beside, s.fork), s.own(s.beside), s.own(s.beside);
       s.record(s.join, s.beside), s.wait(s.line, s.join);
     }},
    {"not where branches meet", 1,
     [](Site& s) {
       s.own(s.line), s.record(s.fork, s.line), s.wait(s.beside, s.fork), s.own(s.beside), s.own(s.line);
       s.record(s.join, s.beside), s.wait(s.line, s.join), s.own(s.line);
     }},
    {"not after a capture of others' work alone", 0, [](Site& s) { s.of_a_library(s.line), s.own(s.line); }},
};

TEST(Overlap, IsOfKernelsOfOursThatFollowOneAnother) {
  prepare_overlaps(0);
  for (const Case& each : kCases) {
    SCOPED_TRACE(each.name);
    Site site;
    EXPECT_EQ(site.overlaps_in(each.work), each.overlaps);
    EXPECT_EQ(site.overlaps_in(each.work), each.overlaps);  // a second capture begins anew
  }
}

TEST(Overlap, ChangesNoNumbers) {
  prepare_overlaps(0);
  Site site;
  std::vector<uint32_t> values(kWarp, 3);
  EXPECT_EQ(cudaMemcpy(site.memory, values.data(), kWarp * sizeof(uint32_t), cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(site.line, cudaStreamCaptureModeRelaxed), cudaSuccess);
  begin_overlaps();
  for (int i = 0; i < 3; ++i) site.own(site.line);
  end_overlaps();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runs = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(site.line, &graph), cudaSuccess);
  EXPECT_EQ(overlaps_of(graph), 2);
  EXPECT_EQ(cudaGraphInstantiate(&runs, graph, 0), cudaSuccess);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cudaGraphLaunch(runs, site.line), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(site.line), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(values.data(), site.memory, kWarp * sizeof(uint32_t), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(values, std::vector<uint32_t>(kWarp, 3 << 6));
  cudaGraphExecDestroy(runs), cudaGraphDestroy(graph);
}

TEST(Overlap, IsForDevicesDriversAndCodeThatHaveIt) {
  const Environment several("PERIGEE_SHIM_DEVICES", "5"), capabilities("PERIGEE_SHIM_CAPABILITY", "90,80,90,90,100");
  const auto of_device = [](int device) {
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    Site site;
    return site.overlaps_in([](Site& s) { s.own(s.line), s.own(s.line); });
  };
  const auto prepare = [](int device) {
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    prepare_overlaps(device);
  };
  EXPECT_EQ(of_device(4), 0) << "before it was prepared";
  for (const int device : {0, 1, 4}) prepare(device);
  {
    const Environment refusing("PERIGEE_SHIM_OVERLAP", "refused");
    prepare(2);
  }
  EXPECT_EQ(cudaSetDevice(3), cudaSuccess);
  {
    const Environment old("PERIGEE_SHIM_DRIVER", "12.2");
    prepare_overlaps(3);
  }
  EXPECT_EQ(of_device(0), 1);
  EXPECT_EQ(of_device(1), 0) << "capability 8.0";
  EXPECT_EQ(of_device(2), 0) << "captures that refuse it";
  EXPECT_EQ(of_device(3), 0) << "driver 12.2";
  EXPECT_EQ(of_device(4), 1) << "capability 10.0";
  {
    const Environment older("PERIGEE_SHIM_CODE", "80");
    EXPECT_EQ(of_device(0), 0) << "code for 8.0, which begins without the wait";
  }
  {
    const Environment off("PERIGEE_CUDA_OVERLAP", "0");
    EXPECT_EQ(of_device(0), 0) << "turned off";
  }
  EXPECT_EQ(of_device(0), 1);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST(Overlap, OutsideCapturesThereIsNone) {
  prepare_overlaps(0);
  Site site;
  for (int i = 0; i < 2; ++i) site.own(site.line);  // the shim refuses one
  EXPECT_EQ(cudaStreamSynchronize(site.line), cudaSuccess);
}

// Launches that the shim refuses, so that one that should be ordinary is found.
TEST(Overlap, BehindALibrarysKernelIsAMistake) {
  const auto overlapping = [](Site& site) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization, attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = 1, config.blockDim = kWarp, config.stream = site.line, config.attrs = &attribute, config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, double_kernel, static_cast<uint32_t*>(site.memory));
  };
  for (const bool library : {false, true}) {
    Site site;
    EXPECT_EQ(cudaStreamBeginCapture(site.line, cudaStreamCaptureModeRelaxed), cudaSuccess);
    site.own(site.line);
    if (library) site.of_a_library(site.line);
    EXPECT_EQ(overlapping(site), library ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(site.line, &graph), library ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
    if (graph != nullptr) cudaGraphDestroy(graph);
    EXPECT_EQ(overlapping(site), cudaErrorInvalidValue) << "outside captures";
  }
}

__global__ void hasty_kernel(int*) {}
__global__ void half_hasty_kernel(int*) {
  if (threadIdx.x < 16) begin_kernel();
}

TEST(OverlapDeathTest, AKernelWaitsInAllItsThreads) {
  testing::GTEST_FLAG(death_test_style) = "fast";
  for (void (*kernel)(int*) : {hasty_kernel, half_hasty_kernel})
    EXPECT_DEATH(Launches(nullptr).launch(kernel, 1, kWarp, static_cast<int*>(nullptr)), "it did not wait for the kernels before its own");
}

}  // namespace
}  // namespace perigee
