// Means and variances of replicas as an exchange adds them up, against double.
#include "cluster/replica/moment_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace perigee {
namespace {

template <class T>
constexpr Dtype kDtype = std::is_same_v<T, float> ? Dtype::f32 : Dtype::f64;

template <class T>
struct Moments {
  std::vector<T> mean, variance;
};

// Adds the rows as exchanges do, in the rows' type.
template <class T>
Moments<T> averaged(const std::vector<Moments<T>>& replicas, const std::vector<double>& weights) {
  const auto channels = static_cast<int64_t>(replicas[0].mean.size());
  std::vector<T> sum(static_cast<size_t>(moment_sums(kDtype<T>, channels)), T(0)), row = sum;
  double all = 0;
  for (size_t r = 0; r < replicas.size(); ++r) {
    EXPECT_TRUE(put_moments(kDtype<T>, replicas[r].mean.data(), replicas[r].variance.data(), weights[r], channels, row.data()));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += row[i];
    all += weights[r];
  }
  Moments<T> result = replicas[0];
  take_moments(kDtype<T>, sum.data(), all, channels, result.mean.data(), result.variance.data());
  return result;
}

template <class T>
class MomentSums : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(MomentSums, Types);

TYPED_TEST(MomentSums, AreRightWhereTheMeanIsAThousandDeviations) {
  std::vector<Moments<TypeParam>> replicas;
  std::vector<double> weights;
  for (int r = 0; r < 7; ++r) {
    Moments<TypeParam> one;
    for (const double size : {1.0, 1000.0, -1000.0, 3e5}) {
      const double deviation = size == 3e5 ? 300 : 1;
      one.mean.push_back(static_cast<TypeParam>(size + deviation * 0.1 * std::sin(r + size)));
      one.variance.push_back(static_cast<TypeParam>(deviation * deviation * (1 + 0.2 * std::cos(r))));
    }
    replicas.push_back(one);
    weights.push_back(r == 0 ? 1 : 37.0 * r);
  }
  const Moments<TypeParam> got = averaged(replicas, weights);
  for (size_t c = 0; c < got.mean.size(); ++c) {
    double all = 0, mean = 0, variance = 0;
    for (size_t r = 0; r < replicas.size(); ++r) all += weights[r];
    for (size_t r = 0; r < replicas.size(); ++r) mean += weights[r] / all * static_cast<double>(replicas[r].mean[c]);
    for (size_t r = 0; r < replicas.size(); ++r)
      variance +=
          weights[r] / all * (static_cast<double>(replicas[r].variance[c]) + std::pow(static_cast<double>(replicas[r].mean[c]) - mean, 2));
    EXPECT_NEAR(static_cast<double>(got.mean[c]) / mean, 1, 1e-7) << c;
    EXPECT_NEAR(static_cast<double>(got.variance[c]) / variance, 1, 1e-6) << c;
  }
}

TYPED_TEST(MomentSums, OfEqualReplicasAreTheirs) {
  const Moments<TypeParam> one = {{TypeParam(0.1), TypeParam(-1000.3), TypeParam(0)}, {TypeParam(0.7), TypeParam(1.9), TypeParam(0)}};
  const Moments<TypeParam> got = averaged<TypeParam>({one, one, one, one}, {32, 32, 32, 32});
  EXPECT_EQ(got.mean, one.mean);
  for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(static_cast<double>(got.variance[c]), static_cast<double>(one.variance[c]), 1e-9);
}

TYPED_TEST(MomentSums, NamesWhatIsNotFinite) {
  std::vector<TypeParam> row(static_cast<size_t>(moment_sums(kDtype<TypeParam>, 1)));
  const TypeParam one = 1, none = std::numeric_limits<TypeParam>::quiet_NaN(), most = std::numeric_limits<TypeParam>::max();
  EXPECT_TRUE(put_moments(kDtype<TypeParam>, &one, &one, 5, 1, row.data()));
  EXPECT_FALSE(put_moments(kDtype<TypeParam>, &none, &one, 5, 1, row.data()));
  EXPECT_FALSE(put_moments(kDtype<TypeParam>, &one, &none, 5, 1, row.data()));
  EXPECT_FALSE(put_moments(kDtype<TypeParam>, &most, &one, 5, 1, row.data()));
}

}  // namespace
}  // namespace perigee
