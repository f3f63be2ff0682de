// t-SNE and k-means on points whose groups are known.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "src/core/error.h"
#include "src/vectors/rows/kmeans.h"
#include "src/vectors/rows/tsne.h"

namespace perigee {
namespace {

// Five groups of 60 points in 20 dimensions.
VectorRows blobs(float spread) {
  std::mt19937 random(1);
  std::normal_distribution<float> draw;
  VectorRows centres(5, 20), rows(300, 20);
  for (int64_t i = 0; i < 100; ++i) centres.row(i / 20)[i % 20] = draw(random) * 3;
  for (int64_t i = 0; i < 300; ++i)
    for (int64_t k = 0; k < 20; ++k) rows.row(i)[k] = centres.row(i % 5)[k] + draw(random) * spread;
  return rows;
}

double square(const VectorRows& rows, int64_t a, const VectorRows& others, int64_t b) {
  double sum = 0;
  for (int64_t k = 0; k < rows.size; ++k) sum += std::pow(static_cast<double>(rows.row(a)[k]) - others.row(b)[k], 2);
  return sum;
}

TEST(Tsne, GroupsStayTogetherAndThreadsDoNotMatter) {
  const VectorRows rows = blobs(1);
  TsneOptions options = tsne_options(Json::object(), "test");
  options.steps = 400, options.exaggerated = 100, options.perplexity = 15;
  options.threads = 1;
  const TsneResult one = tsne(rows, options);
  options.threads = 3;
  const TsneResult three = tsne(rows, options);
  double right = 0;
  for (int64_t i = 0; i < 300; ++i) {
    EXPECT_EQ(one.places.row(i)[0], three.places.row(i)[0]);
    int64_t best = i == 0 ? 1 : 0;
    for (int64_t k = 0; k < 300; ++k)
      if (k != i && square(one.places, i, one.places, k) < square(one.places, i, one.places, best)) best = k;
    right += best % 5 == i % 5;
  }
  EXPECT_EQ(right, 300);
  EXPECT_EQ(one.divergence, three.divergence);
  // The bounds leave room around what such groups come to; tests/bench/tsne.py compares with scikit-learn.
  EXPECT_GT(one.divergence, 0.2);
  EXPECT_LT(one.divergence, 1.2);
}

// Far cells as one point give nearly what all points give.
TEST(Tsne, CellsAreNearlyTheirPoints) {
  const VectorRows rows = blobs(1);
  TsneOptions options = tsne_options(Json::parse(R"({"steps": 300, "perplexity": 20, "threads": 1})", "t"), "test");
  const double cells = tsne(rows, options).divergence;
  options.theta = 0;
  EXPECT_NEAR(cells, tsne(rows, options).divergence, 0.03 * cells);
}

TEST(Tsne, EqualRowsAndTooFew) {
  VectorRows rows(50, 3);
  const TsneResult result = tsne(rows, tsne_options(Json::parse(R"({"steps": 100, "perplexity": 5})", "t"), "test"));
  for (int64_t i = 0; i < 50; ++i) EXPECT_TRUE(std::isfinite(result.places.row(i)[0]));
  try {
    tsne(rows, tsne_options(Json::object(), "test"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "tsne: there are too few rows for the perplexity; got 50, expected at least 91; lower the perplexity");
  }
}

TEST(KMeans, FindsTheGroups) {
  const VectorRows rows = blobs(0.5f);
  const KMeansResult one = kmeans(rows, 5, 3, 300, 1, 1), three = kmeans(rows, 5, 3, 300, 3, 1);
  EXPECT_EQ(one.groups, three.groups);
  EXPECT_EQ(one.inertia, three.inertia);
  double inertia = 0;
  for (int64_t i = 0; i < 300; ++i) {
    EXPECT_EQ(one.groups[static_cast<size_t>(i)], one.groups[static_cast<size_t>(i % 5)]);
    inertia += square(rows, i, one.centres, one.groups[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(std::set<int32_t>(one.groups.begin(), one.groups.end()).size(), 5u);
  EXPECT_NEAR(one.inertia, inertia, 1e-3 * inertia);
  EXPECT_NEAR(inertia, 295 * 20 * 0.25, 0.05 * 295 * 20 * 0.25);  // degrees of freedom times the variance
  EXPECT_NEAR(kmeans(rows, 300, 1, 10, 2, 1).inertia, 0, 1e-6);   // each row its own group
}

TEST(KMeans, EqualRowsAndTooManyGroups) {
  const VectorRows rows(4, 2);
  EXPECT_EQ(kmeans(rows, 3, 2, 10, 1, 1).inertia, 0);
  try {
    kmeans(rows, 5, 1, 10, 1, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "kmeans: there cannot be so many groups; got 5, expected 1 to 4, the number of rows");
  }
}

}  // namespace
}  // namespace perigee
