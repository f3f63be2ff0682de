// A group of GPUs and what it adds up, on the devices of tests/cuda/shim: each has its own memory, which the others' kernels cannot touch,
// and streams run as late as they may. NCCL is the fake of tests/cuda/fakes, which adds up in the order of ranks.
#include "src/device/gpu_group.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>

#include "tests/train/device/device_site.h"

namespace perigee {
namespace {

// ((0 + 1) + (2 + 3)) + ..., as over the threads of a CPU.
template <class T>
T tree(const std::vector<std::vector<T>>& values, size_t at, size_t first, size_t span) {
  if (span == 1) return values[first][at];
  const T left = tree(values, at, first, span / 2);
  if (first + span / 2 >= values.size()) return left;
  const T right = tree(values, at, first + span / 2, span / 2);
  return std::is_integral_v<T> ? std::max(left, right) : left + right;
}

template <class T>
T in_order(const std::vector<std::vector<T>>& values, size_t at) {
  T sum = values[0][at];
  for (size_t i = 1; i < values.size(); ++i) sum = std::is_integral_v<T> ? std::max(sum, values[i][at]) : sum + values[i][at];
  return sum;
}

// Uploads, sums, changes the sum on the device and sums again, without waiting in between.
template <class T>
void expect_sums(GpuGroup& group, int64_t elements, Dtype dtype, bool in_a_tree) {
  std::mt19937 random(static_cast<unsigned>(elements) + static_cast<unsigned>(group.size()));
  const size_t bytes = static_cast<size_t>(elements) * sizeof(T);
  std::vector<std::vector<T>> values(group.size(), std::vector<T>(static_cast<size_t>(elements)));
  std::vector<GpuMemory> memory;
  std::vector<GpuHandle> pinned;
  GroupSum sum{.elements = elements, .dtype = dtype};
  for (size_t i = 0; i < group.size(); ++i) {
    for (T& value : values[i]) value = static_cast<T>(std::is_integral_v<T> ? random() : random() * 1e-3 - 1e6);
    group[i].select();
    memory.push_back(group[i].allocate(bytes, "a test"));
    pinned.push_back(group[i].allocate_pinned(bytes));
    std::memcpy(pinned[i].get(), values[i].data(), bytes);
    group[i].copy(memory[i].data(), pinned[i].get(), bytes);
    sum.at.push_back(memory[i].data());
  }
  const auto sum_of = [&](size_t at) { return in_a_tree ? tree(values, at, 0, std::bit_ceil(values.size())) : in_order(values, at); };
  group.add_up({&sum, 1});
  group.join();
  for (size_t i = 0; i < group.size(); i += 2) {  // half of it, as if a next step had computed
    group[i].select();
    group[i].copy(memory[i].data(), pinned[i].get(), bytes / 2 / sizeof(T) * sizeof(T));
  }
  std::vector<T> once(static_cast<size_t>(elements));
  for (size_t k = 0; k < once.size(); ++k) once[k] = sum_of(k);
  for (size_t i = 0; i < group.size(); ++i)
    std::copy(once.begin() + (i % 2 == 0 ? elements / 2 : 0), once.end(), values[i].begin() + (i % 2 == 0 ? elements / 2 : 0));
  group.add_up({&sum, 1});
  group.join();
  for (size_t i = 0; i < group.size(); ++i) {
    group[i].select();
    std::vector<T> got(static_cast<size_t>(elements));
    group[i].download(got.data(), memory[i].data(), bytes);
    for (size_t k = 0; k < got.size(); ++k) ASSERT_EQ(got[k], sum_of(k)) << "GPU " << i << ", element " << k;
  }
}

TEST(GpuGroup, AddsUpInATreeWithoutNccl) {
  const Environment sixteen("PERIGEE_SHIM_DEVICES", "16");
  for (const int count : {2, 3, 4, 7}) {
    std::vector<int> devices;
    for (int i = 0; i < count; ++i) devices.push_back(i);
    GpuGroup group(devices, "test", true);
    EXPECT_FALSE(group.can_be_captured());
    expect_parts(group.sums(), {"copies between the GPUs", "deterministic"});
    for (const int64_t elements : {1, 63, 1000, 40000}) {
      expect_sums<float>(group, elements, Dtype::f32, true);
      expect_sums<double>(group, elements, Dtype::f64, true);
      expect_sums<int64_t>(group, elements, Dtype::i64, true);
    }
  }
}

TEST(GpuGroup, AddsUpByNccl) {
  const Environment four("PERIGEE_SHIM_DEVICES", "4");
  GpuGroup group(std::vector<int>{2, 0, 3}, "test", false);
  EXPECT_TRUE(group.can_be_captured());
  EXPECT_EQ(group.sums(), "NCCL 2.28.7");
  EXPECT_EQ(group.name(), "cuda:2,0,3");
  expect_sums<float>(group, 1000, Dtype::f32, false);
  expect_sums<double>(group, 77, Dtype::f64, false);
  expect_sums<int64_t>(group, 5, Dtype::i64, false);
}

TEST(GpuGroup, SumsMayRunAtOnceAsWell) {
  const Environment four("PERIGEE_SHIM_DEVICES", "4"), eager("PERIGEE_SHIM_STREAMS", "eager");
  for (const bool deterministic : {false, true}) {
    GpuGroup group(std::vector<int>{0, 1, 2, 3}, "test", deterministic);
    expect_sums<float>(group, 5000, Dtype::f32, deterministic);
  }
}

TEST(GpuGroup, SaysWhatIsWrongWithItsDevices) {
  const Environment two("PERIGEE_SHIM_DEVICES", "2");
  const auto error = [](std::vector<int> devices) { return error_of([&] { GpuGroup(devices, "job", false); }); };
  expect_parts(error({0, 1, 2}), {"job", "there is no such device", "cuda:2", "cuda:0 to cuda:1"});
  expect_parts(error({1, 0, 1}), {"named twice", "cuda:1,0,1"});
  expect_parts(error(std::vector<int>(17)), {"so many GPUs at most", "16"});
}

TEST(GpuGroup, NamesItsDevices) {
  EXPECT_EQ(device_list(std::vector<int>{0}), "cuda:0");
  EXPECT_EQ(device_list(std::vector<int>{0, 1}), "cuda:0,1");
  EXPECT_EQ(device_list(std::vector<int>{0, 1, 2, 3, 6}), "cuda:0-3,6");
}

// When one GPU is lost, another waits in vain: the host notices, and all can be released.
TEST(GpuGroup, WhoIsLostDoesNotHoldTheOthers) {
  const Environment two("PERIGEE_SHIM_DEVICES", "2");
  GpuGroup group(std::vector<int>{0, 1}, "job", false);
  std::vector<GpuMemory> memory;
  std::vector<GpuHandle> done;
  GroupSum sum{.elements = 64, .dtype = Dtype::f32};
  for (size_t i = 0; i < 2; ++i) {
    group[i].select();
    memory.push_back(group[i].allocate(256, "a test"));
    group[i].clear(memory[i].data(), 256);
    done.push_back(group[i].event());
    sum.at.push_back(memory[i].data());
  }
  const Fault fault("launch@1", 1);
  const CudaCombineCall call{.parts = {memory[1].data()}, .n = 1, .to = memory[1].data(), .elements = 64};
  group[1].module().steps->combine(call, group[1].queue());
  group.add_up({&sum, 1});
  group.join();
  std::vector<void*> events;
  for (size_t i = 0; i < 2; ++i) {
    group[i].select();
    static_cast<void>(group[i].module().record_event(done[i].get(), group[i].queue().stream));
    events.push_back(done[i].get());
  }
  expect_parts(error_of([&] { group.wait(events, "finish a step"); }), {"job", "cuda:1", "finish a step", "illegal memory access"});
}

}  // namespace
}  // namespace perigee
