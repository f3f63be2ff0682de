// update_* as one call for all windows of a block: the bits are those of the reference window by window, what lies between windows stays as it
// is, and a step that is skipped changes nothing.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "kernels/cuda/runtime/queue.h"
#include "kernels/cuda/runtime/registry.h"
#include "kernels/cuda/runtime/update.h"
#include "kernels/flat_view.h"
#include "kernels/half.h"
#include "kernels/registry.h"
#include "tests/cuda/shim/shim.h"

namespace perigee {
namespace {

constexpr size_t kBorder = 64;  // of blocks
constexpr int kMaxArrays = 5;   // gradient, parameters, states

template <class T>
using Arrays = std::vector<std::vector<T>>;
template <class T>
constexpr Dtype kDtype = sizeof(T) == 8 ? Dtype::f64 : Dtype::f32;

const Kernel* kernel_of(std::span<const KernelList> lists, std::string_view op) {
  for (const KernelList& list : lists)
    for (size_t i = 0; i < list.count; ++i)
      if (op == list.first[i].op && list.first[i].backend != Backend::cpu) return &list.first[i];
  return nullptr;
}

// Windows of sizes that are no multiples of a vector, with gaps and without, and scalars of their own.
std::vector<CudaUpdateWindow> windows_of(int64_t last) {
  std::vector<CudaUpdateWindow> windows;
  const int64_t borders[][2] = {{0, 100}, {112, 113}, {128, 144}, {144, 1900}, {2000, last}};
  for (const auto& border : borders) {
    const double k = static_cast<double>(windows.size());
    UpdateParams params{.lr = 0.01 * (k + 1), .gradient_scale = 0.25 + k};
    const double c[8] = {0.9, 0.1, 0.99, 0.01, 1e-6, 1.5, 0.3, 0.7};
    std::memcpy(params.c, c, sizeof c);
    if (windows.size() % 2 == 1) params.clip_value = 0.5, params.l1 = 0.01, params.l2 = 0.02, params.decay = 0.001;
    windows.push_back({border[0], border[1], params});
  }
  return windows;
}

template <class T>
Arrays<T> values_of(size_t n) {
  std::mt19937 random(5);
  std::uniform_real_distribution<T> draw(-1, 1);
  Arrays<T> arrays(kMaxArrays, std::vector<T>(n));
  for (size_t a = 0; a < arrays.size(); ++a)
    for (T& x : arrays[a]) x = a < 2 ? draw(random) : std::abs(draw(random));  // states of squares are not negative
  return arrays;
}

// All outputs; states that a rule does not have are ignored by it.
template <class T>
void run_reference(const Kernel& kernel, const std::vector<CudaUpdateWindow>& windows, Arrays<T>* arrays) {
  for (const CudaUpdateWindow& window : windows) {
    std::vector<View> views;
    for (std::vector<T>& array : *arrays)
      views.push_back(flat_view(reinterpret_cast<const std::byte*>(array.data() + window.begin), window.end - window.begin, kDtype<T>));
    kernel.run({.in = views.data(), .out = views.data() + 1, .n_in = 1, .n_out = kMaxArrays - 1, .params = &window.params});
  }
}

// The parameters in 16 bits, before and after.
struct Halves {
  Dtype dtype;
  std::vector<uint16_t> values;
};

template <class T>
Arrays<T> run_on_device(const Kernel& kernel, const std::vector<CudaUpdateWindow>& windows, const Arrays<T>& before, bool skip,
                        Halves* halves = nullptr) {
  std::vector<std::byte> call(sizeof(CudaUpdate) + windows.size() * sizeof(CudaUpdateWindow));
  const CudaUpdate head{.skip = skip, .windows = static_cast<int32_t>(windows.size())};
  std::memcpy(call.data(), &head, sizeof head);
  std::memcpy(call.data() + sizeof head, windows.data(), windows.size() * sizeof(CudaUpdateWindow));
  const shim::Array<std::byte> params("params", call, alignof(CudaUpdateWindow));
  std::vector<std::unique_ptr<shim::Array<T>>> arrays;
  std::vector<View> views;
  for (const std::vector<T>& array : before) {
    arrays.push_back(std::make_unique<shim::Array<T>>("a block", array, kBorder));
    views.push_back(flat_view(reinterpret_cast<const std::byte*>(arrays.back()->data()), static_cast<int64_t>(array.size()), kDtype<T>));
  }
  CudaQueue queue;
  // The rule's states; the reference gets more and leaves them alone.
  const shim::Array<uint16_t> rounded("the parameters in 16 bits", halves ? halves->values : std::vector<uint16_t>(), kBorder);
  if (halves) views.push_back(flat_view(reinterpret_cast<const std::byte*>(rounded.data()), views[0].elements(), halves->dtype));
  const int n_out = static_cast<int>(views.size()) - 1;
  kernel.run({.in = views.data(), .out = views.data() + 1, .n_in = 1, .n_out = n_out, .params = params.data(), .queue = &queue});
  if (halves) halves->values = rounded.read();
  EXPECT_EQ(queue.status, 0) << queue.failed;
  Arrays<T> after;
  for (const auto& array : arrays) after.push_back(array->read());
  return after;
}

// The kernel that takes blocks of T.
template <class T>
bool takes(const Kernel& kernel) {
  const View view = flat_view(static_cast<const std::byte*>(nullptr), 1, kDtype<T>);
  return !kernel.decline || !kernel.decline({.in = &view, .out = &view, .n_in = 1, .n_out = 1});
}

template <class T>
void expect_the_references_bits(const Kernel& kernel) {
  for (const size_t n : {2001u, 5003u}) {
    const Arrays<T> before = values_of<T>(n);
    const auto windows = windows_of(static_cast<int64_t>(n));
    Arrays<T> expected = before;
    run_reference(*kernel_of(kernel_lists(), kernel.op), windows, &expected);
    for (const shim::Order order : shim::kOrders) {
      SCOPED_TRACE(std::string(kernel.op) + " [" + kernel.name + "] of " + std::to_string(n) + ", " + shim::name_of(order));
      shim::set_order(order);
      const Arrays<T> after = run_on_device(kernel, windows, before, false);
      for (size_t a = 0; a < after.size(); ++a)
        EXPECT_EQ(std::memcmp(after[a].data(), expected[a].data(), n * sizeof(T)), 0) << "array " << a;
      EXPECT_EQ(run_on_device(kernel, windows, before, true), before) << "skipped";
    }
  }
}

// The cast of the updated block; in a skipped step, the old values.
TEST(CudaUpdate, KeepsTheParametersIn16BitsToo) {
  static_assert(kUpdateHalves == kMaxArrays - 1);
  const size_t n = 2001;
  const auto windows = windows_of(n);
  for (const char* op : {"update_sgd", "update_adam"})
    for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
      const Kernel& kernel = *kernel_of(cuda_kernel_lists(), op);
      Halves halves{dtype, std::vector<uint16_t>(n, 0x1234)};
      run_on_device(kernel, windows, values_of<float>(n), true, &halves);
      EXPECT_EQ(halves.values, std::vector<uint16_t>(n, 0x1234)) << "skipped";
      const Arrays<float> after = run_on_device(kernel, windows, values_of<float>(n), false, &halves);
      std::vector<uint16_t> expected(n);
      for (size_t i = 0; i < n; ++i) expected[i] = dtype == Dtype::bf16 ? bf16_from_float(after[1][i]) : f16_from_float(after[1][i]);
      EXPECT_EQ(halves.values, expected) << op;
    }
}

// More elements than the most blocks take at once: each block's threads come to several vectors.
TEST(CudaUpdate, TakesLargeBlocksInLongerRuns) {
  const size_t n = size_t{4096} * 1024 + 3'000;
  const auto windows = windows_of(static_cast<int64_t>(n));
  const Kernel& kernel = *kernel_of(cuda_kernel_lists(), "update_sgd");
  const Arrays<float> before = values_of<float>(n);
  Arrays<float> expected = before;
  run_reference(*kernel_of(kernel_lists(), kernel.op), windows, &expected);
  Halves halves{Dtype::bf16, std::vector<uint16_t>(n)};
  EXPECT_EQ(run_on_device(kernel, windows, before, false, &halves)[1], expected[1]);
  for (size_t i = 0; i < n; ++i) ASSERT_EQ(halves.values[i], bf16_from_float(expected[1][i])) << i;
}

// Gradients that several layers left in 16 bits, by one call: every number there is, sizes that are no multiples of a vector, more operands
// than a launch takes, and some that begin between the borders of vectors.
TEST(CudaCast, WidensManyAtOnce) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    std::vector<uint16_t> numbers(3 * (1 << 16));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<uint16_t>(i);
    std::vector<std::pair<size_t, size_t>> windows;  // first, elements
    for (size_t first = 0; windows.size() < 70; first += 1000) windows.emplace_back(first + windows.size() % 3, 1 + 13 * windows.size());
    windows.emplace_back(1 << 16, 1 << 16);
    for (const shim::Order order : shim::kOrders) {
      shim::set_order(order);
      const shim::Array<uint16_t> from("gradients in 16 bits", numbers, kBorder);
      const shim::Array<float> to("gradients", std::vector<float>(numbers.size(), -5), kBorder);
      std::vector<View> in, out;
      std::vector<float> expected(numbers.size(), -5);
      for (const auto& [first, n] : windows) {
        in.push_back(flat_view(reinterpret_cast<const std::byte*>(from.data() + first), static_cast<int64_t>(n), dtype));
        out.push_back(flat_view(reinterpret_cast<const std::byte*>(to.data() + first), static_cast<int64_t>(n), Dtype::f32));
        for (size_t i = first; i < first + n; ++i)
          expected[i] = dtype == Dtype::bf16 ? float_from_bf16(numbers[i]) : float_from_f16(numbers[i]);
      }
      CudaQueue queue;
      const int count = static_cast<int>(windows.size());
      const KernelCall call{.in = in.data(), .out = out.data(), .n_in = count, .n_out = count, .queue = &queue};
      const Kernel& kernel = *kernel_of(cuda_kernel_lists(), "cast");
      EXPECT_EQ(kernel.decline(call), nullptr);
      kernel.run(call);
      EXPECT_EQ(std::memcmp(to.read().data(), expected.data(), expected.size() * sizeof(float)), 0) << shim::name_of(order);
      out.back().dtype = Dtype::f64;
      EXPECT_NE(kernel.decline(call), nullptr);
    }
  }
}

TEST(CudaUpdate, WindowsHaveTheReferencesBits) {
  std::map<std::string, int> in_f32, in_f64;
  for (const KernelList& list : cuda_kernel_lists())
    for (size_t i = 0; i < list.count; ++i) {
      const Kernel& kernel = list.first[i];
      if (!std::string_view(kernel.op).starts_with("update_")) continue;
      if (takes<float>(kernel)) ++in_f32[kernel.op], expect_the_references_bits<float>(kernel);
      if (takes<double>(kernel)) ++in_f64[kernel.op], expect_the_references_bits<double>(kernel);
    }
  EXPECT_EQ(in_f32.size(), 12u);
  EXPECT_EQ(in_f64, in_f32);
}

}  // namespace
}  // namespace perigee
