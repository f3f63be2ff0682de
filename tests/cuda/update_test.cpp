// update_* as one call for all windows of a block: the bits are those of the reference window by window, what lies between windows stays as it
// is, and a step that is skipped changes nothing.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernels/cuda/queue.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/update.h"
#include "kernels/flat_view.h"
#include "kernels/registry.h"
#include "tests/cuda/shim/shim.h"

namespace perigee {
namespace {

constexpr size_t kBorder = 64;  // of blocks
constexpr int kMaxArrays = 5;   // gradient, parameters, states

using Arrays = std::vector<std::vector<float>>;

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

Arrays values_of(size_t n) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> draw(-1, 1);
  Arrays arrays(kMaxArrays, std::vector<float>(n));
  for (size_t a = 0; a < arrays.size(); ++a)
    for (float& x : arrays[a]) x = a < 2 ? draw(random) : std::abs(draw(random));  // states of squares are not negative
  return arrays;
}

// All outputs; states that a rule does not have are ignored by it.
void run_reference(const Kernel& kernel, const std::vector<CudaUpdateWindow>& windows, Arrays* arrays) {
  for (const CudaUpdateWindow& window : windows) {
    std::vector<View> views;
    for (std::vector<float>& array : *arrays)
      views.push_back(flat_view(reinterpret_cast<const std::byte*>(array.data() + window.begin), window.end - window.begin, Dtype::f32));
    kernel.run({.in = views.data(), .out = views.data() + 1, .n_in = 1, .n_out = kMaxArrays - 1, .params = &window.params});
  }
}

Arrays run_on_device(const Kernel& kernel, const std::vector<CudaUpdateWindow>& windows, const Arrays& before, bool skip) {
  std::vector<std::byte> call(sizeof(CudaUpdate) + windows.size() * sizeof(CudaUpdateWindow));
  const CudaUpdate head{.skip = skip, .windows = static_cast<int32_t>(windows.size())};
  std::memcpy(call.data(), &head, sizeof head);
  std::memcpy(call.data() + sizeof head, windows.data(), windows.size() * sizeof(CudaUpdateWindow));
  const shim::Array<std::byte> params("params", call, alignof(CudaUpdateWindow));
  std::vector<std::unique_ptr<shim::Array<float>>> arrays;
  std::vector<View> views;
  for (const std::vector<float>& array : before) {
    arrays.push_back(std::make_unique<shim::Array<float>>("a block", array, kBorder));
    views.push_back(flat_view(reinterpret_cast<const std::byte*>(arrays.back()->data()), static_cast<int64_t>(array.size()), Dtype::f32));
  }
  CudaQueue queue;
  // What the rule has of states; the reference is given more and leaves them alone.
  kernel.run({.in = views.data(), .out = views.data() + 1, .n_in = 1, .n_out = kMaxArrays - 1, .params = params.data(), .queue = &queue});
  EXPECT_EQ(queue.status, 0) << queue.failed;
  Arrays after;
  for (const auto& array : arrays) after.push_back(array->read());
  return after;
}

TEST(CudaUpdate, WindowsHaveTheReferencesBits) {
  for (const KernelList& list : cuda_kernel_lists())
    for (size_t i = 0; i < list.count; ++i) {
      const Kernel& kernel = list.first[i];
      if (!std::string_view(kernel.op).starts_with("update_")) continue;
      for (const size_t n : {2001u, 5003u}) {
        const Arrays before = values_of(n);
        const auto windows = windows_of(static_cast<int64_t>(n));
        Arrays expected = before;
        run_reference(*kernel_of(kernel_lists(), kernel.op), windows, &expected);
        for (const shim::Order order : shim::kOrders) {
          SCOPED_TRACE(std::string(kernel.op) + " of " + std::to_string(n) + ", " + shim::name_of(order));
          shim::set_order(order);
          const Arrays after = run_on_device(kernel, windows, before, false);
          for (size_t a = 0; a < after.size(); ++a)
            EXPECT_EQ(std::memcmp(after[a].data(), expected[a].data(), n * sizeof(float)), 0) << "array " << a;
          EXPECT_EQ(run_on_device(kernel, windows, before, true), before) << "skipped";
        }
      }
    }
}

}  // namespace
}  // namespace perigee
