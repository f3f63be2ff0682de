// Indexes against looking at every row.
#include "src/vectors/rows/neighbour_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "src/core/error.h"

namespace perigee {
namespace {

// Rows around centres, as vectors of words are: neither one cloud nor apart.
VectorRows clouds(int64_t count, int64_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  VectorRows centres(40, size), rows(count, size);
  for (int64_t i = 0; i < centres.rows * size; ++i) centres.row(i / size)[i % size] = draw(random);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t k = 0; k < size; ++k) rows.row(i)[k] = centres.row(i % 40)[k] + 0.7f * draw(random);
  return rows;
}

std::vector<NearRow> all_of(const VectorRows& rows, const float* query, bool cosine) {
  std::vector<NearRow> found;
  for (int64_t i = 0; i < rows.rows; ++i) {
    double square = 0, product = 0, a = 0, b = 0;
    for (int64_t k = 0; k < rows.size; ++k) {
      const double x = rows.row(i)[k], y = query[k];
      square += (x - y) * (x - y), product += x * y, a += x * x, b += y * y;
    }
    found.push_back({i, static_cast<float>(cosine ? 1 - product / std::sqrt(a * b) : std::sqrt(square))});
  }
  std::sort(found.begin(), found.end(), [](const NearRow& x, const NearRow& y) { return x.distance < y.distance; });
  return found;
}

// The share of the ten nearest that the index finds, over 200 queries.
double recall(const NeighbourIndex& index, const VectorRows& rows, bool cosine, int64_t effort) {
  const VectorRows queries = clouds(200, rows.size, 9);
  double hits = 0;
  for (int64_t q = 0; q < queries.rows; ++q) {
    const std::vector<NearRow> right = all_of(rows, queries.row(q), cosine),
                               found = index.nearest({queries.row(q), static_cast<size_t>(rows.size)}, 10, effort);
    EXPECT_EQ(found.size(), 10u);
    for (size_t i = 0; i < found.size(); ++i) {
      hits += found[i].distance <= right[9].distance + 1e-5f;
      EXPECT_TRUE(i == 0 || found[i - 1].distance <= found[i].distance);
    }
  }
  return hits / static_cast<double>(10 * queries.rows);
}

TEST(NeighbourIndex, ATreeFindsTheNearestOnes) {
  for (const bool cosine : {true, false})
    for (const int64_t count : {11, 16, 17, 1000, 3000}) {
      const VectorRows rows = clouds(count, 12, 1);
      const auto index = neighbour_index(rows, {.exact = true, .cosine = cosine});
      EXPECT_EQ(index->size(), count);
      EXPECT_EQ(recall(*index, rows, cosine, 1), 1.0) << count;
      const auto found = index->nearest({rows.row(7), 12}, 3);
      EXPECT_EQ(found[0].row, 7);
      EXPECT_NEAR(found[0].distance, 0, 1e-6);
    }
}

TEST(NeighbourIndex, AGraphFindsNearlyAllOfThem) {
  for (const bool cosine : {true, false}) {
    const VectorRows rows = clouds(3000, 24, 2);
    const auto index = neighbour_index(rows, {.exact = false, .cosine = cosine});
    const double little = recall(*index, rows, cosine, 10), much = recall(*index, rows, cosine, 200);
    EXPECT_GE(much, 0.99);
    EXPECT_GT(much, little);
  }
}

TEST(NeighbourIndex, EqualRowsComeByTheirNumbers) {
  VectorRows rows(50, 3);
  for (int64_t i = 0; i < 50; ++i) rows.row(i)[0] = static_cast<float>(i / 10 + 1);
  for (const bool exact : {true, false}) {
    const auto index = neighbour_index(rows, {.exact = exact, .cosine = false});
    const float query[] = {3, 0, 0};
    const auto found = index->nearest(query, 60, 100);
    ASSERT_EQ(found.size(), 50u);
    for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(found[static_cast<size_t>(i)].row, 20 + i);
  }
}

TEST(NeighbourIndex, OptionsAreCheckedAndTheSeedShapesIt) {
  const auto refusal = [](const char* given) -> std::string {
    try {
      index_options(Json::parse(given, "options"), "neighbours");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal(R"({"link": 3})").find("did you mean 'links'"), std::string::npos);
  EXPECT_NE(refusal(R"({"links": 1})").find("links"), std::string::npos);
  EXPECT_NE(refusal(R"({"metric": "l1"})").find("metric"), std::string::npos);
  try {
    neighbour_index(VectorRows(), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "neighbours: there are no rows to find");
  }
  std::atomic<bool> stop{true};
  EXPECT_EQ(neighbour_index(clouds(100, 4, 1), {.exact = true}, &stop), nullptr);
  EXPECT_EQ(neighbour_index(clouds(100, 4, 1), {.exact = false}, &stop), nullptr);
}

}  // namespace
}  // namespace perigee
