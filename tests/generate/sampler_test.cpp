// Filters against the logits processors of transformers, and draws against the probabilities that they are draws of.
#include "src/generate/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/generate/sampler_reference.h"

namespace perigee {
namespace {

using Row = std::vector<double>;

Row reference_row(int row) { return {std::begin(reference::kScores[row]), std::end(reference::kScores[row])}; }
std::vector<int64_t> previous_of(int row) { return {std::begin(reference::kPreviousUnits[row]), std::end(reference::kPreviousUnits[row])}; }

Row filtered(const SamplingOptions& options, int row) {
  Row scores = reference_row(row);
  Sampler(options).filter(scores, previous_of(row));
  return scores;
}

std::string kept(const Row& scores) {
  std::string text;
  for (double score : scores) text += std::isfinite(score) ? '1' : '0';
  return text;
}

TEST(Sampler, NumbersAreThoseOfTransformers) {
  for (int row = 0; row < reference::kRows; ++row) {
    const Row warm = filtered({.temperature = 0.7}, row), penalized = filtered({.repetition_penalty = 1.3}, row);
    for (int i = 0; i < reference::kUnits; ++i) {
      EXPECT_NEAR(warm[static_cast<size_t>(i)], reference::kTemperature07[row][i], 1e-12);
      EXPECT_NEAR(penalized[static_cast<size_t>(i)], reference::kRepetition13[row][i], 1e-12);
    }
  }
}

TEST(Sampler, KeepsWhatTransformersKeeps) {
  const struct {
    SamplingOptions options;
    const char* const (&expected)[3];
  } cases[] = {{{.top_k = 5}, reference::kTopK5},           {{.top_p = 0.8}, reference::kTopP08},
               {{.top_p = 0.1}, reference::kTopP01},        {{.min_p = 0.1}, reference::kMinP01},
               {{.typical_p = 0.5}, reference::kTypical05}, {{.no_repeat = 2}, reference::kNoRepeat2},
               {{.epsilon = 0.1}, reference::kEpsilon01},   {{.eta = 0.1}, reference::kEta01}};
  for (const auto& each : cases)
    for (int row = 0; row < reference::kRows; ++row) {
      const Row scores = filtered(each.options, row);
      EXPECT_EQ(kept(scores), each.expected[row]) << &each - cases << " " << row;
      for (int i = 0; i < reference::kUnits; ++i) {
        if (!std::isfinite(scores[static_cast<size_t>(i)])) continue;
        EXPECT_EQ(scores[static_cast<size_t>(i)], reference::kScores[row][i]);
      }
    }
}

// By hand: after 1 2 3 1 2 come neither 3 (no sequence of three twice) nor, with no_repeat = 1, anything that was there.
TEST(Sampler, ForbidsSequencesThatWereThere) {
  const std::vector<int64_t> previous = {1, 2, 3, 1, 2};
  Row scores(5, 0.0);
  Sampler({.no_repeat = 3}).filter(scores, previous);
  EXPECT_EQ(kept(scores), "11101");
  scores.assign(5, 0.0);
  Sampler({.no_repeat = 1}).filter(scores, previous);
  EXPECT_EQ(kept(scores), "10001");
  scores = {0, 3, 1, 2};
  Sampler({.no_repeat = 1}).filter(scores, std::vector<int64_t>{0, 1, 2, 3});
  EXPECT_EQ(kept(scores), "0100") << "one must stay";
}

// The filters apply in one order: top_p of what top_k left, of what the temperature made.
TEST(Sampler, FiltersFollowEachOther) {
  for (int row = 0; row < reference::kRows; ++row) {
    Row expected = reference_row(row);
    for (const SamplingOptions& one : {SamplingOptions{.repetition_penalty = 1.3}, SamplingOptions{.temperature = 2},
                                       SamplingOptions{.top_k = 6}, SamplingOptions{.top_p = 0.7}, SamplingOptions{.min_p = 0.3}})
      Sampler(one).filter(expected, previous_of(row));
    const SamplingOptions all{.repetition_penalty = 1.3, .temperature = 2, .top_k = 6, .top_p = 0.7, .min_p = 0.3};
    EXPECT_EQ(filtered(all, row), expected);
  }
}

TEST(Sampler, DrawsHaveTheirProbabilities) {
  Row scores = {1, -std::numeric_limits<double>::infinity(), 2, 0, -1};
  constexpr int kDraws = 40000;
  std::vector<int> counts(scores.size());
  Sampler sampler({.seed = 9});
  for (int i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(sampler.draw(scores, static_cast<uint64_t>(i)))];
  Row expected = scores;
  log_softmax(expected);
  double chi_squared = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    const double wanted = kDraws * std::exp(expected[i]);
    if (wanted > 0) chi_squared += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
  }
  EXPECT_EQ(counts[1], 0);
  EXPECT_LT(chi_squared, 16.27) << "three degrees of freedom: larger in one seed of a thousand";
}

TEST(Sampler, ADrawDependsOnSeedAndPositionAlone) {
  const Row scores(50, 0.0);
  Sampler one({.seed = 1}), same({.seed = 1}), other({.seed = 2});
  int differs = 0;
  for (uint64_t i = 100; i > 0; --i) same.draw(scores, i);
  for (uint64_t i = 0; i < 100; ++i) {
    const int64_t drawn = one.draw(scores, i);
    EXPECT_EQ(same.draw(scores, i), drawn);
    differs += other.draw(scores, i) != drawn;
  }
  EXPECT_GT(differs, 80);
  EXPECT_EQ(Sampler({.temperature = 0}).draw(Row{1, 3, 3, 2}, 5), 1) << "the first of the largest";
}

}  // namespace
}  // namespace perigee
