// Linear algebra of CUDA kernels against what defines it, in f64 by plain loops: a x = b, L L^T = a, Q R = a, orthogonal columns,
// eigenvalues that belong to their vectors, signs as kernels/ops/linalg.h says. On the host (tests/cuda) and on a GPU (tests/gpu), where
// there is no LAPACK.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/parity.h"

namespace perigee::linalg {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

// Matrices of a batch, one after another by rows; rows = 0 stands for a number, columns = 0 for a vector.
struct Batch {
  int64_t count, rows, columns;
  std::vector<double> numbers;

  Batch(int64_t count, int64_t rows, int64_t columns)
      : count(count),
        rows(rows),
        columns(columns),
        numbers(static_cast<size_t>(count * std::max<int64_t>(rows, 1) * std::max<int64_t>(columns, 1))) {}
  double& at(int64_t matrix, int64_t i, int64_t j) {
    return numbers[static_cast<size_t>((matrix * std::max<int64_t>(rows, 1) + i) * std::max<int64_t>(columns, 1) + j)];
  }
  double at(int64_t matrix, int64_t i, int64_t j) const { return const_cast<Batch*>(this)->at(matrix, i, j); }
  double operator[](int64_t i) const { return numbers[static_cast<size_t>(i)]; }
};

inline Batch drawn(int64_t count, int64_t rows, int64_t columns, uint64_t seed = 1) {
  std::mt19937_64 random(seed + static_cast<uint64_t>(1000 * rows + columns));
  Batch result(count, rows, columns);
  for (double& x : result.numbers) x = static_cast<double>(static_cast<int64_t>(random() % 4001) - 2000) / 1000;
  return result;
}

inline Batch product(const Batch& a, const Batch& b, bool turned_a = false, bool turned_b = false) {
  const int64_t rows = turned_a ? a.columns : a.rows, inner = turned_a ? a.rows : a.columns, columns = turned_b ? b.rows : b.columns;
  Batch result(a.count, rows, columns);
  for (int64_t m = 0; m < a.count; ++m)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        for (int64_t k = 0; k < inner; ++k)
          result.at(m, i, j) += (turned_a ? a.at(m, k, i) : a.at(m, i, k)) * (turned_b ? b.at(m, j, k) : b.at(m, k, j));
  return result;
}

inline Batch sizes_of(Batch a) {
  for (double& x : a.numbers) x = std::abs(x);
  return a;
}

inline Batch identity(int64_t count, int64_t n, double scale = 1) {
  Batch result(count, n, n);
  for (int64_t m = 0; m < count; ++m)
    for (int64_t i = 0; i < n; ++i) result.at(m, i, i) = scale;
  return result;
}

// With the columns multiplied by a number each.
inline Batch scaled(Batch a, const Batch& by) {
  for (int64_t m = 0; m < a.count; ++m)
    for (int64_t i = 0; i < a.rows; ++i)
      for (int64_t j = 0; j < a.columns; ++j) a.at(m, i, j) *= by[m * a.columns + j];
  return a;
}

struct Setting {
  Dtype dtype = Dtype::f64;
  Layout layout = Layout::contiguous;
  bool thorough = true;  // in every order of the threads, where a test can choose it
};

using Batches = std::vector<Batch>;

// Runs kernels where the site is.
class LinalgTrial {
 public:
  LinalgTrial(Site& site, std::span<const KernelList> kernels) : site_(site), kernels_(kernels) {}
  virtual ~LinalgTrial() = default;

  // Only the shapes of `out` are used.
  virtual Batches run(const std::string& op, const Batches& in, const Batches& out, const Setting& setting) {
    std::vector<Placed> operands;
    std::vector<View> views;
    for (const Batch& batch : in) place(operands, "an input", batch, setting);
    for (const Batch& batch : out) place(operands, "an output", batch, setting);
    for (const Placed& operand : operands) views.push_back(operand.device_view());
    const StepInfo step;
    site_.run(kernel_of(op), {.in = views.data(),
                              .out = views.data() + in.size(),
                              .n_in = static_cast<int>(in.size()),
                              .n_out = static_cast<int>(out.size()),
                              .step = &step});
    Batches results;
    for (size_t i = 0; i < out.size(); ++i) {
      Placed& operand = operands[in.size() + i];
      operand.read();
      EXPECT_TRUE(operand.surroundings_untouched()) << op;
      results.push_back(out[i]);
      size_t k = 0;
      for_each_index(operand.view().rank, operand.view().dims, [&](const int64_t* index) {
        results.back().numbers[k++] = load_as<double>(operand.view(), offset_of(operand.view(), index));
      });
    }
    return results;
  }

  const Kernel& kernel_of(const std::string& op) const {
    for (const KernelList& list : kernels_)
      for (size_t i = 0; i < list.count; ++i)
        if (op == list.first[i].op) return list.first[i];
    throw std::runtime_error("no kernel of " + op);
  }

 private:
  void place(std::vector<Placed>& operands, const char* name, const Batch& batch, const Setting& setting) {
    std::vector<int64_t> dims = {batch.count};
    for (const int64_t size : {batch.rows, batch.columns})
      if (size > 0) dims.push_back(size);
    Tensor values(Dtype::f64, Shape(dims));
    std::copy(batch.numbers.begin(), batch.numbers.end(), values.data<double>());
    operands.emplace_back(site_, name, Type{setting.dtype, Shape(dims)}, setting.layout);
    operands.back().fill(values);
  }

  Site& site_;
  std::span<const KernelList> kernels_;
};

// As stored.
inline Batch rounded(Batch a, Dtype dtype) {
  if (dtype == Dtype::f32)
    for (double& x : a.numbers) x = static_cast<float>(x);
  return a;
}

inline double unit(const Setting& setting) { return setting.dtype == Dtype::f64 ? 0x1p-52 : 0x1p-23; }

// To so many roundings of `scale`, which is the largest number that was added up.
inline void expect_near(const Batch& got, const Batch& expected, double tolerance) {
  ASSERT_EQ(got.numbers.size(), expected.numbers.size());
  for (size_t i = 0; i < got.numbers.size(); ++i)
    ASSERT_TRUE(std::abs(got.numbers[i] - expected.numbers[i]) <= tolerance)
        << "number " << i << ": " << got.numbers[i] << " instead of " << expected.numbers[i] << " to " << tolerance;
}

inline double largest(const Batch& a) {
  double result = 0;
  for (const double x : a.numbers) result = std::max(result, std::abs(x));
  return result;
}

inline double roundings(int64_t n, const Setting& setting) { return unit(setting) * static_cast<double>(8 + 2 * n); }

inline void expect_orthogonal(const Batch& q, bool columns, const Setting& setting) {
  const int64_t n = columns ? q.columns : q.rows;
  expect_near(product(q, q, columns, !columns), identity(q.count, n), roundings(std::max(q.rows, q.columns), setting));
}

inline void expect_signs(const Batch& vectors) {
  for (int64_t m = 0; m < vectors.count; ++m)
    for (int64_t j = 0; j < vectors.columns; ++j) {
      double top = 0, first = 0;
      for (int64_t i = 0; i < vectors.rows; ++i) top = std::max(top, std::abs(vectors.at(m, i, j)));
      for (int64_t i = vectors.rows - 1; i >= 0; --i)
        if (std::abs(vectors.at(m, i, j)) >= 0.7 * top) first = vectors.at(m, i, j);
      EXPECT_GT(first, 0) << "column " << j;
    }
}

inline void check_solve(LinalgTrial& trial, Batch a, int64_t sides, const Setting& setting) {
  a = rounded(a, setting.dtype);
  const int64_t n = a.rows;
  Batch b = rounded(drawn(a.count, n, sides, 5), setting.dtype);
  Batch x = trial.run("solve", {a, b}, {b}, setting)[0];
  b.columns = x.columns = std::max<int64_t>(sides, 1);
  expect_near(product(a, x), b, roundings(n, setting) * largest(product(sizes_of(a), sizes_of(x))));
}

inline void check_inv(LinalgTrial& trial, Batch a, const Setting& setting) {
  a = rounded(a, setting.dtype);
  const Batch x = trial.run("inv", {a}, {a}, setting)[0];
  expect_near(product(a, x), identity(a.count, a.rows), roundings(a.rows, setting) * largest(product(sizes_of(a), sizes_of(x))));
}

// By elimination with pivots from everywhere, in long double.
inline long double determinant(const Batch& a, int64_t m) {
  const int64_t n = a.rows;
  std::vector<std::vector<long double>> rows(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) rows[static_cast<size_t>(i)].push_back(a.at(m, i, j));
  long double result = 1;
  for (size_t k = 0; k < rows.size(); ++k) {
    size_t row = k, column = k;
    for (size_t i = k; i < rows.size(); ++i)
      for (size_t j = k; j < rows.size(); ++j)
        if (std::abs(rows[i][j]) > std::abs(rows[row][column])) row = i, column = j;
    if (row != k) std::swap(rows[row], rows[k]), result = -result;
    if (column != k) {
      for (auto& each : rows) std::swap(each[column], each[k]);
      result = -result;
    }
    result *= rows[k][k];
    for (size_t i = k + 1; i < rows.size() && rows[k][k] != 0; ++i)
      for (size_t j = rows.size(); j-- > k;) rows[i][j] -= rows[i][k] / rows[k][k] * rows[k][j];
  }
  return result;
}

inline void check_determinants(LinalgTrial& trial, Batch a, const Setting& setting) {
  a = rounded(a, setting.dtype);
  for (double& x : a.numbers) x /= std::sqrt(static_cast<double>(a.rows));  // or f32 overflows
  a = rounded(a, setting.dtype);
  const Batch number(a.count, 0, 0);
  const Batch det = trial.run("det", {a}, {number}, setting)[0];
  const Batches logarithms = trial.run("slogdet", {a}, {number, number}, setting);
  for (int64_t m = 0; m < a.count; ++m) {
    const double expected = static_cast<double>(determinant(a, m)), tolerance = 8 * roundings(a.rows, setting);
    EXPECT_NEAR(det[m], expected, tolerance * std::abs(expected));
    EXPECT_EQ(logarithms[0][m], expected > 0 ? 1 : -1);
    EXPECT_NEAR(logarithms[1][m], std::log(std::abs(expected)), tolerance * std::max(1.0, std::abs(std::log(std::abs(expected)))));
  }
}

inline Batch positive(int64_t count, int64_t n) {
  const Batch a = drawn(count, n, n);
  Batch result = product(a, a, false, true);
  for (int64_t m = 0; m < count; ++m)
    for (int64_t i = 0; i < n; ++i) result.at(m, i, i) += 1;
  return result;
}

inline void check_cholesky(LinalgTrial& trial, Batch a, const Setting& setting) {
  a = rounded(a, setting.dtype);
  Batch half = a;  // no more is read
  for (int64_t m = 0; m < a.count; ++m)
    for (int64_t i = 0; i < a.rows; ++i)
      for (int64_t j = i + 1; j < a.rows; ++j) half.at(m, i, j) = kNaN;
  const Batch l = trial.run("cholesky", {half}, {a}, setting)[0];
  for (int64_t m = 0; m < a.count; ++m)
    for (int64_t i = 0; i < a.rows; ++i) {
      EXPECT_GT(l.at(m, i, i), 0);
      for (int64_t j = i + 1; j < a.rows; ++j) EXPECT_EQ(l.at(m, i, j), 0);
    }
  expect_near(product(l, l, false, true), a, roundings(a.rows, setting) * largest(a));
}

inline void check_qr(LinalgTrial& trial, Batch a, const Setting& setting) {
  a = rounded(a, setting.dtype);
  const int64_t k = std::min(a.rows, a.columns);
  const Batches qr = trial.run("qr", {a}, {Batch(a.count, a.rows, k), Batch(a.count, k, a.columns)}, setting);
  expect_orthogonal(qr[0], true, setting);
  for (int64_t m = 0; m < a.count; ++m)
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < i; ++j) ASSERT_EQ(qr[1].at(m, i, j), 0);
  expect_near(product(qr[0], qr[1]), a, roundings(a.rows, setting) * largest(product(sizes_of(qr[0]), sizes_of(qr[1]))));
}

inline Batches check_svd(LinalgTrial& trial, Batch a, const Setting& setting) {
  SCOPED_TRACE("svd of " + std::to_string(a.at(0, 0, 0)));
  a = rounded(a, setting.dtype);
  const int64_t k = std::min(a.rows, a.columns);
  const Batches svd = trial.run("svd", {a}, {Batch(a.count, a.rows, k), Batch(a.count, k, 0), Batch(a.count, k, a.columns)}, setting);
  expect_orthogonal(svd[0], true, setting);
  expect_orthogonal(svd[2], false, setting);
  expect_signs(svd[0]);
  for (int64_t m = 0; m < a.count; ++m)
    for (int64_t i = 0; i < k; ++i) {
      EXPECT_GE(svd[1][m * k + i], 0);
      EXPECT_LE(svd[1][m * k + i], svd[1][m * k + std::max<int64_t>(i, 1) - 1]);
    }
  expect_near(product(scaled(svd[0], svd[1]), svd[2]), a, roundings(a.rows, setting) * std::max(largest(svd[1]), 1e-300));
  return svd;
}

inline Batch symmetric(Batch a) {
  for (int64_t m = 0; m < a.count; ++m)
    for (int64_t i = 0; i < a.rows; ++i)
      for (int64_t j = i + 1; j < a.rows; ++j) a.at(m, i, j) = a.at(m, j, i);
  return a;
}

inline Batches check_eigh(LinalgTrial& trial, Batch a, const Setting& setting) {
  SCOPED_TRACE("eigh of " + std::to_string(a.at(0, 0, 0)));
  a = rounded(symmetric(a), setting.dtype);
  Batch half = a;
  for (int64_t m = 0; m < a.count; ++m)
    for (int64_t i = 0; i < a.rows; ++i)
      for (int64_t j = i + 1; j < a.rows; ++j) half.at(m, i, j) = kNaN;
  const Batches eigen = trial.run("eigh", {half}, {Batch(a.count, a.rows, 0), a}, setting);
  expect_orthogonal(eigen[1], true, setting);
  expect_signs(eigen[1]);
  for (int64_t m = 0; m < a.count; ++m)
    for (int64_t i = 1; i < a.rows; ++i) EXPECT_GE(eigen[0][m * a.rows + i], eigen[0][m * a.rows + i - 1]);
  expect_near(product(a, eigen[1]), scaled(eigen[1], eigen[0]), roundings(a.rows, setting) * std::max(largest(eigen[0]), 1e-300));
  return eigen;
}

inline void check_all(LinalgTrial& trial, int64_t count, int64_t n, const Setting& setting) {
  SCOPED_TRACE("n = " + std::to_string(n) + ", " + std::to_string(count) + (setting.dtype == Dtype::f64 ? " in f64" : " in f32"));
  const Batch a = drawn(count, n, n);
  check_solve(trial, a, 0, setting);
  check_solve(trial, a, 3, setting);
  check_inv(trial, a, setting);
  check_determinants(trial, a, setting);
  check_cholesky(trial, positive(count, n), setting);
  check_qr(trial, a, setting);
  check_svd(trial, a, setting);
  check_eigh(trial, a, setting);
}

inline void check_ends_of_the_range(LinalgTrial& trial) {
  for (const double size : {1e-200, 1e200}) {
    Batch a = drawn(1, 5, 5);
    for (double& x : a.numbers) x *= size;
    check_qr(trial, a, {});
    check_svd(trial, a, {});
    check_eigh(trial, a, {});
    check_solve(trial, a, 2, {});
  }
}

inline void check_equal_values_and_zeros(LinalgTrial& trial) {
  for (const int64_t n : {1, 5, 33}) {
    check_svd(trial, Batch(1, n, n), {});
    check_svd(trial, identity(2, n, -3), {});
    EXPECT_EQ(check_eigh(trial, identity(1, n, 0.1), {})[0].numbers, std::vector<double>(static_cast<size_t>(n), 0.1));
    EXPECT_EQ(largest(check_eigh(trial, Batch(1, n, n), {})[0]), 0);
    check_qr(trial, Batch(1, n, n), {});
    Batch ones(1, n, n);
    std::fill(ones.numbers.begin(), ones.numbers.end(), 1.0);
    const Batches svd = check_svd(trial, ones, {});
    EXPECT_NEAR(svd[1][0], static_cast<double>(n), 1e-13 * static_cast<double>(n));
    EXPECT_LT(n > 1 ? svd[1][1] : 0, 1e-14 * static_cast<double>(n));
    check_eigh(trial, ones, {});
    check_qr(trial, ones, {});
  }
  // Rank 3, and eigenvalues 1, 1, 1, -1, -1: both signs of one size.
  const Batch tall = drawn(2, 20, 3), wide = drawn(2, 3, 12, 9);
  EXPECT_LT(check_svd(trial, product(tall, wide), {})[1][3], 1e-12);
  const Batch q = trial.run("qr", {drawn(1, 5, 5)}, {Batch(1, 5, 5), Batch(1, 5, 5)}, {})[0];
  Batch signs(1, 5, 0);
  signs.numbers = {1, 1, 1, -1, -1};
  const Batch values = check_eigh(trial, product(scaled(q, signs), q, false, true), {})[0];
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(values[i], i < 2 ? -1 : 1, 1e-13);
}

inline bool all_nan(const Batch& a, int64_t matrix) {
  const size_t size = a.numbers.size() / static_cast<size_t>(a.count);
  for (size_t i = 0; i < size; ++i)
    if (!std::isnan(a.numbers[static_cast<size_t>(matrix) * size + i])) return false;
  return true;
}

// The second of three has no result; the others are what they are without it.
inline void expect_only_second_is_missing(LinalgTrial& trial, const std::string& op, const Batches& in, const Batches& out) {
  for (const Batch& result : trial.run(op, in, out, {.thorough = false})) {
    EXPECT_TRUE(all_nan(result, 1)) << op;
    for (const int64_t m : {0, 2})
      for (int64_t i = 0; i < result.rows * std::max<int64_t>(result.columns, 1); ++i)
        ASSERT_TRUE(std::isfinite(result[m * result.rows * std::max<int64_t>(result.columns, 1) + i])) << op;
  }
}

// A matrix without a result is NaN, and only that one.
inline void check_what_has_no_result(LinalgTrial& trial, int64_t n) {
  SCOPED_TRACE(n);
  Batch a = drawn(3, n, n), b = drawn(3, n, 2), definite = positive(3, n);
  for (int64_t i = 0; i < n; ++i) a.at(1, i, n - 2) = 0;  // a column of zeros
  expect_only_second_is_missing(trial, "solve", {a, b}, {b});
  expect_only_second_is_missing(trial, "inv", {a}, {a});
  const Batch number(3, 0, 0), det = trial.run("det", {a}, {number}, {.thorough = false})[0];
  EXPECT_EQ(det[1], 0);
  const Batches logarithm = trial.run("slogdet", {a}, {number, number}, {.thorough = false});
  EXPECT_EQ(logarithm[0][1], 0);
  EXPECT_FALSE(std::signbit(logarithm[0][1]));
  EXPECT_EQ(logarithm[1][1], -kInfinity);
  definite.at(1, n - 1, n - 1) = -1;
  expect_only_second_is_missing(trial, "cholesky", {definite}, {definite});
  for (const double bad : {kNaN, kInfinity}) {
    Batch wrong = drawn(3, 5, 5);
    wrong.at(1, 3, 2) = bad;
    expect_only_second_is_missing(trial, "svd", {wrong}, {wrong, Batch(3, 5, 0), wrong});
    expect_only_second_is_missing(trial, "eigh", {wrong}, {Batch(3, 5, 0), wrong});
  }
}

}  // namespace perigee::linalg
