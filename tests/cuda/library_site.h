// Runs kernels around libraries on the host's memory: where a queue has what it needs.
#pragma once

#include "kernels/cuda/library/libraries.h"
#include "tests/cuda/shim/shim.h"
#include "tests/kernels/parity.h"

namespace perigee {

class LibrarySite : public Site {
 public:
  std::shared_ptr<std::byte> memory(const char* name, size_t bytes) override {
    const auto buffer = std::make_shared<shim::Buffer>(name, bytes, 16);
    return {buffer, buffer->data()};
  }
  size_t guard() const override { return 0; }
  void run(const Kernel& kernel, const KernelCall& given) override {
    const shim::Buffer scratch("scratch", kernel.scratch_bytes ? kernel.scratch_bytes(given) : 0, 64);
    KernelCall call = given;
    call.scratch = scratch.data();
    call.queue = &queue;
    kernel.run(call);
    EXPECT_EQ(queue.status, 0) << queue.failed;
  }

  std::unique_ptr<CudaLibraries, void (*)(CudaLibraries*)> libraries{make_cuda_libraries(), drop_cuda_libraries};
  std::vector<std::byte> workspace = std::vector<std::byte>(1 << 12);
  std::vector<uint32_t> counters = std::vector<uint32_t>(kCudaCounters);
  CudaQueue queue{
      .libraries = libraries.get(), .workspace = workspace.data(), .workspace_bytes = workspace.size(), .counters = counters.data()};
};

}  // namespace perigee
