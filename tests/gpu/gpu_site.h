// Runs kernels on GPU 0 for tests; where there is none, tests say so and are skipped.
#pragma once

#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "src/device/gpu.h"
#include "tests/kernels/parity.h"

namespace perigee {

#define PERIGEE_SKIP_WITHOUT_GPU() \
  if (std::string why; Gpu::count(&why) == 0) GTEST_SKIP() << "no GPU: " << why

// Where a GPU is only imitated, or a tool slows everything down: the same tests on less.
inline bool in_brief() { return std::getenv("PERIGEE_GPU_BRIEF") != nullptr; }

inline char doing_now[160];

// The test's next action: printed when it crashes there or is terminated.
inline void now_doing(const std::string& what) {
  static const bool heard = [] {
    for (const int signal : {SIGTERM, SIGSEGV, SIGBUS, SIGFPE, SIGABRT})
      std::signal(signal, [](int number) {
        for (const char* part : {"\nended while doing: ", static_cast<const char*>(doing_now), "\n"})
          if (write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
        std::signal(number, SIG_DFL);
        std::raise(number);
      });
    return true;
  }();
  if (heard) std::snprintf(doing_now, sizeof doing_now, "%s", what.c_str());
}

// A library has no way for a call. That is no fault: a step of training runs on the next kernel then.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void throw_if_refused(CudaQueue& queue) {
  if (queue.status != kLibraryFailed) return;
  queue.status = 0;
  throw Refused(std::exchange(queue.failed, nullptr));
}

class GpuSite : public Site {
 public:
  std::shared_ptr<std::byte> memory(const char* name, size_t bytes) override {
    const auto owner = std::make_shared<GpuMemory>(gpu.allocate(std::max<size_t>(bytes, 1), name));
    return {owner, owner->data()};
  }
  void write(std::byte* to, const std::byte* from, size_t bytes) override { gpu.upload(to, from, bytes); }
  void read(std::byte* to, const std::byte* from, size_t bytes) override { gpu.download(to, from, bytes); }

  void run(const Kernel& kernel, const KernelCall& given) override {
    now_doing(std::string(kernel.op) + " [cuda " + kernel.name + "]");
    KernelCall call = given;
    const auto room = [&](size_t (*bytes)(const KernelCall&), const char* name) {
      return gpu.allocate(bytes != nullptr ? bytes(given) + 1 : 1, name);
    };
    const GpuMemory scratch = room(kernel.scratch_bytes, "scratch"), packed = room(kernel.packed_bytes, "packed");
    const GpuMemory ids = gpu.allocate(kIds * sizeof(int64_t), "example ids"), step = gpu.allocate(sizeof(StepInfo), "step");
    StepInfo there = *given.step;
    if (there.example_ids != nullptr) {
      gpu.upload(ids.data(), there.example_ids, kIds * sizeof(int64_t));
      there.example_ids = reinterpret_cast<const int64_t*>(ids.data());
    }
    gpu.upload(step.data(), &there, sizeof there);
    call.scratch = scratch.data(), call.packed = packed.data(), call.queue = &gpu.queue();
    call.step = reinterpret_cast<const StepInfo*>(step.data());
    if (kernel.pack != nullptr && kernel.packed_bytes != nullptr && kernel.packed_bytes(given) > 0) kernel.pack(call);
    kernel.run(call);
    throw_if_refused(gpu.queue());
    gpu.check_queue(std::string(kernel.op) + " [" + kernel.name + "]");
    gpu.wait();
  }

  Gpu gpu{0, "test"};

 private:
  static constexpr size_t kIds = 64;  // as many as Bench has
};

}  // namespace perigee
