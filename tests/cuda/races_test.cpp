// The kernels, compiled so that they tell each access (shim/races.cpp), leave nothing unordered in the trials of the other tests, which are
// linked here again; and what a GPU does not order is found.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <memory>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/reduce/last_block.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "tests/cuda/shim/shim.h"

namespace perigee {
namespace {

// After all tests, of which each may have left some.
class NothingUnordered : public testing::Environment {
 public:
  void TearDown() override {
    for (const std::string& race : shim::take_races()) ADD_FAILURE() << race;
  }
};
[[maybe_unused]] testing::Environment* const nothing_unordered =
    testing::AddGlobalTestEnvironment(std::make_unique<NothingUnordered>().release());

__device__ int* room() {
  __shared__ int memory[kThreads];
  return memory;
}

enum class Barrier { none, warp, block };

// Each thread reads what the one `distance` before it wrote.
__global__ void shift_kernel(int* out, int distance, Barrier barrier) {
  begin_kernel();
  const int self = static_cast<int>(threadIdx.x);
  room()[self] = self;
  if (barrier == Barrier::block) __syncthreads();
  if (barrier == Barrier::warp) __syncwarp();
  __shfl_xor_sync(kAllLanes, self, 1);  // orders no memory
  out[self] = room()[max(self - distance, 0)];
}

__global__ void one_place_kernel(int* out, int each) {
  begin_kernel();
  *out = 1 + each * static_cast<int>(blockIdx.x);
}

__global__ void sum_kernel(int* parts, int* sum, uint32_t* counter, bool past_the_cache) {
  begin_kernel();
  if (threadIdx.x == 0) parts[blockIdx.x] = 1;
  if (!last_to_finish(counter, gridDim.x) || threadIdx.x != 0) return;
  *sum = 0;
  for (unsigned part = 0; part < gridDim.x; ++part) *sum += past_the_cache ? __ldcg(parts + part) : parts[part];
}

__global__ void border_kernel(std::byte* out, int offset) {
  begin_kernel();
  *reinterpret_cast<float*>(out + offset) = 1;
}

__global__ void hasty_kernel(int* out) {
  const int before = out[threadIdx.x];
  begin_kernel();
  out[threadIdx.x] = before + 1;
}

// All that is unordered now is so for that reason, and there is some where a reason is given.
void expect_races(const char* why) {
  const std::vector<std::string> races = shim::take_races();
  for (const std::string& race : races) EXPECT_TRUE(why != nullptr && race.starts_with(why)) << race;
  EXPECT_EQ(races.empty(), why == nullptr);
}

TEST(CudaRaces, AreFoundWhereABarrierIsMissing) {
  const shim::Array<int> out("out", kThreads);
  Launches on(nullptr);
  for (const shim::Order order : shim::kOrders) {
    shim::set_order(order);
    for (const int distance : {1, kWarp}) {
      on.launch(shift_kernel, 1, kThreads, out.data(), distance, Barrier::block);
      expect_races(nullptr);
      on.launch(shift_kernel, 1, kThreads, out.data(), distance, Barrier::none);
      expect_races("no barrier between accesses of shared memory");
    }
    on.launch(shift_kernel, 1, kWarp, out.data(), 1, Barrier::warp);
    expect_races(nullptr);
    on.launch(shift_kernel, 1, kThreads, out.data(), 1, Barrier::warp);
    expect_races("no barrier between accesses of shared memory");
  }
}

TEST(CudaRaces, AreFoundBetweenBlocks) {
  const shim::Array<int> parts("parts", 4), sum("sum", 1);
  const shim::Array<uint32_t> counter("counter", std::vector<uint32_t>{0});
  Launches on(nullptr);
  on.launch(sum_kernel, 4, kWarp, parts.data(), sum.data(), counter.data(), true);
  expect_races(nullptr);
  on.launch(sum_kernel, 4, kWarp, parts.data(), sum.data(), counter.data(), false);
  expect_races("blocks do not wait for each other");
  EXPECT_EQ(sum.read(), std::vector<int>{4});
}

TEST(CudaRaces, WhoWritesTheSameDisturbsNobody) {
  const shim::Array<int> out("out", 1);
  Launches on(nullptr);
  on.launch(one_place_kernel, 2, kWarp, out.data(), 0);
  expect_races(nullptr);
  on.launch(one_place_kernel, 2, kWarp, out.data(), 1);
  expect_races("blocks do not wait for each other");
}

TEST(CudaRaces, WhoReadsBeforeTheKernelsBeforeHaveEndedIsFound) {
  const shim::Array<int> out("out", kWarp);
  Launches(nullptr).launch(hasty_kernel, 1, kWarp, out.data());
  expect_races("before the kernels before it have ended");
}

TEST(CudaRaces, AccessesBesideTheirBordersAreFound) {
  const shim::Array<std::byte> out("out", 16, 16);
  Launches on(nullptr);
  on.launch(border_kernel, 1, kWarp, out.data(), 4);
  expect_races(nullptr);
  on.launch(border_kernel, 1, kWarp, out.data(), 6);
  expect_races("not on its border");
}

}  // namespace
}  // namespace perigee
