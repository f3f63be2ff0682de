// Sources that choose and mix examples for training: balanced, mixup, cutmix.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "src/data/mixed_source.h"
#include "tests/data/fixtures.h"

namespace perigee {
namespace {

struct MixedExample {
  std::vector<float> x;
  std::vector<float> target;  // a distribution
  int64_t label = -1;         // or this
};

MixedExample read_mixed(const DataSource& source, int64_t index, uint64_t epoch = 0, uint64_t seed = 7) {
  MixedExample example;
  example.x.resize(static_cast<size_t>(source.fields()[0].shape.elements()));
  example.target.resize(static_cast<size_t>(source.fields()[1].shape.elements()));
  const bool label = source.fields()[1].dtype == Dtype::i64;
  std::byte* slots[] = {reinterpret_cast<std::byte*>(example.x.data()),
                        label ? reinterpret_cast<std::byte*>(&example.label) : reinterpret_cast<std::byte*>(example.target.data())};
  source.read({.index = index, .epoch = epoch, .seed = seed}, slots);
  return example;
}

TEST(Balanced, ClassesComeEquallyOftenAndNoneOfTheirExamplesIsLeftOut) {
  const SourcePtr source = open_parsed(R"({"type":"balanced","size":99,"source":)" + unequal_classes() + "}");
  ASSERT_EQ(source->size(), 99);
  std::map<int64_t, int> seen;
  std::vector<float> first, again, other;
  for (const uint64_t epoch : {0, 1, 0}) {
    std::vector<int> classes(3);
    std::vector<float>& order = epoch == 1 ? other : first.empty() ? first : again;
    for (int64_t i = 0; i < 99; ++i) {
      const MixedExample example = read_mixed(*source, i, epoch);
      EXPECT_EQ(example.label, class_of(static_cast<int64_t>(example.x[0])));
      ++classes[static_cast<size_t>(example.label)];
      if (&order != &again) ++seen[static_cast<int64_t>(example.x[0])];
      order.push_back(example.x[0]);
    }
    EXPECT_EQ(classes, (std::vector<int>{33, 33, 33}));
  }
  EXPECT_EQ(first, again) << "a function of seed, epoch and number";
  EXPECT_NE(first, other);
  EXPECT_EQ(seen.size(), 103u) << "66 draws of 60: all of them, none three times";
  for (const auto& [k, times] : seen) EXPECT_LE(times, k < 60 ? 2 : k < 90 ? 3 : 6) << k;
}

TEST(Balanced, AClassComesInAnotherOrderInEachRoundAndWithEachSeed) {
  const SourcePtr source = open_parsed(R"({"type":"balanced","source":)" + unequal_classes() + "}");
  const auto round = [&](int64_t number, uint64_t seed) {  // of the 13 examples of class 2
    std::vector<float> order;
    for (int64_t i = 13 * number; i < 13 * (number + 1); ++i) order.push_back(read_mixed(*source, 3 * i + 2, 0, seed).x[0]);
    EXPECT_EQ(std::set<float>(order.begin(), order.end()).size(), 13u);
    return order;
  };
  EXPECT_EQ(round(0, 7), round(0, 7));
  EXPECT_NE(round(0, 7), round(1, 7));
  EXPECT_NE(round(0, 7), round(0, 8));
  EXPECT_FALSE(source->traits().fixed) << "a copy of the first epoch is not the next one";
}

// 100 images of 2 planes of 8 x 6: image n has the value n everywhere, and the class n mod `classes`.
std::string digit_images(int classes = 4) {
  std::string x, y;
  for (int n = 0; n < 100; ++n) {
    std::string row, plane;
    for (int i = 0; i < 6; ++i) row += (i ? "," : "") + std::to_string(n);
    for (int i = 0; i < 8; ++i) plane += (i ? ",[" : "[") + row + "]";
    x += std::string(n ? "," : "") + "[[" + plane + "],[" + plane + "]]";
    y += (n ? "," : "") + std::to_string(n % classes);
  }
  return R"({"type":"arrays","x":[)" + x + R"(],"y":[)" + y + R"(],"classes":)" + std::to_string(classes) + "}";
}

// Zhang et al., equation 1: the same share of image and target. With a share for each example, as their section 2 has it.
TEST(Mixup, MixesImageAndTargetByTheSameShare) {
  const SourcePtr source = open_parsed(R"({"type":"mixup","alpha":1,"source":)" + digit_images() + "}");
  EXPECT_EQ(source->fields()[1].shape, Shape{4});
  std::set<int64_t> partners;
  double sum = 0;
  for (int64_t n = 0; n < 100; ++n) {
    const MixedExample example = read_mixed(*source, n);
    for (const float value : example.x) ASSERT_EQ(value, example.x[0]);
    float total = 0;
    for (const float part : example.target) {
      EXPECT_GE(part, 0);
      total += part;
    }
    EXPECT_NEAR(total, 1, 1e-6);
    const auto others = std::ranges::count_if(example.target, [](float part) { return part > 0; });
    ASSERT_LE(others, 2);
    if (others < 2) continue;  // a partner of the same class: the share does not show
    const double share = static_cast<double>(example.target[static_cast<size_t>(n % 4)]);
    const double partner = (static_cast<double>(example.x[0]) - share * static_cast<double>(n)) / (1 - share);
    sum += share;
    if (share > 0.95) continue;
    EXPECT_NEAR(partner, std::round(partner), 0.05);
    const auto number = static_cast<int64_t>(std::round(partner));
    EXPECT_GT(example.target[static_cast<size_t>(number % 4)], 0);
    EXPECT_TRUE(partners.insert(number).second) << "each is a partner once";
  }
  EXPECT_GT(partners.size(), 50u);
  EXPECT_NEAR(sum / 75, 0.5, 0.15);
}

// Yun et al., equation 1: a box of the partner's pixels, and the share of the target that is left by its area.
TEST(CutMix, PutsABoxOfAnotherImageIn) {
  const SourcePtr source = open_parsed(R"({"type":"cutmix","source":)" + digit_images() + "}");
  int mixed = 0;
  for (int64_t n = 0; n < 100; ++n) {
    const MixedExample example = read_mixed(*source, n);
    int top = 8, bottom = -1, left = 6, right = -1, count = 0;
    float other = -1;
    for (int y = 0; y < 8; ++y)
      for (int x = 0; x < 6; ++x) {
        const float value = example.x[static_cast<size_t>(6 * y + x)];
        EXPECT_EQ(value, example.x[static_cast<size_t>(48 + 6 * y + x)]) << "the same box in every plane";
        if (value == static_cast<float>(n)) continue;
        EXPECT_TRUE(other < 0 || value == other) << "of one image";
        other = value;
        ++count;
        top = std::min(top, y), bottom = std::max(bottom, y), left = std::min(left, x), right = std::max(right, x);
      }
    if (count == 0) {
      EXPECT_NEAR(example.target[static_cast<size_t>(n % 4)], 1, 1e-6);
      continue;
    }
    ++mixed;
    EXPECT_EQ(count, (bottom - top + 1) * (right - left + 1)) << "a box";
    const double cut = count / 48.0;
    const auto partner = static_cast<int64_t>(other);
    if (partner % 4 != n % 4) {
      EXPECT_NEAR(example.target[static_cast<size_t>(partner % 4)], cut, 1e-6);
      EXPECT_NEAR(example.target[static_cast<size_t>(n % 4)], 1 - cut, 1e-6);
    }
  }
  EXPECT_GT(mixed, 60);
}

TEST(Mixup, IsAFunctionOfSeedEpochAndNumber) {
  for (const char* type : {"mixup", "cutmix"}) {
    const std::string alpha = R"(","alpha":1,"source":)";
    const SourcePtr source = open_parsed(std::string(R"({"type":")") + type + alpha + digit_images() + "}");
    EXPECT_FALSE(source->traits().fixed) << "a copy of the first epoch is not the next one";
    int same_epoch = 0, same_seed = 0;
    for (int64_t n = 0; n < 100; ++n) {
      const MixedExample one = read_mixed(*source, n);
      EXPECT_EQ(one.x, read_mixed(*source, n).x);
      EXPECT_EQ(one.target, read_mixed(*source, n).target);
      same_epoch += one.x == read_mixed(*source, n, 1).x;
      same_seed += one.x == read_mixed(*source, n, 0, 8).x;
    }
    EXPECT_LT(same_epoch, 25) << type;
    EXPECT_LT(same_seed, 25) << type;
  }
}

// An image with itself is that image: all that is read of it has the epoch and the seed that were asked for.
TEST(Mixup, SourcesInsideAreReadByTheSameEpochAndSeed) {
  const std::string inside =
      R"({"type":"map","transforms":[{"type":"shift","pixels":3}],"source":{"type":"take","from":1,"count":1,"source":)" + digit_images() +
      "}}";
  const SourcePtr plain = open_parsed(inside);
  for (const char* type : {"balanced", "mixup", "cutmix"}) {
    const SourcePtr source = open_parsed(std::string(R"({"type":")") + type + R"(","source":)" + inside + "}");
    std::set<std::vector<float>> seen;
    for (uint64_t epoch = 0; epoch < 5; ++epoch)
      for (uint64_t seed = 0; seed < 5; ++seed) {
        const MixedExample expected = read_mixed(*plain, 0, epoch, seed), got = read_mixed(*source, 0, epoch, seed);
        for (size_t i = 0; i < expected.x.size(); ++i) ASSERT_NEAR(got.x[i], expected.x[i], 1e-6) << type;
        seen.insert(expected.x);
      }
    EXPECT_GT(seen.size(), 5u);
  }
}

// The label of each image is its own: the target shows the partner.
TEST(Mixup, PartnersAreOthersInEachEpochAndOfEachKind) {
  const auto partners = [](const std::string& type, uint64_t epoch) {
    const SourcePtr source = open_parsed(R"({"type":")" + type + R"(","alpha":1,"source":)" + digit_images(100) + "}");
    std::vector<int64_t> all;
    for (int64_t n = 0; n < 100; ++n) {
      const MixedExample example = read_mixed(*source, n, epoch);
      all.push_back(n);
      for (int64_t k = 0; k < 100; ++k)
        if (k != n && example.target[static_cast<size_t>(k)] > 0) all.back() = k;
    }
    return all;
  };
  const auto shared = [](const std::vector<int64_t>& one, const std::vector<int64_t>& other) {
    int count = 0;
    for (size_t n = 0; n < one.size(); ++n) count += one[n] != static_cast<int64_t>(n) && one[n] == other[n];
    return count;
  };
  const std::vector<int64_t> mixed = partners("mixup", 0), cut = partners("cutmix", 0);
  EXPECT_GT(shared(mixed, mixed), 90);
  EXPECT_LT(shared(mixed, partners("mixup", 1)), 10);
  EXPECT_GT(shared(cut, cut), 60);
  EXPECT_LT(shared(cut, mixed), 10) << "one around the other has partners of its own";
}

TEST(Mixup, LeavesSomeAsTheyAre) {
  const SourcePtr source = open_parsed(R"({"type":"mixup","alpha":1,"probability":0.3,"source":)" + digit_images() + "}");
  int mixed = 0;
  for (uint64_t epoch = 0; epoch < 10; ++epoch)
    for (int64_t n = 0; n < 100; ++n) mixed += read_mixed(*source, n, epoch).x[0] != static_cast<float>(n);
  EXPECT_NEAR(mixed, 300, 50);  // one of a hundred partners is the example itself
}

TEST(Mixup, MixesNumbersOfARegressionToo) {
  const SourcePtr source =
      open_parsed(R"({"type":"mixup","alpha":2,"source":{"type":"arrays","x":[[0],[1],[2],[3]],"y":[[0],[10],[20],[30]]}})");
  for (int64_t n = 0; n < 4; ++n) {
    const MixedExample example = read_mixed(*source, n);
    EXPECT_NEAR(example.target[0], 10 * example.x[0], 1e-4);
  }
}

// E[x^k] of Beta(a, a) is the product of (a + r) / (2a + r), r below k.
TEST(Mixup, SharesAreOfTheBetaDistribution) {
  for (const double alpha : {0.1, 0.2, 1.0, 2.0, 8.0}) {
    constexpr int kDraws = 40000;
    double moments[5] = {};
    for (int i = 0; i < kDraws; ++i) {
      Draw draw({.index = i, .epoch = 0, .seed = 3}, 5);
      const double x = symmetric_beta(alpha, draw);
      ASSERT_GE(x, 0);
      ASSERT_LE(x, 1);
      for (int k = 1; k < 5; ++k) moments[k] += std::pow(x, k) / kDraws;
    }
    double expected = 1;
    for (int k = 1; k < 5; ++k) {
      expected *= (alpha + k - 1) / (2 * alpha + k - 1);
      EXPECT_NEAR(moments[k], expected, 0.01) << alpha << ", moment " << k;
    }
  }
}

std::string failure_of(const std::string& text) {
  try {
    open_parsed(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Mixup, RefusesWhatCannotBeMixed) {
  const std::string numbers = R"("source":{"type":"arrays","x":[[0],[1]],"y":[0,1]}})";
  EXPECT_NE(failure_of(R"({"type":"cutmix",)" + numbers).find("is no image"), std::string::npos);
  EXPECT_NE(failure_of(R"({"type":"mixup","field":"y",)" + numbers).find("cannot be mixed"), std::string::npos);
  EXPECT_NE(failure_of(R"({"type":"mixup","alpha":0,)" + numbers).find("out of range"), std::string::npos);
  EXPECT_NE(failure_of(R"({"type":"balanced","field":"x",)" + numbers).find("is no label"), std::string::npos);
}

}  // namespace
}  // namespace perigee
