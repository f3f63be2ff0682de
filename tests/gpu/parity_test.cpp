// Every CUDA kernel of an op, our own and the libraries', against the reference on a GPU: the cases and layouts of
// tests/kernels/parity.h. Each op of the registry has a kernel here, but for those of the host.
#include <set>

#include "tests/gpu/gpu_site.h"

namespace perigee {
namespace {

std::string text_of(const Kernel& kernel) { return std::string(kernel.op) + " [cuda " + kernel.name + "]"; }

TEST(GpuParity, EveryKernelAgreesWithTheReference) {
  PERIGEE_SKIP_WITHOUT_GPU();
  constexpr uint64_t kSeeds = 2;
  GpuSite site;
  std::set<const Kernel*> ran, tried, wrong;
  for (uint64_t seed = 0; seed < kSeeds; ++seed)
    for (const OpCase& tested : all_cases(seed)) {
      if (op_named(tested.op).alias) continue;
      Bench bench(tested, seed, site);
      for (const KernelList& list : site.gpu.module().kernels())
        for (const Kernel& kernel : std::span(list.first, list.count)) {
          if (tested.op != kernel.op) continue;
          for (const Variant& variant : kVariants) {
            if (variant.accumulate && !(kernel.accumulates && bench.sums())) continue;
            if (wrong.contains(&kernel)) continue;  // once told is enough
            tried.insert(&kernel);
            SCOPED_TRACE(text_of(kernel) + " on " + variant_text(tested, variant));
            if (bench.run(kernel, variant)) ran.insert(&kernel);
            if (bench.failed()) wrong.insert(&kernel);
          }
        }
    }
  for (const Kernel* kernel : tried) EXPECT_TRUE(ran.contains(kernel)) << text_of(*kernel) << " declined every case";
  std::printf("%zu kernels ran, %zu of them wrong\n", ran.size(), wrong.size());
}

}  // namespace
}  // namespace perigee
