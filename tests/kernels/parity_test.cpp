// Every kernel against the reference, by enumeration: all ops' cases (tests/graph/cases.h) in several memory layouts, accumulating and
// in place where the kernel or op says so (parity.h). `ref` in float32 is tested like the rest.
#include "tests/kernels/parity.h"

#include <set>

#include "src/core/error.h"

namespace perigee {
namespace {

constexpr int kSeeds = 3;

std::vector<const Kernel*> kernels_of(std::string_view op) {
  std::vector<const Kernel*> result;
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i) {
      const Kernel& kernel = list.first[i];
      if (op == kernel.op && kernel.backend != Backend::cuda && kernel.isa <= host_isa()) result.push_back(&kernel);
    }
  return result;
}

std::string kernel_text(const Kernel& kernel) {
  return std::string(kernel.op) + " [" + (kernel.backend == Backend::ref ? "ref " : "cpu ") + kernel.name + " " + isa_name(kernel.isa) +
         "]";
}

TEST(Parity, EveryKernelAgreesWithTheReference) {
  Site site;
  std::set<const Kernel*> ran, tried, wrong;
  for (uint64_t seed = 0; seed < kSeeds; ++seed)
    for (const OpCase& tested : all_cases(seed)) {
      if (op_named(tested.op).alias) continue;
      ASSERT_TRUE(ref_kernel(tested.op)) << tested.op << " has no reference kernel";
      Bench bench(tested, seed, site);
      for (const Kernel* kernel : kernels_of(tested.op))
        for (const Variant& variant : kVariants) {
          if (variant.accumulate && !(kernel->accumulates && bench.sums())) continue;
          if (wrong.contains(kernel)) continue;  // once told is enough
          tried.insert(kernel);
          SCOPED_TRACE(kernel_text(*kernel) + " on " + variant_text(tested, variant));
          if (bench.run(*kernel, variant)) ran.insert(kernel);
          if (bench.failed()) wrong.insert(kernel);
        }
    }
  for (const Kernel* kernel : tried)
    EXPECT_TRUE(ran.contains(kernel)) << kernel_text(*kernel) << " declined every case: add one that it takes";
}

// Plans may refuse to run any op on which ref declines.
TEST(Parity, EveryOpHasAReferenceKernel) {
  for (const OpDef* op : all_ops()) {
    const bool leaf = op->max_inputs == 0 && !op->params;
    if (leaf || op->alias || op->loop) continue;
    EXPECT_TRUE(ref_kernel(op->name)) << op->name;
  }
}

}  // namespace
}  // namespace perigee
