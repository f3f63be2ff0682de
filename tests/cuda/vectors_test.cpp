// The kernels of 16 bytes a thread, with channels last and in each type: pooling and batch norm in shapes that make several blocks, parts and
// tiles, and windows that overlap, hang over the border or lie beyond it.
#include <cmath>
#include <limits>

#include "kernels/cuda/divisor.cuh"
#include "kernels/cuda/runtime/registry.h"
#include "kernels/ops/pool.h"
#include "src/core/error.h"
#include "tests/cuda/shim_site.h"
#include "tests/kernels/parity.h"

namespace perigee {
namespace {

const Kernel& cuda_kernel(std::string_view op) {
  for (const KernelList& list : cuda_kernel_lists())
    for (size_t i = 0; i < list.count; ++i)
      if (op == list.first[i].op) return list.first[i];
  throw Error(ErrorKind::usage, {.what = "no such kernel", .got = std::string(op)});
}

std::vector<OpCase> pools(Dtype storage) {
  Cases cases(1);
  constexpr const char* kGeometries[] = {R"("kernel":[3,3],"stride":[2,2],"padding":[1,1,1,1])",
                                         R"("kernel":[2,5],"stride":[1,3],"padding":[0,1,4,2])", R"("kernel":[4,1],"stride":[3,1])",
                                         R"("kernel":[2,4],"padding":[0,0,2,1])", R"("kernel":[1,2],"stride":[2,3])"};
  for (const char* geometry : kGeometries)
    for (const char* kind : {R"("max")", R"("average")", R"("average","count_include_pad":false)", R"("sum")"}) {
      const std::string attrs = std::string(R"({"kind":)") + kind + "," + geometry;
      for (const Shape& x : {Shape{3, 8, 7, 9}, Shape{2, 40, 6, 5}}) {
        cases.add("pool2d", {half(storage, x)}, attrs + "}");
        const std::vector<Type> image{{Dtype::f32, x}};
        const Shape y = op_named("pool2d").infer(OpCall{image, {}, Json::parse(attrs + "}", "a test")})[0].shape;
        std::vector<CaseOperand> inputs = {half(storage, y)};
        if (kind[1] == 'm') inputs.push_back(integers(Dtype::u8, y, 0, 3));
        cases.add("pool2d_grad", std::move(inputs),
                  attrs + R"(,"input_size":[)" + std::to_string(x[2]) + "," + std::to_string(x[3]) + "]}");
      }
    }
  return cases.all();
}

std::vector<OpCase> norms(Dtype storage) {
  Cases cases(1);
  for (const Shape& x :
       {Shape{3, 24, 21, 19}, Shape{3, 264, 33, 3}, Shape{3, 64, 40, 11}, Shape{1, 8, 1, 3}, Shape{2, 4, 30, 19}, Shape{2, 12, 9, 7}}) {
    const Shape v{x[1]};
    const CaseOperand image = half(storage, x), y = half(storage, x, -1, 1), gamma = real(v, 0.5, 1.5);
    const CaseOperand mean = fixed(v, -0.5, 0.5), variance = fixed(v, 0.5, 2);
    cases.add("batch_norm", {image, gamma, real(v)}, R"({"activation":"relu"})");
    cases.add("batch_norm", {image, absent(), absent(), image}, "");
    cases.add("batch_norm", {image, gamma, real(v), image}, R"({"activation":"relu"})");
    cases.add("batch_norm_grad", {image, image, absent(), gamma, real(v), mean, variance}, R"({"activation":"relu"})");
    cases.add("batch_norm_grad", {image, image, absent(), absent(), absent(), mean, variance}, "");
    cases.add("batch_norm_grad", {image, image, y, gamma, absent(), mean, variance}, R"({"activation":"relu","residual":true})");
    cases.add("batch_norm_grad", {image, image, y, gamma, absent(), mean, variance}, R"({"activation":"relu"})");
  }
  return cases.all();
}

// Images of few planes, and of as many as go another way; what is dense both before and after.
TEST(CudaVectors, CastsAgreeWithTheReference) {
  constexpr Variant kOrders[] = {{Layout::contiguous, Layout::channels_last},
                                 {Layout::channels_last, Layout::channels_last},
                                 {Layout::contiguous, Layout::contiguous},
                                 {Layout::channels_last, Layout::contiguous},
                                 {Layout::contiguous, Layout::channels_last, true}};
  ShimSite site;
  for (const char* to : {"bf16", "f16", "f32"})
    for (const Dtype from : {Dtype::f32, Dtype::bf16, Dtype::f16})
      for (const Shape& x : {Shape{3, 3, 17, 9}, Shape{2, 1, 5, 7}, Shape{5, 4, 3, 3}, Shape{2, 5, 6, 7}, Shape{3, 16, 4, 4}}) {
        Cases cases(1);
        cases.add("cast", {half(from, x)}, std::string(R"({"dtype":")") + to + "\"}");
        const OpCase tested = cases.all()[0];
        Bench bench(tested, 1, site);
        for (const Variant& variant : kOrders) {
          if (variant.accumulate && !bench.sums()) continue;
          SCOPED_TRACE(variant_text(tested, variant));
          shim::set_order(shim::Order::reverse);
          ASSERT_TRUE(bench.run(cuda_kernel("cast"), variant));
        }
      }
}

// Rows that lie side by side in both, with gaps between them or again and again: the gradient of an average over images is such.
TEST(CudaVectors, CastsOfRowsAgreeWithTheReference) {
  constexpr int64_t kDims[] = {3, 16, 4, 5},
                    kStrides[][4] = {{16, 1, 0, 0}, {404, 1, 100, 16}, {404, 1, 100, 20}, {403, 1, 100, 16}, {500, 1, 80, 16}};
  ShimSite site;
  const StepInfo step;
  std::vector<float> values(1500);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.37f;
  const auto memory = site.memory("x", values.size() * sizeof(float));
  site.write(memory.get(), reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float));
  for (const Dtype to : {Dtype::bf16, Dtype::f16})
    for (const auto& strides : kStrides)
      for (const int64_t first : {0, 1}) {  // on a border of vectors, and beside it
        View x{.data = values.data() + first, .dtype = Dtype::f32, .rank = 4};
        std::copy_n(kDims, 4, x.dims), std::copy_n(strides, 4, x.strides);
        Tensor truth(to, Shape{3, 16, 4, 5});
        run_kernel(*ref_kernel("cast"), {.in = &x, .out = &truth.view(), .n_in = 1, .n_out = 1, .step = &step});
        Placed got(site, "y", {to, truth.shape()}, Layout::channels_last);
        x.data = memory.get() + first * static_cast<int64_t>(sizeof(float));
        const View y = got.device_view();
        site.run(cuda_kernel("cast"), {.in = &x, .out = &y, .n_in = 1, .n_out = 1, .step = &step});
        got.read();
        int64_t i = 0;
        for_each_index(4, got.view().dims, [&](const int64_t* index) {
          EXPECT_EQ(load_as<double>(got.view(), offset_of(got.view(), index)), load_as<double>(truth.view(), i))
              << i << " of " << strides[0];
          ++i;
        });
      }
}

void agree(std::vector<OpCase> (*cases_of)(Dtype)) {
  ShimSite site;
  for (const Dtype storage : {Dtype::f32, Dtype::bf16, Dtype::f16})
    for (const OpCase& tested : cases_of(storage)) {
      Bench bench(tested, 1, site);
      const Kernel& kernel = cuda_kernel(tested.op);
      for (const bool accumulate : {false, true}) {
        if (accumulate && !(kernel.accumulates && bench.sums())) continue;
        const Variant variant{.in = Layout::channels_last, .out = Layout::channels_last, .accumulate = accumulate};
        SCOPED_TRACE(variant_text(tested, variant));
        std::vector<std::vector<std::byte>> first;
        for (const shim::Order order : shim::kOrders) {
          shim::set_order(order);
          ASSERT_TRUE(bench.run(kernel, variant));
          if (first.empty()) first = bench.results();
          EXPECT_TRUE(first == bench.results()) << "the order of threads matters: " << shim::name_of(order);
        }
        if (bench.failed()) return;
      }
    }
}

TEST(CudaVectors, PoolsAgreeWithTheReference) { agree(pools); }
TEST(CudaVectors, NormsAgreeWithTheReference) { agree(norms); }

// The maximum and its place in windows with ties, with only -infinity, with NaN, and in empty windows.
TEST(CudaVectors, PoolsChooseAsTheReferenceDoes) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kValues[] = {-kInfinity, 1, -kInfinity, kNan, -0.0f, 0, 1, -kInfinity, 2, -kInfinity, -kInfinity, -kInfinity, -3};
  const PoolParams params{.kind = PoolKind::max, .kernel = {3, 2}, .stride = {2, 1}, .padding = {4, 1, 1, 2}};
  const Shape x{2, 16, 6, 7}, y{2, 16, 5, 9};
  ShimSite site;
  Placed image(site, "x", {Dtype::f32, x}, Layout::channels_last);
  Tensor values(Dtype::f32, x);
  for (int64_t i = 0; i < values.elements(); ++i)
    values.data<float>()[i] = i < values.elements() / 4 ? -kInfinity : kValues[(i * i + i / 7) % static_cast<int64_t>(std::size(kValues))];
  image.fill(values);
  Tensor best(Dtype::f32, y), place(Dtype::u8, y);
  const View in = values.view(), expected[] = {best.view(), place.view()};
  const StepInfo step;
  run_kernel(*ref_kernel("pool2d"), {.in = &in, .out = expected, .n_in = 1, .n_out = 2, .params = &params, .step = &step});
  for (const shim::Order order : shim::kOrders) {
    shim::set_order(order);
    Placed got(site, "y", {Dtype::f32, y}, Layout::channels_last), where(site, "argmax", {Dtype::u8, y}, Layout::channels_last);
    const View from = image.device_view(), to[] = {got.device_view(), where.device_view()};
    site.run(cuda_kernel("pool2d"), {.in = &from, .out = to, .n_in = 1, .n_out = 2, .params = &params, .step = &step});
    got.read(), where.read();
    int64_t i = 0;
    for_each_index(4, got.view().dims, [&](const int64_t* index) {
      const float one = load_as<float>(got.view(), offset_of(got.view(), index)), truth = best.data<float>()[i];
      EXPECT_TRUE(one == truth || (std::isnan(one) && std::isnan(truth))) << i << ": " << one << " instead of " << truth;
      EXPECT_EQ(load_as<int64_t>(where.view(), offset_of(where.view(), index)), load_as<int64_t>(place.view(), i)) << i;
      ++i;
    });
  }
}

TEST(CudaVectors, DivisorsDivide) {
  const auto check = [](int64_t by, int64_t i) {
    if (by < 1 || by > INT32_MAX || i < 0 || i > INT32_MAX) return;
    auto rest = static_cast<uint32_t>(i);
    const int remainder = Divisor(by).take(rest);
    ASSERT_EQ(int64_t{rest}, i / by) << i << " / " << by;
    ASSERT_EQ(remainder, i % by) << i << " / " << by;
  };
  for (int power = 0; power < 31; ++power)
    for (int64_t more = -70; more <= 70; ++more) {
      const int64_t by = (int64_t{1} << power) + more;
      for (int64_t near = -2; near <= 2; ++near) {
        check(by, INT32_MAX + near);
        if (by < 1) continue;
        check(by, INT32_MAX / by * by + near);
        check(by, INT32_MAX / 2 / by * by + near);
        check(by, by + near);
      }
    }
}

}  // namespace
}  // namespace perigee
