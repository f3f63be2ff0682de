// Every CUDA kernel of an op against the reference, by the cases and layouts of tests/kernels/parity.h, on the host: in memory that watches
// its borders, with the threads in three orders, which must give the same bits.
#include "tests/kernels/parity.h"

#include <map>
#include <set>

#include "kernels/cuda/queue.h"
#include "kernels/cuda/registry.h"
#include "tests/cuda/shim/shim.h"

namespace perigee {
namespace {

constexpr size_t kBorder = 16;  // of operands; plans give 64, windows on them less

class ShimSite : public Site {
 public:
  std::shared_ptr<std::byte> memory(const char* name, size_t bytes) override {
    const auto buffer = std::make_shared<shim::Buffer>(name, bytes, kBorder);
    return {buffer, buffer->data()};
  }
  size_t guard() const override { return 0; }
  void run(const Kernel& kernel, const KernelCall& on_host) override {
    const auto bytes = [&](size_t (*f)(const KernelCall&)) { return f ? f(on_host) : size_t{0}; };
    const shim::Buffer scratch("scratch", bytes(kernel.scratch_bytes), 64), packed("packed", bytes(kernel.packed_bytes), 64);
    const shim::Array<StepInfo> step("step", std::vector<StepInfo>{*on_host.step});
    CudaQueue queue;
    KernelCall call = on_host;
    call.scratch = scratch.data();
    call.packed = packed.data();
    call.step = step.data();
    call.queue = &queue;
    if (packed.size() > 0) kernel.pack(call);
    kernel.run(call);
    EXPECT_EQ(queue.status, 0) << queue.failed;
  }
};

std::vector<const Kernel*> cuda_kernels_of(std::string_view op) {
  std::vector<const Kernel*> result;
  for (const KernelList& list : cuda_kernel_lists())
    for (size_t i = 0; i < list.count; ++i)
      if (op == list.first[i].op) result.push_back(&list.first[i]);
  return result;
}

// Runs a variant in all orders. False when the kernel declines it.
bool run_in_all_orders(Bench& bench, const Kernel& kernel, const Variant& variant) {
  std::vector<std::vector<std::byte>> first;
  for (const shim::Order order : shim::kOrders) {
    shim::set_order(order);
    if (!bench.run(kernel, variant)) return false;
    if (bench.failed()) return true;
    if (first.empty()) first = bench.results();
    EXPECT_TRUE(first == bench.results()) << "the order of threads matters: " << shim::name_of(order);
  }
  return true;
}

TEST(CudaParity, EveryKernelAgreesWithTheReferenceInEveryOrderOfThreads) {
  constexpr uint64_t kSeeds = 1;
  ShimSite site;
  std::set<const Kernel*> ran, tried, wrong;
  for (uint64_t seed = 0; seed < kSeeds; ++seed)
    for (const OpCase& tested : all_cases(seed)) {
      if (op_named(tested.op).alias) continue;
      Bench bench(tested, seed, site);
      for (const Kernel* kernel : cuda_kernels_of(tested.op))
        for (const Variant& variant : kVariants) {
          if (variant.accumulate && !(kernel->accumulates && bench.sums())) continue;
          if (wrong.contains(kernel)) continue;  // once told is enough
          tried.insert(kernel);
          SCOPED_TRACE(std::string(kernel->op) + " [cuda " + kernel->name + "] on " + variant_text(tested, variant));
          if (run_in_all_orders(bench, *kernel, variant)) ran.insert(kernel);
          if (::testing::Test::HasFailure() && bench.failed()) wrong.insert(kernel);
        }
    }
  for (const Kernel* kernel : tried) EXPECT_TRUE(ran.contains(kernel)) << kernel->op << " [" << kernel->name << "] declined every case";
}

}  // namespace
}  // namespace perigee
