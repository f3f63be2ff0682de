// Every kernel around a library against the reference, by the cases and layouts of tests/kernels/parity.h, with libraries that compute on
// the host in NVIDIA's place (fakes/): what is proved are descriptors, orders of operands, strides, epilogues and generated source.
#include <dlfcn.h>

#include <set>

#include "kernels/cuda/elementwise/fused_source.h"
#include "kernels/cuda/runtime/registry.h"
#include "tests/cuda/fused_programs.h"
#include "tests/cuda/library_site.h"

namespace perigee {
namespace {

std::vector<const Kernel*> kernels_of(std::string_view op) {
  std::vector<const Kernel*> result;
  for (const KernelList& list : cuda_kernel_lists())
    for (size_t i = 0; i < list.count; ++i)
      if (op == list.first[i].op) result.push_back(&list.first[i]);
  return result;
}

// Each kernel that takes it, on each case and layout.
void run_all(Site& site, bool fused, uint64_t seed) {
  std::set<const Kernel*> ran, tried, wrong;
  for (const OpCase& tested : all_cases(seed)) {
    if (op_named(tested.op).alias || (tested.op == "fused") != fused) continue;
    Bench bench(tested, seed, site);
    for (const Kernel* kernel : kernels_of(tested.op))
      for (const Variant& variant : kVariants) {
        if (variant.accumulate && !(kernel->accumulates && bench.sums())) continue;
        if (wrong.contains(kernel)) continue;  // once told is enough
        tried.insert(kernel);
        SCOPED_TRACE(std::string(kernel->op) + " [" + kernel->name + "] on " + variant_text(tested, variant));
        if (bench.run(*kernel, variant)) ran.insert(kernel);
        if (bench.failed()) wrong.insert(kernel);
      }
  }
  for (const Kernel* kernel : tried) EXPECT_TRUE(ran.contains(kernel)) << kernel->op << " [" << kernel->name << "] declined every case";
}

TEST(LibraryParity, KernelsAgreeWithTheReference) {
  LibrarySite site;
  uint64_t seed = 0;
  for (const shim::Order order : shim::kOrders) {  // of the threads of our own kernels beside the libraries
    shim::set_order(order);
    run_all(site, false, seed++);
  }
}

// Whose memory is never where another's was, and aligned alike: the calls of one case differ in nothing but addresses.
class HoardingSite : public LibrarySite {
 public:
  std::shared_ptr<std::byte> memory(const char* name, size_t bytes) override {
    const auto buffer = std::make_shared<shim::Buffer>(name, bytes, 256);
    return {kept_.emplace_back(buffer), buffer->data()};
  }

 private:
  std::vector<std::shared_ptr<shim::Buffer>> kept_;
};

// cuBLASLt's state for a shape holds addresses: of biases, their gradients and gelu's kept values. And sums in several runs.
TEST(LibraryParity, EveryCallHasItsOwnAddresses) {
  Cases cases(1);
  for (const char* attrs : {"{}", R"({"activation":"relu"})", R"({"activation":"gelu_tanh"})", R"({"activation":"gelu_tanh","keep":true})"})
    cases.add("linear", {real({6, 10}), real({8, 10}), real({8})}, attrs);
  cases.add("linear_grad_input", {real({6, 8}), real({8, 16}), real({6, 16})}, R"({"activation":"gelu_tanh"})");
  cases.add("linear_grad_weight", {real({6, 8}), real({6, 10})});
  cases.add("linear_grad_weight", {real({600, 5}), real({600, 7})});
  HoardingSite site;
  for (uint64_t seed = 1; seed <= 2; ++seed)
    for (const OpCase& tested : cases.all()) {
      Bench bench(tested, seed, site);
      for (const Kernel* kernel : kernels_of(tested.op))
        for (const Variant& variant : {kVariants[0], kVariants[1]}) {
          SCOPED_TRACE(std::string(kernel->op) + " [" + kernel->name + "] on " + variant_text(tested, variant));
          bench.run(*kernel, variant);
        }
    }
}

// Bias and relu, which cuDNN adds where it has an engine for both and a pass of ours where it has none.
TEST(LibraryParity, ConvolutionsNeedNoEpilogue) {
  Cases cases(1);
  for (const char* attrs : {R"({"padding":[1,1,1,1]})", R"({"padding":[1,1,1,1],"activation":"relu"})"}) {
    cases.add("conv2d", {real({2, 3, 5, 7}), real({6, 3, 3, 3}), real({6})}, attrs);
    cases.add("conv2d", {real({2, 3, 5, 7}), real({6, 3, 3, 3})}, attrs);
  }
  auto* const refuse = reinterpret_cast<void (*)(bool)>(cuda_library_function(CudaLibrary::cudnn, "fake_refuse_epilogues"));
  ASSERT_NE(refuse, nullptr);
  for (const bool refused : {true, false}) {
    refuse(refused);
    LibrarySite site;
    for (const OpCase& tested : cases.all()) {
      Bench bench(tested, 1, site);
      int ran = 0;
      for (const Kernel* kernel : kernels_of(tested.op))
        for (const Variant& variant : kVariants) {
          SCOPED_TRACE(std::string(kernel->op) + " [" + kernel->name + "] on " + variant_text(tested, variant));
          if (!variant.accumulate) ran += bench.run(*kernel, variant);
        }
      EXPECT_GT(ran, 2);
    }
  }
}

FusedPrograms* programs = nullptr;

// The code that the fake NVRTC makes is the source behind one line and the prelude.
std::string source_in(const char* text) { return std::string(text).substr(std::string(text).find("extern \"C\"")); }

// First every program is noted, the reference computing in its place; then all are compiled at once.
class NotingSite : public LibrarySite {
 public:
  void run(const Kernel& kernel, const KernelCall& call) override {
    programs->note(fused_source(call, "perigee_fused").text);
    LibrarySite::run(kernel, call);
    run_kernel(*ref_kernel("fused"), call);
  }
};

TEST(LibraryParity, FusedProgramsAgreeWithTheReference) {
  FusedPrograms all;
  programs = &all;
  using Hook = void (*)(const char*, unsigned, unsigned, void**);
  auto* const on_launch = reinterpret_cast<void (*)(Hook)>(cuda_library_function(CudaLibrary::driver, "fake_driver_on_launch"));
  ASSERT_NE(on_launch, nullptr);
  on_launch([](const char*, unsigned, unsigned, void**) {});
  NotingSite noting;
  run_all(noting, true, 0);
  all.compile();
  on_launch([](const char* text, unsigned blocks, unsigned threads, void** arguments) {
    programs->run(source_in(text), blocks, threads, arguments);
  });
  LibrarySite site;
  run_all(site, true, 0);
  EXPECT_GT(all.size(), 20u);
}

}  // namespace
}  // namespace perigee
