// masked_lm: what is hidden and what stands there, by the statistics of transformers' DataCollatorForLanguageModeling.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/core/error.h"
#include "src/data/source.h"
#include "src/io/file.h"
#include "src/io/npy.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

class MaskedLm : public testing::Test {
 protected:
  // 400 examples of 64 tokens, 10 .. 109.
  MaskedLm() {
    Tensor x(Dtype::i64, {400, 64});
    for (int64_t r = 0; r < 400; ++r)
      for (int64_t i = 0; i < 64; ++i) x.data<int64_t>()[r * 64 + i] = 10 + (r * 31 + i * 7) % 100;
    write_file(folder_ / "x.npy", npy_bytes(x));
  }

  SourcePtr open(const std::string& json) const {
    return open_source(Config(Json::parse(json, "test"), "test", ErrorKind::data), folder_.path());
  }
  SourcePtr masked(const std::string& options) const {
    return open(R"({"type":"masked_lm",)" + options + R"("source":{"type":"npy","x":"x.npy"}})");
  }
  std::string refusal(const std::string& json) const {
    try {
      open(json);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }

  TemporaryFolder folder_;
  CacheFolder cache_{folder_ / "cache"};
};

struct Counts {
  int64_t all = 0, chosen = 0, masked = 0, same = 0, other = 0, kept = 0, changed = 0;
};

Counts count(const DataSource& masked, const DataSource& plain, int64_t mask, uint64_t epoch = 0, uint64_t seed = 1) {
  Counts counts;
  std::vector<int64_t> was(64), x(64), y(64);
  for (int64_t i = 0; i < masked.size(); ++i) {
    std::byte* const from[] = {reinterpret_cast<std::byte*>(was.data())};
    std::byte* const to[] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(y.data())};
    plain.read({.index = i, .epoch = epoch, .seed = seed}, from);
    masked.read({.index = i, .epoch = epoch, .seed = seed}, to);
    for (size_t t = 0; t < 64; ++t) {
      ++counts.all;
      if (y[t] == -1) {
        counts.changed += x[t] != was[t];
        continue;
      }
      counts.changed += y[t] != was[t];
      ++counts.chosen;
      if (x[t] == mask) ++counts.masked;
      else if (x[t] == was[t]) ++counts.same;
      else ++counts.other;
      counts.kept += y[t] == 10;
    }
  }
  return counts;
}

// DataCollatorForLanguageModeling (transformers 5) with the same rows, 103 special tokens and all: of 25,600 tokens 15 % are chosen, 80 % of them
// show the mask, 10 % a token of the whole vocabulary. The borders are five standard deviations of the binomial distributions.
TEST_F(MaskedLm, HasBertsShares) {
  const SourcePtr plain = open(R"({"type":"npy","x":"x.npy"})"), source = masked(R"("vocabulary":110,"mask":103,"keep":[10],)");
  ASSERT_EQ(source->fields().size(), 2u);
  EXPECT_EQ(source->fields()[1].name, "y");
  const Counts counts = count(*source, *plain, 103);
  EXPECT_EQ(counts.changed, 0) << "a token that was not chosen changed, or a target is not what was there";
  EXPECT_EQ(counts.kept, 0);
  const double chosen = static_cast<double>(counts.chosen), free = .99 * static_cast<double>(counts.all);
  const auto near = [](double got, double of, double share) {
    return std::abs(got - of * share) <= 5 * std::sqrt(of * share * (1 - share));
  };
  EXPECT_TRUE(near(chosen, free, .15)) << chosen / free;
  // One of 110 random tokens is the mask, and one is what was there.
  EXPECT_TRUE(near(static_cast<double>(counts.masked), chosen, .8 + .1 / 110)) << static_cast<double>(counts.masked) / chosen;
  EXPECT_TRUE(near(static_cast<double>(counts.other), chosen, .1 * 108 / 110)) << static_cast<double>(counts.other) / chosen;
  EXPECT_TRUE(near(static_cast<double>(counts.same), chosen, .1 + .1 / 110)) << static_cast<double>(counts.same) / chosen;
}

TEST_F(MaskedLm, IsAFunctionOfSeedAndEpoch) {
  const SourcePtr fresh = masked(R"("vocabulary":110,)"), fixed = masked(R"("vocabulary":110,"fresh":false,)");
  const auto targets = [](const DataSource& source, uint64_t epoch, uint64_t seed) {
    std::vector<int64_t> x(64), y(64);
    std::byte* const to[] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(y.data())};
    source.read({.index = 5, .epoch = epoch, .seed = seed}, to);
    return y;
  };
  EXPECT_EQ(targets(*fresh, 3, 1), targets(*fresh, 3, 1));
  EXPECT_NE(targets(*fresh, 3, 1), targets(*fresh, 4, 1));
  EXPECT_NE(targets(*fresh, 3, 1), targets(*fresh, 3, 2));
  EXPECT_EQ(targets(*fixed, 3, 1), targets(*fixed, 4, 1));
  EXPECT_TRUE(fixed->traits().fixed && !fresh->traits().fixed);
}

TEST_F(MaskedLm, TakesTheVocabularyOfATextAndLeavesPaddingAlone) {
  write_file(folder_ / "d.csv", as_bytes("text,label\none two three,a\nfour,b\n"));
  const SourcePtr masked =
      open(R"({"type":"masked_lm","share":1,"masked":1,"random":0,"source":{"type":"documents","file":"d.csv","length":5}})");
  const auto& fields = masked->fields();
  ASSERT_EQ(fields.size(), 3u);
  std::vector<int64_t> x(5), y(5);
  int64_t n = 0;
  std::byte* const to[] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(&n),
                           reinterpret_cast<std::byte*>(y.data())};
  masked->read({.index = 0}, to);
  // <unknown> and four words: the mask is the number after them.
  EXPECT_EQ(x, (std::vector<int64_t>{5, 5, 5, 0, 0}));
  EXPECT_EQ(n, 3);
  EXPECT_EQ((std::vector<int64_t>{y[3], y[4]}), (std::vector<int64_t>{-1, -1}));
  EXPECT_EQ(std::count(y.begin(), y.end(), -1), 2);
  EXPECT_FALSE(masked->traits().fitted.is_null());
}

TEST_F(MaskedLm, SaysWhatItCannotTake) {
  const std::string numbers = R"(,"source":{"type":"arrays","x":[[0.5,1]]}})", tokens = R"(,"source":{"type":"npy","x":"x.npy"}})";
  const auto has = [](const std::string& text, const char* part) { EXPECT_NE(text.find(part), std::string::npos) << text; };
  has(refusal(R"({"type":"masked_lm","vocabulary":9)" + numbers), "has no tokens");
  has(refusal(R"({"type":"masked_lm")" + tokens), "how many tokens there are, since the source inside is no text that says it");
  has(refusal(R"({"type":"masked_lm","vocabulary":9,"masked":0.8,"random":0.3)" + tokens), "and 'masked' are more than the whole");
  has(refusal(R"({"type":"masked_lm","vocabulary":9,"target":"x")" + tokens), "is the field itself");
}

}  // namespace
}  // namespace perigee
