#include "src/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "src/data/fingerprint.h"
#include "tests/core/refusal.h"

namespace perigee {
namespace {

// x is the index, y says what the draws of the example would depend on.
class Numbers : public DataSource {
 public:
  explicit Numbers(int64_t size, int64_t bad = -1) : size_(size), bad_(bad) {
    fields_ = {{.name = "x", .dtype = Dtype::i64, .shape = {}}, {.name = "y", .dtype = Dtype::f32, .shape = {3}}};
  }
  int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    if (key.index == bad_) throw Error(ErrorKind::data, {.where = "numbers", .what = "record " + std::to_string(bad_)});
    *reinterpret_cast<int64_t*>(slots[0]) = key.index;
    for (int i = 0; i < 3; ++i) reinterpret_cast<float*>(slots[1])[i] = static_cast<float>(key.epoch + key.seed);
  }
  SourceTraits traits() const override { return {.description = "numbers"}; }

 private:
  int64_t size_, bad_;
  std::vector<Field> fields_;
};

TEST(ShuffledIndex, IsAPermutationOfEverySize) {
  for (int64_t size : {1, 2, 3, 5, 15, 16, 17, 100, 255, 256, 257, 60000}) {
    std::vector<bool> seen(size);
    for (int64_t p = 0; p < size; ++p) {
      const int64_t index = shuffled_index(7, 3, p, size);
      ASSERT_TRUE(index >= 0 && index < size && !seen[index]) << size;
      seen[index] = true;
    }
  }
}

TEST(ShuffledIndex, DependsOnSeedAndEpochAndMixesWell) {
  constexpr int64_t size = 1000;
  int same_seed = 0, same_epoch = 0, near = 0;
  for (int64_t p = 0; p < size; ++p) {
    const int64_t index = shuffled_index(1, 0, p, size);
    same_seed += index == shuffled_index(2, 0, p, size);
    same_epoch += index == shuffled_index(1, 1, p, size);
    near += std::abs(index - p) < 10;
  }
  EXPECT_LT(same_seed, 10);
  EXPECT_LT(same_epoch, 10);
  EXPECT_LT(near, 50);
  // Each of 6 indices comes first about equally often over the epochs (chi-square, 5 degrees of freedom, p = 0.001 at 20.5).
  std::map<int64_t, int> first;
  for (uint64_t epoch = 0; epoch < 6000; ++epoch) ++first[shuffled_index(1, epoch, 0, 6)];
  double chi2 = 0;
  for (int i = 0; i < 6; ++i) chi2 += (first[i] - 1000.0) * (first[i] - 1000.0) / 1000.0;
  EXPECT_LT(chi2, 20.5);
}

struct Seen {
  uint64_t epoch;
  int64_t position;
  std::vector<int64_t> ids;
  bool operator==(const Seen&) const = default;
};

Seen take(Loader& loader) {
  const Batch& batch = loader.next();
  Seen seen{batch.epoch, batch.position, {batch.ids.begin(), batch.ids.begin() + batch.size}};
  for (int64_t i = 0; i < batch.size; ++i) {
    EXPECT_EQ(batch.fields[0].data<int64_t>()[i], seen.ids[i]);
    EXPECT_EQ(batch.fields[1].data<float>()[3 * i + 2], static_cast<float>(batch.epoch + 5));
  }
  return seen;
}

TEST(Loader, CoversEachEpochOnceWithTheLastBatchPartial) {
  for (int threads : {0, 1, 3}) {
    Loader loader(std::make_shared<Numbers>(103), {.batch = 10, .seed = 5, .threads = threads});
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::set<int64_t> ids;
      for (int b = 0; b < 11; ++b) {
        const Seen seen = take(loader);
        EXPECT_EQ(seen.epoch, epoch);
        EXPECT_EQ(seen.position, b * 10);
        EXPECT_EQ(seen.ids.size(), b == 10 ? 3u : 10u);
        ids.insert(seen.ids.begin(), seen.ids.end());
      }
      EXPECT_EQ(ids.size(), 103u);
    }
  }
}

TEST(Loader, ThreadsDoNotChangeTheOrder) {
  Loader alone(std::make_shared<Numbers>(1000), {.batch = 7, .seed = 5, .threads = 0});
  Loader many(std::make_shared<Numbers>(1000), {.batch = 7, .seed = 5, .threads = 4, .prefetch = 3});
  for (int i = 0; i < 400; ++i) ASSERT_EQ(take(alone), take(many)) << i;
}

TEST(Loader, SeekContinuesAsIfNeverStopped) {
  for (int threads : {0, 2}) {
    Loader loader(std::make_shared<Numbers>(50), {.batch = 8, .seed = 5, .threads = threads});
    std::vector<Seen> all;
    for (int i = 0; i < 30; ++i) all.push_back(take(loader));
    for (int from : {3, 0, 29, 6, 7, 13, 20}) {
      loader.seek(all[from].epoch, all[from].position);
      for (int i = from; i < 30; ++i) ASSERT_EQ(take(loader), all[i]) << threads << " " << from << " " << i;
    }
  }
}

// Batches that were being read when the loader was sent elsewhere must not turn up there.
TEST(Loader, SeekForgetsWhatIsBeingRead) {
  class Slow : public Numbers {
   public:
    Slow() : Numbers(1000) {}
    void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      Numbers::read(key, slots);
    }
  };
  Loader loader(std::make_shared<Slow>(), {.batch = 2, .seed = 5, .shuffle = false, .threads = 1, .prefetch = 1});
  for (int i = 0; i < 9; ++i) {
    loader.seek(0, 100 * i);
    take(loader);  // now the second batch from there is being read; the second one from the next place must not be it
    loader.seek(0, 100 * i + 50);
    for (int k = 0; k < 3; ++k) ASSERT_EQ(take(loader).position, 100 * i + 50 + 2 * k);
  }
}

TEST(Loader, SeeksFarInNoTime) {
  Loader loader(std::make_shared<Numbers>(int64_t{1} << 40), {.batch = 4, .seed = 5, .threads = 1});
  loader.seek(123456, (int64_t{1} << 40) - 2);
  const Seen last = take(loader);
  EXPECT_EQ(last.ids.size(), 2u);
  EXPECT_EQ(last.epoch, 123456u);
  EXPECT_EQ(take(loader).epoch, 123457u);
}

TEST(Loader, RethrowsWhatAReadingThreadMet) {
  for (int threads : {0, 2}) {
    Loader loader(std::make_shared<Numbers>(40, 25), {.batch = 10, .seed = 5, .shuffle = false, .threads = threads});
    take(loader);
    take(loader);
    EXPECT_THROW(loader.next(), Error) << threads;
    EXPECT_EQ(take(loader).position, 30) << "goes on behind the damaged batch";
  }
}

TEST(Loader, StopsCleanlyWhileReadingAhead) {
  for (int i = 0; i < 50; ++i) {
    Loader loader(std::make_shared<Numbers>(1000), {.batch = 100, .seed = 5, .threads = 3});
    loader.next();
    if (i % 2) loader.seek(5, 17);
    if (i % 3) loader.next();
  }
}

std::vector<int64_t> ids_of(const Batch& batch) { return {batch.ids.begin(), batch.ids.begin() + batch.size}; }

TEST(LoaderList, GivesTheRangesInTheirOrderWhateverTheirSizes) {
  for (const int threads : {0, 1, 3}) {
    Loader loader(std::make_shared<Numbers>(100), {.batch = 8, .seed = 3, .threads = threads});
    loader.next();
    loader.clear_list();
    const std::vector<BatchRange> ranges = {{2, 50, 7}, {0, 0, 40}, {2, 50, 7}, {9, 99, 1}, {0, 0, 8}};
    for (const BatchRange& range : ranges) ASSERT_TRUE(loader.list(range));
    EXPECT_EQ(loader.listed(), ranges.size());
    for (const BatchRange& range : ranges) {
      const Batch& batch = loader.next();
      EXPECT_EQ(batch.epoch, range.epoch);
      ASSERT_EQ(batch.size, range.size);
      for (int64_t i = 0; i < batch.size; ++i) {
        EXPECT_EQ(batch.ids[static_cast<size_t>(i)], shuffled_index(3, range.epoch, range.position + i, 100));
        EXPECT_EQ(batch.fields[0].data<int64_t>()[i], batch.ids[static_cast<size_t>(i)]);
      }
    }
    EXPECT_EQ(loader.listed(), 0u);
  }
}

// More than the ring holds at first, listed while batches are taken; and a list given up in the middle leaves nothing behind.
TEST(LoaderList, TakesMoreWhileItRuns) {
  for (const int threads : {0, 2}) {
    Loader loader(std::make_shared<Numbers>(1000), {.batch = 4, .shuffle = false, .threads = threads});
    for (int round = 0; round < 20; ++round) {
      loader.clear_list();
      int64_t listed = 0, taken = 0;
      while (taken < 300) {
        for (int i = 0; i < 3; ++i, ++listed) ASSERT_TRUE(loader.list({0, listed % 990, 1 + listed % 4}));
        const Batch& batch = loader.next();
        ASSERT_EQ(batch.position, taken % 990);
        ASSERT_EQ(batch.size, 1 + taken % 4);
        ASSERT_EQ(ids_of(batch).front(), taken % 990);
        ++taken;
      }
    }
    loader.seek(1, 500);
    EXPECT_EQ(loader.next().position, 500);
  }
}

TEST(LoaderList, RefusesWhatIsNotWithinAnEpochAndIsBounded) {
  Loader loader(std::make_shared<Numbers>(10), {.batch = 4, .threads = 0});
  loader.clear_list();
  for (const BatchRange& range : {BatchRange{0, -1, 3}, BatchRange{0, 0, 0}, BatchRange{0, 8, 3}, BatchRange{0, INT64_MAX, 4}})
    EXPECT_HAS(refusal(ErrorKind::data, [&] { loader.list(range); }), "numbers: a range of examples does not lie within an epoch; got ");
  for (size_t i = 0; i < Loader::kMaxListed; ++i) ASSERT_TRUE(loader.list({0, 0, 1}));
  EXPECT_FALSE(loader.list({0, 0, 1}));
}

TEST(Loader, RefusesWhatGivesNoBatch) {
  EXPECT_HAS(refusal(ErrorKind::data, [] { Loader(std::make_shared<Numbers>(0), {.batch = 4}); }),
             "numbers: the data source has no examples; got 0, expected at least 1");
  EXPECT_HAS(refusal(ErrorKind::usage, [] { Loader(std::make_shared<Numbers>(10), {.batch = 0}); }),
             "numbers: the batch size must be at least 1; got 0");
}

TEST(LoaderList, TellsWhatAReadingThreadMet) {
  for (const int threads : {0, 1}) {
    Loader loader(std::make_shared<Numbers>(10, 6), {.batch = 2, .shuffle = false, .threads = threads});
    loader.clear_list();
    for (const int64_t position : {0, 6, 2}) loader.list({0, position, 2});
    EXPECT_EQ(loader.next().position, 0);
    EXPECT_THROW(loader.next(), Error);
    EXPECT_EQ(loader.next().position, 2);
  }
}

TEST(Fingerprint, DependsOnWhatIsReadAndNotOnHowItIsCalled) {
  EXPECT_EQ(fingerprint(Numbers(1000), 1), fingerprint(Numbers(1000), 1));
  EXPECT_NE(fingerprint(Numbers(1000), 1), fingerprint(Numbers(1000), 2));  // other draws
  EXPECT_NE(fingerprint(Numbers(1000), 1), fingerprint(Numbers(1001), 1));
  EXPECT_NE(fingerprint(Numbers(1000), 1), fingerprint(Numbers(1000), 1, true));
  EXPECT_NO_THROW(fingerprint(Numbers(1000, 1), 1));  // not among the 64
  EXPECT_THROW(fingerprint(Numbers(1000, 1), 1, true), Error);
}

}  // namespace
}  // namespace perigee
