// linalg_trial.h on the host: all sizes at which panels, warps and ways of launching change, in f32 and f64, in batches and in any strides,
// with the threads in three orders, which must give the same bits.
#include "tests/cuda/linalg_trial.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "kernels/cuda/runtime/registry.h"
#include "tests/cuda/shim_site.h"

namespace perigee::linalg {
namespace {

constexpr Layout kLayouts[] = {Layout::contiguous, Layout::permuted, Layout::padded};

class ShimTrial : public LinalgTrial {
 public:
  explicit ShimTrial(Site& site) : LinalgTrial(site, cuda_kernel_lists()) {}
  Batches run(const std::string& op, const Batches& in, const Batches& out, const Setting& setting) override {
    Batches first;
    const shim::Order only = shim::kOrders[turn_++ % std::size(shim::kOrders)];
    for (const shim::Order order : shim::kOrders) {
      if (order != only && !setting.thorough) continue;
      shim::set_order(order);
      Batches results = LinalgTrial::run(op, in, out, setting);
      if (first.empty()) first = std::move(results);
      else expect_same_bits(op, order, first, results);
    }
    return first;
  }

 private:
  static void expect_same_bits(const std::string& op, shim::Order order, const Batches& a, const Batches& b) {
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_EQ(std::memcmp(a[i].numbers.data(), b[i].numbers.data(), a[i].numbers.size() * sizeof(double)), 0)
          << op << ": the order of threads matters: " << shim::name_of(order);
  }
  size_t turn_ = 0;
};

class CudaLinalg : public testing::Test {
 protected:
  ShimSite site;
  ShimTrial trial{site};
};

TEST_F(CudaLinalg, SquareMatricesOfAllSizesInAllLayouts) {
  size_t turn = 0;
  for (const int64_t n : {1, 2, 3, 16, 17, 31, 32, 33, 46, 65})
    for (const Dtype dtype : {Dtype::f64, Dtype::f32}) {
      const Layout layout = kLayouts[turn++ % std::size(kLayouts)];
      check_all(trial, n < 40 ? 3 : 1, n, {dtype, layout, n < 34 && turn % 4 == 1});
    }
}

TEST_F(CudaLinalg, MatricesThatAreNotSquare) {
  const int64_t shapes[][2] = {{3, 1}, {1, 4}, {5, 3}, {3, 5}, {33, 7}, {7, 33}, {70, 34}, {34, 70}, {65, 1}};
  size_t turn = 0;
  for (const auto& shape : shapes)
    for (const Dtype dtype : {Dtype::f64, Dtype::f32}) {
      SCOPED_TRACE(std::to_string(shape[0]) + "x" + std::to_string(shape[1]));
      const Setting setting{dtype, kLayouts[turn++ % std::size(kLayouts)], false};
      check_qr(trial, drawn(2, shape[0], shape[1]), setting);
      check_svd(trial, drawn(2, shape[0], shape[1]), setting);
    }
}

// Several blocks share a matrix, and more matrices come than there are blocks.
TEST_F(CudaLinalg, LargeMatricesAndManyOfThem) {
  const int64_t n = 133;
  const Setting setting{Dtype::f64, Layout::padded, false};
  check_solve(trial, drawn(2, n, n), 37, {});
  check_inv(trial, drawn(1, n, n), setting);
  check_determinants(trial, drawn(1, n, n), setting);
  check_cholesky(trial, positive(2, n), setting);
  check_qr(trial, drawn(2, n, n), setting);
  check_qr(trial, drawn(1, 150, n), setting);
  check_qr(trial, drawn(1, n, 150), setting);
  check_solve(trial, drawn(270, 46, 46), 1, {Dtype::f32, Layout::contiguous, false});
}

TEST_F(CudaLinalg, NumbersNearTheEndsOfTheRange) { check_ends_of_the_range(trial); }
TEST_F(CudaLinalg, ValuesThatAreEqualOrZero) { check_equal_values_and_zeros(trial); }
TEST_F(CudaLinalg, WhatHasNoResultIsNaNInItsOwnMatrix) {
  for (const int64_t n : {3, 40, 133}) check_what_has_no_result(trial, n);
}

TEST_F(CudaLinalg, NothingIsDoneWithNothing) {
  const View none{.dtype = Dtype::f64, .rank = 3, .dims = {0, 4, 4}, .strides = {16, 4, 1}};
  for (const char* op : {"inv", "cholesky", "qr", "svd", "eigh"}) {
    const View outputs[] = {none, none, none};
    CudaQueue queue;
    const KernelCall call{.in = &none, .out = outputs, .n_in = 1, .n_out = 3, .queue = &queue};
    EXPECT_EQ(trial.kernel_of(op).scratch_bytes(call), 0u);
    trial.kernel_of(op).run(call);
    EXPECT_EQ(queue.status, 0) << op;
  }
}

// Whether one of the trials finds something wrong, in a process of its own: it may touch what it must not, and need not come to an end.
bool fails(const std::vector<std::function<void()>>& trials) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) close(stream);
    const rlimit seconds = {60, 60};
    setrlimit(RLIMIT_CPU, &seconds);
    for (const auto& trial : trials) {
      trial();
      if (testing::Test::HasFailure()) _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status != 0;
}

// Without any one of the barriers some order of the threads gives other bits; but for three, behind which an exchange of lanes comes that
// all threads of the shim reach before one of them writes again: the last of block_join, that of a round of rotations, that before the next
// matrix.
TEST_F(CudaLinalg, NearlyEveryBarrierIsMissed) {
  const Batch a = drawn(1, 33, 33), large = drawn(1, 66, 66), many = drawn(2113, 2, 2);  // more than there are blocks
  const std::vector<std::function<void()>> once = {
      [&] { check_solve(trial, large, 3, {}); }, [&] { check_cholesky(trial, positive(1, 66), {}); },
      [&] { check_qr(trial, large, {}); },       [&] { check_eigh(trial, a, {}); },
      [&] { check_svd(trial, a, {}); },
  };
  const std::vector<std::function<void()>> again = {[&] { check_inv(trial, many, {}); }, [&] { check_eigh(trial, many, {}); },
                                                    [&] { check_svd(trial, many, {}); }};
  EXPECT_FALSE(fails(once));
  EXPECT_FALSE(fails(again));
  for (const auto& trial : once) trial();  // so that the barriers are known
  size_t tried = 0;
  std::vector<std::string> others;
  for (const std::string& barrier : shim::barriers()) {
    if (barrier.find("linalg") == std::string::npos) continue;
    shim::leave_out(barrier);
    const bool missed = fails(once) || fails(again);
    if (!missed) others.push_back(barrier);
    ++tried;
  }
  EXPECT_LE(others.size(), 3u) << testing::PrintToString(others);
  EXPECT_GT(tried, 15u);
  shim::leave_out("");
}

}  // namespace
}  // namespace perigee::linalg
