// Where tests run kernels on the host: in memory that watches its borders.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/runtime/queue.h"
#include "tests/cuda/shim/shim.h"
#include "tests/kernels/parity.h"

namespace perigee {

inline constexpr size_t kShimBorder = 16;  // of operands; plans give 64, windows on them less

class ShimSite : public Site {
 public:
  std::shared_ptr<std::byte> memory(const char* name, size_t bytes) override {
    const auto buffer = std::make_shared<shim::Buffer>(name, bytes, kShimBorder);
    return {buffer, buffer->data()};
  }
  size_t guard() const override { return 0; }
  void run(const Kernel& kernel, const KernelCall& on_host) override {
    const auto bytes = [&](size_t (*f)(const KernelCall&)) { return f ? f(on_host) : size_t{0}; };
    const shim::Buffer scratch("scratch", bytes(kernel.scratch_bytes), 64), packed("packed", bytes(kernel.packed_bytes), 64);
    const shim::Array<StepInfo> step("step", std::vector<StepInfo>{*on_host.step});
    const shim::Array<uint32_t> counters("counters", std::vector<uint32_t>(kCudaCounters));
    CudaQueue queue{.counters = counters.data()};
    KernelCall call = on_host;
    call.scratch = scratch.data();
    call.packed = packed.data();
    call.step = step.data();
    call.queue = &queue;
    if (packed.size() > 0) kernel.pack(call);
    kernel.run(call);
    EXPECT_EQ(queue.status, 0) << queue.failed;
    EXPECT_EQ(counters.read(), std::vector<uint32_t>(kCudaCounters)) << "the next launch would find them used";
  }
};

}  // namespace perigee
