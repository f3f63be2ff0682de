// The stand-in for a GPU finds the mistakes that it is there to find.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <numeric>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "tests/cuda/shim/shim.h"

namespace perigee {
namespace {

__device__ void reverse(const int* in, int* out, bool with_barrier) {
  __shared__ int room[kThreads];
  room[threadIdx.x] = in[threadIdx.x];
  if (with_barrier) __syncthreads();
  out[threadIdx.x] = room[blockDim.x - 1 - threadIdx.x];
}

__global__ void reverse_with_barrier(const int* in, int* out) {
  begin_kernel();
  reverse(in, out, true);
}
__global__ void reverse_without_barrier(const int* in, int* out) {
  begin_kernel();
  reverse(in, out, false);
}

// By order.
std::vector<std::vector<int>> run_in_all_orders(void (*kernel)(const int*, int*)) {
  std::vector<std::vector<int>> results;
  for (const shim::Order order : shim::kOrders) {
    shim::set_order(order);
    std::vector<int> values(kThreads);
    std::iota(values.begin(), values.end(), 1);
    const shim::Array<int> in("in", values), out("out", values.size());
    Launches on(nullptr);
    on.launch(kernel, 1, kThreads, static_cast<const int*>(in.data()), out.data());
    EXPECT_EQ(on.status(), 0);
    results.push_back(out.read());
  }
  return results;
}

TEST(Shim, OrdersAgreeWhereNoBarrierIsMissing) {
  const auto results = run_in_all_orders(reverse_with_barrier);
  std::vector<int> expected(kThreads);
  std::iota(expected.rbegin(), expected.rend(), 1);
  for (const auto& result : results) EXPECT_EQ(result, expected);
}

TEST(Shim, OrdersDisagreeWhereABarrierIsMissing) {
  const auto results = run_in_all_orders(reverse_without_barrier);
  EXPECT_NE(results[0], results[1]);
  EXPECT_NE(results[1], results[2]);
}

// A block's shared memory does not survive into the next block, and memory never written is not zero.
__global__ void shared_kernel(const int*, int* out) {
  begin_kernel();
  __shared__ int room[2];
  if (threadIdx.x == 0) out[blockIdx.x] = room[0], room[0] = static_cast<int>(blockDim.x);
}

TEST(Shim, SharedMemoryBeginsAsRubbish) {
  shim::set_order(shim::Order::forward);
  const shim::Array<int> out("out", 2);
  Launches on(nullptr);
  on.launch(shared_kernel, 2, kWarp, static_cast<const int*>(nullptr), out.data());
  for (const int found : out.read()) {
    EXPECT_NE(found, 0);
    EXPECT_NE(found, static_cast<int>(kWarp));  // what a block leaves
  }
}

__global__ void warp_kernel(const int* in, int* out) {
  begin_kernel();
  const int value = in[threadIdx.x];
  const unsigned odd = __ballot_sync(kAllLanes, value % 2);
  const int left = __shfl_up_sync(kAllLanes, value, 3);
  const int third = __shfl_sync(kAllLanes, value, 3);
  out[threadIdx.x] = left + 1000 * third + (odd == 0x55555555u ? 1'000'000 : 0) +
                     static_cast<int>(__reduce_max_sync(kAllLanes, static_cast<unsigned>(value))) * 2'000'000;
}

// By the rules of CUDA's programming guide: lane l of __shfl_up_sync(v, 3) has that of lane l - 3, the first three their own.
TEST(Shim, WarpsExchangeValues) {
  for (const auto& result : run_in_all_orders(warp_kernel))
    for (int i = 0; i < kThreads; ++i) {
      const int lane = i % kWarp, first = i - lane, left = lane < 3 ? i + 1 : i + 1 - 3;
      ASSERT_EQ(result[static_cast<size_t>(i)], left + 1000 * (first + 4) + 1'000'000 + (first + kWarp) * 2'000'000) << i;
    }
}

__global__ void copy_one_beside(const int* in, int* out) {
  begin_kernel();
  out[threadIdx.x] = in[threadIdx.x + 1];
}
__global__ void write_before(const int*, int* out) {
  begin_kernel();
  out[static_cast<int>(threadIdx.x) - 1] = 0;
}
__global__ void read_between(const int* in, int* out) {
  begin_kernel();
  const auto* const four = reinterpret_cast<const Vector<int>*>(in + threadIdx.x % 4);
  out[threadIdx.x] = four->lane[threadIdx.x / kWarp % 4];
}
__global__ void end_before_others(const int*, int*) {
  begin_kernel();
  if (threadIdx.x < 64) __syncthreads();
}
__global__ void half_a_warp(const int*, int*) {
  begin_kernel();
  if (threadIdx.x % kWarp < 16) __ballot_sync(kAllLanes, 1);
}
__global__ void wrong_mask(const int*, int*) {
  begin_kernel();
  __ballot_sync(0xffffu, 1);
}

TEST(ShimDeathTest, WhoTouchesWhatItMustNotIsNamed) {
  testing::GTEST_FLAG(death_test_style) = "fast";
  EXPECT_DEATH(run_in_all_orders(copy_one_beside), "thread 255 of order forward touches byte 1024 of in, which has 1024 bytes");
  EXPECT_DEATH(run_in_all_orders(write_before), "written beside out");
  EXPECT_DEATH(run_in_all_orders(read_between), "thread 1 of order forward touches several bytes that are on no border|misaligned address");
}

TEST(ShimDeathTest, WhoWaitsForEverIsNamed) {
  EXPECT_DEATH(run_in_all_orders(end_before_others), "waits at shim_test.cpp:[0-9]+ for one that has ended");
  EXPECT_DEATH(run_in_all_orders(half_a_warp), "no lane can go on|for one that has ended");
  EXPECT_DEATH(run_in_all_orders(wrong_mask), "by a lane that its mask leaves out");
}

}  // namespace
}  // namespace perigee
