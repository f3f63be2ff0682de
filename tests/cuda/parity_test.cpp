// Every CUDA kernel of an op against the reference, by the cases and layouts of tests/kernels/parity.h, on the host: in memory that watches
// its borders, with the threads in three orders, which must give the same bits.
#include "tests/kernels/parity.h"

#include <cmath>
#include <map>
#include <set>

#include "kernels/cuda/runtime/registry.h"
#include "src/core/error.h"
#include "tests/cuda/shim_site.h"

namespace perigee {
namespace {

std::vector<const Kernel*> cuda_kernels_of(std::string_view op) {
  std::vector<const Kernel*> result;
  for (const KernelList& list : cuda_kernel_lists())
    for (size_t i = 0; i < list.count; ++i)
      if (op == list.first[i].op) result.push_back(&list.first[i]);
  return result;
}

// Functions of the program that embeds Perigee.
bool stays_on_the_host(const Kernel& kernel) { return std::string_view(kernel.name) == "host"; }

// Declines all that is no f64: AnyOpTakesF64 runs it.
bool only_f64(const Kernel& kernel) {
  const View wide{.dtype = Dtype::f64}, narrow{.dtype = Dtype::f32};
  const auto declines = [&](const View& view) {
    const std::vector<View> views(8, view);
    return kernel.decline && kernel.decline({.in = views.data(), .out = views.data(), .n_in = 2, .n_out = 1});
  };
  return declines(narrow) && !declines(wide);
}

// Memory layouts change where threads read, not when they meet: two of them in every order, the others in one after the other.
bool wants_all_orders(const Variant& variant) {
  return variant.in == variant.out && variant.in <= Layout::channels_last && !variant.in_place;
}

// Runs a variant. False when the kernel declines it.
bool run_variant(Bench& bench, const Kernel& kernel, const Variant& variant) {
  static size_t turn = 0;
  const shim::Order only = shim::kOrders[turn++ % std::size(shim::kOrders)];
  std::vector<std::vector<std::byte>> first;
  for (const shim::Order order : shim::kOrders) {
    if (order != only && !wants_all_orders(variant)) continue;
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
          if (run_variant(bench, *kernel, variant)) ran.insert(kernel);
          if (::testing::Test::HasFailure() && bench.failed()) wrong.insert(kernel);
        }
    }
  for (const Kernel* kernel : tried)
    EXPECT_TRUE(ran.contains(kernel) || stays_on_the_host(*kernel) || only_f64(*kernel))
        << kernel->op << " [" << kernel->name << "] declined every case";
}

// Paths beyond small shapes: k and rows in parts, and several tiles or columns that have some (blocks come in the orders of threads, so that
// the last one of a tile is another each time, and what is added to what was there shows whether it alone adds); wide tiles, rows that take a
// block, more indices than threads, numbers whose exponentials overflow, nothing but NaN.
std::vector<OpCase> large_cases() {
  Cases cases(1);
  cases.add("matmul", {real({5, 600}), real({600, 7})});
  cases.add("matmul", {real({70, 1500}), real({1500, 130})});
  cases.add("matmul", {real({2, 3, 700}), real({2, 700, 66})});
  cases.add("matmul", {real({132, 66, 5}), real({5, 65})});
  cases.add("linear", {real({300, 5}), real({70, 5}), real({70})}, R"({"activation":"gelu_tanh","keep":true})");
  cases.add("linear_grad_weight", {real({600, 5}), real({600, 7})});
  cases.add("layer_norm", {real({2, 4100}), real({4100}), real({4100})});
  cases.add("softmax", {real({2, 4100}, -300, 300)}, R"({"axis":1})");
  cases.add("cross_entropy", {real({2, 4100}, -300, 300), index({2}, 4100)});
  cases.add("batch_norm", {real({600, 5}), real({5}), real({5})});
  cases.add("batch_norm", {real({2000, 70}), real({70}), real({70})});
  cases.add("reduce_sum", {real({20011}, 1, 2)}, R"({"axes":[0]})");
  cases.add("reduce_max", {real({600, 33})}, R"({"axes":[0]})");
  for (const char* op : {"reduce_max", "reduce_min"}) cases.add(op, {real({3, 40}, NAN, NAN)}, R"({"axes":[1]})");
  cases.add("scatter_add", {real({300, 3}), index({300}, 40)}, R"({"axis":0,"size":40})");
  cases.add("conv2d_pool", {real({1, 3, 8, 8}), real({4, 3, 3, 3})}, R"({"pool":[3,3]})");  // windows of three times four places
  const Shape windows{32, 9, 6, 6};  // in more parts than a warp has lanes, several at a time
  cases.add("conv2d_pool_grad_weight", {real(windows), real(windows), integers(Dtype::u8, windows, 0, 4), real({32, 2, 11, 13})},
            R"({"pool":[2,2],"padding":[1,1,0,0],"kernel_size":[2,2],"activation":"relu","bias":true})");
  const auto pooled_weights = [&](const Shape& y, const Shape& x, const char* attributes) {
    cases.add("conv2d_pool_grad_weight", {real(y), real(y), integers(Dtype::u8, y, 0, 4), real(x)}, attributes);
  };
  // LeNet's first layer, parts in groups; then two blocks of channels and inputs, parts of two strips.
  pooled_weights({12, 20, 12, 12}, {12, 1, 28, 28}, R"({"pool":[2,2],"kernel_size":[5,5],"activation":"relu","bias":true})");
  pooled_weights({150, 70, 1, 2}, {150, 2, 4, 7}, R"({"pool":[2,2],"kernel_size":[3,3],"bias":true})");
  cases.add("conv2d_grad_weight", {real({4, 2, 14, 14}), real({4, 3, 16, 16})}, R"({"kernel_size":[3,3]})");
  cases.add("tanh", {real({130, 9})});
  return cases.all();
}

TEST(CudaParity, LargeShapesAgreeInEveryOrderOfThreads) {
  ShimSite site;
  for (const OpCase& tested : large_cases()) {
    Bench bench(tested, 1, site);
    for (const Kernel* kernel : cuda_kernels_of(tested.op))
      for (const Variant& variant : {kVariants[0], kVariants[1], Variant{.in = Layout::padded, .out = Layout::padded, .in_place = true}}) {
        if (variant.accumulate && !(kernel->accumulates && bench.sums())) continue;
        SCOPED_TRACE(std::string(kernel->op) + " [cuda " + kernel->name + "] on " + variant_text(tested, variant));
        run_variant(bench, *kernel, variant);
      }
  }
}

// Mixed precision: stored in 16 bits, computed in f32.
TEST(CudaParity, HalvesAreRoundedOnce) {
  ShimSite site;
  std::set<std::string> ran;
  shim::set_order(shim::Order::forward);
  for (const Dtype storage : {Dtype::bf16, Dtype::f16})
    for (const OpCase& tested : all_cases(1)) {
      if (op_named(tested.op).alias) continue;
      std::unique_ptr<Bench> bench;
      try {
        bench = std::make_unique<Bench>(tested, 1, site, storage);
      } catch (const Error&) {
        continue;  // an operand of the op is never stored so
      }
      for (const Kernel* kernel : cuda_kernels_of(tested.op))
        for (const Variant& variant : {kVariants[0], kVariants[3]}) {
          SCOPED_TRACE(std::string(kernel->op) + " [cuda " + kernel->name + "] in 16 bits on " + variant_text(tested, variant));
          if (!::testing::Test::HasFailure() && bench->run(*kernel, variant)) ran.insert(tested.op);
        }
    }
  for (const char* op : {"matmul", "linear", "linear_grad_weight", "conv2d", "conv2d_grad_input", "add", "cast", "layer_norm"})
    EXPECT_TRUE(ran.contains(op)) << op;
}

// Why an op has no kernel for f64, though the reference takes it.
const std::map<std::string, const char*> kNotInF64 = {{"host", "the program's own function"}, {"host_grad", "the program's own function"}};

// Nothing is computed in fewer bits on the way: the reference in f64 is met to 1e-12.
TEST(CudaParity, AnyOpTakesF64) {
  ShimSite site;
  std::set<std::string> ran, taken;
  size_t turn = 0;
  for (const OpCase& tested : all_cases(1)) {
    if (op_named(tested.op).alias) continue;
    std::unique_ptr<Bench> bench;
    try {
      bench = std::make_unique<Bench>(tested, 1, site, Dtype::f64);
    } catch (const Error&) {
      continue;  // the op is of another type
    }
    taken.insert(tested.op);
    for (const Kernel* kernel : cuda_kernels_of(tested.op)) {
      const Variant& variant = kVariants[turn % 2 == 0 ? 0 : 3];
      SCOPED_TRACE(std::string(kernel->op) + " [cuda " + kernel->name + "] in f64 on " + variant_text(tested, variant));
      shim::set_order(shim::kOrders[turn % std::size(shim::kOrders)]);
      if (!bench->failed() && bench->run(*kernel, variant)) ran.insert(tested.op), ++turn;
    }
  }
  for (const std::string& op : taken) EXPECT_EQ(ran.contains(op), !kNotInF64.contains(op)) << op;
}

TEST(CudaParity, EveryOpHasAKernel) {
  for (const OpDef* op : all_ops()) {
    const bool leaf = op->max_inputs == 0 && !op->params;
    if (leaf || op->alias || op->loop) continue;
    EXPECT_FALSE(cuda_kernels_of(op->name).empty()) << op->name;
  }
}

TEST(CudaParity, EveryUpdateHasAKernel) {
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i)
      if (std::string_view(list.first[i].op).starts_with("update_")) {
        EXPECT_FALSE(cuda_kernels_of(list.first[i].op).empty()) << list.first[i].op;
      }
}

TEST(CudaParity, WhatStaysOnTheHostIsDeclinedWithAReason) {
  for (const char* op : {"host", "host_grad"}) EXPECT_NE(cuda_kernels_of(op).front()->decline({}), nullptr);
}

}  // namespace
}  // namespace perigee
