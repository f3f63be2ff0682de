// Every CUDA kernel of an op, our own and the libraries', against the reference on a GPU: the cases and layouts of
// tests/kernels/parity.h. Each op of the registry has a kernel here, but for those of the host.
#include <map>
#include <set>

#include "tests/gpu/gpu_site.h"

namespace perigee {
namespace {

constexpr int kAlgorithms = 6;  // of a library for one call, which take turns from call to call

std::string text_of(const Kernel& kernel) { return std::string(kernel.op) + " [cuda " + kernel.name + "]"; }

// Why a kernel takes no case at all; null where there is no reason.
const char* reason_to_decline(const Kernel& kernel, const CudaModule& module) {
  const std::string_view name = kernel.name;
  if (name == "host") return "its functions are the host's";
  if (name == "cublas") return module.library(CudaLibrary::cublas_lt).why;
  if (name == "cudnn") return module.library(CudaLibrary::cudnn).why;
  if (name != "nvrtc") return nullptr;
  const char* const compiler = module.library(CudaLibrary::nvrtc).why;
  return compiler != nullptr ? compiler : module.library(CudaLibrary::driver).why;
}

TEST(GpuParity, EveryKernelAgreesWithTheReference) {
  PERIGEE_SKIP_WITHOUT_GPU();
  const uint64_t seeds = in_brief() ? 1 : 2;
  GpuSite site;
  std::set<const Kernel*> ran, tried, wrong;
  std::map<const Kernel*, int> calls;
  std::map<const Kernel*, std::string> untried;
  std::map<const Kernel*, std::pair<int, std::string>> refused;  // how often, and what the library said first
  // Dtypes other than f32 run in the first layout alone.
  const auto try_all = [&](const OpCase& tested, Bench& bench, std::span<const Variant> variants) {
    for (const KernelList& list : site.gpu.module().kernels())
      for (const Kernel& kernel : std::span(list.first, list.count)) {
        if (tested.op != kernel.op) continue;
        for (const Variant& variant : variants) {
          if (variant.accumulate && !(kernel.accumulates && bench.sums())) continue;
          if (wrong.contains(&kernel)) continue;  // once told is enough
          tried.insert(&kernel);
          site.gpu.queue().algorithm = calls[&kernel]++ % kAlgorithms;
          SCOPED_TRACE(text_of(kernel) + " #" + std::to_string(site.gpu.queue().algorithm) + " on " + variant_text(tested, variant));
          try {
            if (bench.run(kernel, variant)) ran.insert(&kernel);
          } catch (const Refused& refusal) {
            ++refused.try_emplace(&kernel, 0, refusal.what()).first->second.first;
          } catch (const Error& error) {                                      // the others are tried still
            if (error.parts().what.starts_with("this library is missing")) {  // LAPACK, which the reference of linear algebra is
              untried.emplace(&kernel, error.what());
              break;
            }
            ADD_FAILURE() << error.what();
            wrong.insert(&kernel);
          } catch (const std::exception& error) {
            ADD_FAILURE() << error.what();
            wrong.insert(&kernel);
          }
          if (bench.failed()) wrong.insert(&kernel);
        }
      }
  };
  for (uint64_t seed = 0; seed < seeds; ++seed)
    for (const OpCase& tested : all_cases(seed)) {
      if (op_named(tested.op).alias) continue;
      for (const Dtype storage : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}) {
        const size_t variants = storage != Dtype::f32 ? 1 : in_brief() ? 4 : std::size(kVariants);
        std::unique_ptr<Bench> bench;
        try {
          bench = std::make_unique<Bench>(tested, seed, site, storage);
        } catch (const Error& error) {
          if (storage == Dtype::f32) throw;
          continue;  // an operand of the op is never stored so
        }
        try_all(tested, *bench, std::span(kVariants, variants));
        bench.reset();
        site.gpu.forget_kept();
      }
    }
  for (const auto& [kernel, how] : refused) {
    EXPECT_TRUE(ran.contains(kernel)) << text_of(*kernel) << " was refused in every case: " << how.second;
    std::printf("%s was refused %d times, where training takes the next kernel: %s\n", text_of(*kernel).c_str(), how.first,
                how.second.c_str());
  }
  for (const Kernel* kernel : tried) {
    if (ran.contains(kernel) || wrong.contains(kernel) || refused.contains(kernel)) continue;
    const auto missing = untried.find(kernel);
    const char* const why = missing != untried.end() ? missing->second.c_str() : reason_to_decline(*kernel, site.gpu.module());
    EXPECT_NE(why, nullptr) << text_of(*kernel) << " declined every case";
    if (why != nullptr) std::printf("%s was not tried: %s\n", text_of(*kernel).c_str(), why);
  }
  std::printf("%zu kernels ran, %zu of them wrong\n", ran.size(), wrong.size());
}

}  // namespace
}  // namespace perigee
