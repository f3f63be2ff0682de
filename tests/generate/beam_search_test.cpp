// Beam search against all texts of a small world, one by one.
#include "src/generate/beam_search.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/train/trainer.h"
#include "tests/generate/small_text.h"

namespace perigee {
namespace {

// Scores of the unit after two others, drawn once.
class Table final : public NextScores {
 public:
  Table(int64_t units, int64_t rows) : units_(units), rows_(static_cast<size_t>(rows)) {
    for (int64_t i = 0; i < units * units * units; ++i) numbers_.push_back(3 * std::sin(static_cast<double>(i * i % 97)));
  }
  void begin(std::span<const int64_t> prompt) override {
    for (auto& row : rows_) row.assign(prompt.begin(), prompt.end());
  }
  void advance(std::span<const int> parents, std::span<const int64_t> units) override {
    const auto before = rows_;
    for (size_t i = 0; i < rows_.size(); ++i) {
      rows_[i] = before[static_cast<size_t>(parents[i])];
      rows_[i].push_back(units[i]);
    }
  }
  void scores(int row, std::span<double> into) const override { after(rows_[static_cast<size_t>(row)], into); }
  void after(const std::vector<int64_t>& text, std::span<double> into) const {
    const int64_t at = (text[text.size() - 2] * units_ + text.back()) * units_;
    for (size_t i = 0; i < into.size(); ++i) into[i] = numbers_[static_cast<size_t>(at) + i];
  }

 private:
  int64_t units_;
  std::vector<double> numbers_;
  std::vector<std::vector<int64_t>> rows_;
};

// The largest sum of log probabilities over all texts of `left` more units.
double best_sum(const Table& table, std::vector<int64_t>& text, int64_t units, int64_t left) {
  if (left == 0) return 0;
  std::vector<double> row(static_cast<size_t>(units));
  table.after(text, row);
  row[0] = -1e300;  // the unknown
  log_softmax(row);
  double best = -1e300;
  for (int64_t unit = 1; unit < units; ++unit) {
    text.push_back(unit);
    best = std::max(best, row[static_cast<size_t>(unit)] + best_sum(table, text, units, left - 1));
    text.pop_back();
  }
  return best;
}

FoundText found(int64_t beams, Table* table, const TextModel& text, const std::vector<std::string>& stop = {}, double length_penalty = 1) {
  const GenerateOptions options{.tokens = 5, .beams = beams, .length_penalty = length_penalty, .stop = stop};
  const std::vector<int64_t> prompt = {1, 2};
  table->begin(prompt);
  BeamSearch search(text, *table, options, prompt);
  while (search.step()) {}
  return search.best();
}

TEST(BeamSearch, FindsTheLikeliestOfAllTexts) {
  SmallText small;
  const TextModel text(small.model(), small.job(), small.fitted());
  const int64_t units = text.vocabulary_size();
  ASSERT_GE(units, 4);
  Table wide(units, 256), narrow(units, 1), two(units, 2);
  std::vector<int64_t> prompt = {1, 2};
  const double best = best_sum(wide, prompt, units, 5) / 5;
  EXPECT_NEAR(found(256, &wide, text).score, best, 1e-12);
  const double greedy = found(1, &narrow, text).score, some = found(2, &two, text).score;
  EXPECT_LE(greedy, best + 1e-12);
  EXPECT_LE(some, best + 1e-12);
  EXPECT_GE(some, greedy - 1e-12);
}

// The score of the text that was found is that of its own units, one after the other.
TEST(BeamSearch, TellsTheScoreOfWhatItFound) {
  SmallText small;
  const TextModel text(small.model(), small.job(), small.fitted());
  Table table(text.vocabulary_size(), 4);
  const FoundText best = found(4, &table, text);
  ASSERT_EQ(best.units.size(), 5u);
  std::vector<int64_t> so_far = {1, 2};
  std::vector<double> row(static_cast<size_t>(text.vocabulary_size()));
  double sum = 0;
  for (int64_t unit : best.units) {
    table.after(so_far, row);
    row[0] = -1e300;
    log_softmax(row);
    sum += row[static_cast<size_t>(unit)];
    so_far.push_back(unit);
  }
  EXPECT_NEAR(best.score, sum / 5, 1e-12);
}

TEST(BeamSearch, EndsBeforeAStopText) {
  SmallText small;
  const TextModel text(small.model(), small.job(), small.fitted());
  Table table(text.vocabulary_size(), 4);
  const std::string all = found(4, &table, text).text, stop = all.substr(1, 1);
  const FoundText ended = found(4, &table, text, {stop});
  EXPECT_EQ(ended.text.find(stop), std::string::npos) << ended.text;
}

// Every text of two units has reached a stop text, and one unit alone, whose score is higher, is no answer.
TEST(BeamSearch, EndsWhereEveryBeamReachesAStopText) {
  SmallText small;
  const TextModel text(small.model(), small.job(), small.fitted());
  std::vector<std::string> pairs;
  for (int64_t first = 0; first < text.vocabulary_size(); ++first)
    for (int64_t second = 0; second < text.vocabulary_size(); ++second) pairs.push_back(text.piece(first, "") + text.piece(second, "x"));
  Table table(text.vocabulary_size(), 3);
  const FoundText ended = found(3, &table, text, pairs, 0);
  EXPECT_TRUE(ended.stopped);
  EXPECT_EQ(ended.text, "");
  EXPECT_EQ(ended.units.size(), 2u);
}

}  // namespace
}  // namespace perigee
