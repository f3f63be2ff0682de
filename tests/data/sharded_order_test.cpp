// The order of an epoch in shards, and the source that sorts by label, against what their definitions say, position by position.
#include "src/data/sharded_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "src/data/arrays.h"
#include "src/data/loader.h"
#include "src/data/source.h"
#include "tests/data/fixtures.h"

namespace perigee {
namespace {

constexpr int64_t kSizes[] = {1, 2, 7, 64, 1000, 4097}, kShards[] = {1, 2, 3, 7, 64}, kBatches[] = {1, 3, 32};

template <typename F>
void with_each(F check) {
  for (const int64_t size : kSizes)
    for (const int64_t shards : kShards)
      for (const int64_t batch : kBatches)
        if (shards <= size) {
          SCOPED_TRACE(std::to_string(size) + " examples, " + std::to_string(shards) + " shards, batch " + std::to_string(batch));
          check(size, shards, batch, ShardedOrder(size, shards, batch));
        }
}

TEST(ShardedOrder, EachShardIsAPartOfTheSourceAndComesOnce) {
  with_each([](int64_t size, int64_t shards, int64_t batch, const ShardedOrder& order) {
    for (const bool shuffle : {false, true}) {
      std::vector<std::set<int64_t>> of_shard(static_cast<size_t>(shards));
      for (int64_t p = 0; p < size; ++p)
        ASSERT_TRUE(of_shard[static_cast<size_t>(order.at(p).shard)].insert(order.index(5, 2, p, shuffle)).second) << p;
      int64_t next = 0;
      for (const std::set<int64_t>& indices : of_shard) {
        ASSERT_FALSE(indices.empty());
        EXPECT_EQ(*indices.begin(), next);
        next = *indices.rbegin() + 1;
        EXPECT_EQ(static_cast<int64_t>(indices.size()), next - *indices.begin());
        EXPECT_LE(std::abs(static_cast<int64_t>(indices.size()) - size / shards), 1) << "shards are equally large";
      }
      EXPECT_EQ(next, size);
    }
    // As far as anybody gets, the shards have come to within a block of each other.
    std::vector<int64_t> come(static_cast<size_t>(shards));
    for (int64_t p = 0; p < size; ++p) {
      ++come[static_cast<size_t>(order.at(p).shard)];
      const auto [least, most] = std::minmax_element(come.begin(), come.end());
      ASSERT_LE(*most - *least, ShardedOrder::kBlockBatches * batch * 2);
    }
  });
}

// Eight lanes in four shards: positions 0 and 1 are the first step of the first shard, 8 and 9 its second one.
TEST(ShardedOrder, AShardOfStreamsIsSomeOfTheLanes) {
  const ShardedOrder order = ShardedOrder::of_streams(80, 4, 8);
  for (int64_t p = 0; p < 80; ++p) {
    EXPECT_EQ(order.at(p).shard, p % 8 / 2) << p;
    EXPECT_EQ(order.at(p).end, (p / 2 + 1) * 2) << p;
  }
  EXPECT_EQ(order.next_of(1, 2, 4, 80), 10);
  EXPECT_EQ(order.next_of(3, 4, 78, 80), 78);
  EXPECT_EQ(order.next_of(0, 3, 78, 80), 80);
}

TEST(ShardedOrder, BlocksAndTheNextOfAShardAreWhatASearchFinds) {
  with_each([](int64_t size, int64_t shards, int64_t, const ShardedOrder& order) {
    for (int64_t p = 0; p < size; ++p) {
      const int64_t shard = order.at(p).shard, end = order.at(p).end;
      ASSERT_TRUE(end > p && end <= size);
      for (int64_t q = p; q < end; ++q) ASSERT_EQ(order.at(q).shard, shard);
    }
    for (int64_t first = 0; first < shards; first += 1 + shards / 3)
      for (int64_t p = 0; p < size; p += 1 + size / 50) {
        const int64_t last = std::min(shards, first + 1 + p % 2), stop = std::min(size, p + 3 + size / 2);
        int64_t found = p;
        while (found < stop && (order.at(found).shard < first || order.at(found).shard >= last)) ++found;
        ASSERT_EQ(order.next_of(first, last, p, stop), found);
      }
  });
}

TEST(ShardedOrder, ShufflesEachShardOfEachEpochInItsOwnWay) {
  const ShardedOrder order(4000, 4, 10);
  int same_epoch = 0, same_shard = 0, still = 0;
  for (int64_t p = 0; p < 4000; ++p) {
    const int64_t index = order.index(1, 0, p, true);
    still += index == order.index(1, 0, p, false);
    same_epoch += index == order.index(1, 1, p, true);
    if (const ShardedOrder::Place place = order.at(p); place.shard > 0 && p >= 160)
      same_shard += index - place.shard * 1000 == order.index(1, 0, p - place.shard * 160, true);
  }
  EXPECT_LT(same_epoch, 40);
  EXPECT_LT(still, 40);
  EXPECT_LT(same_shard, 40);
}

// x counts, labels are 2, 0, 1, 2, 0, 1, ...
std::string labelled(int examples = 12) {
  std::string x, y;
  for (int i = 0; i < examples; ++i) x += (i ? "," : "") + std::to_string(i), y += (i ? "," : "") + std::to_string((i + 2) % 3);
  return R"({"type":"arrays","x":[)" + x + R"(],"y":[)" + y + "]}";
}

std::pair<float, int64_t> example(const DataSource& source, int64_t index) {
  float x = -1;
  int64_t y = -1;
  std::byte* const slots[] = {reinterpret_cast<std::byte*>(&x), reinterpret_cast<std::byte*>(&y)};
  source.read({.index = index}, slots);
  return {x, y};
}

TEST(ByLabel, SortsAndKeepsTheOrderWithinALabel) {
  const SourcePtr source = open_parsed(R"({"type":"by_label","source":)" + labelled(300) + "}");
  ASSERT_EQ(source->size(), 300);
  const int64_t first[] = {1, 2, 0};  // of each label
  for (int64_t i = 0; i < 300; ++i) EXPECT_EQ(example(*source, i), std::pair(static_cast<float>(first[i / 100] + i % 100 * 3), i / 100));
}

TEST(ByLabel, RefusesWhatIsNoLabel) {
  EXPECT_THROW(open_parsed(R"({"type":"by_label","field":"x","source":)" + labelled() + "}"), Error);
  EXPECT_THROW(open_parsed(R"({"type":"by_label","field":"z","source":)" + labelled() + "}"), Error);
}

TEST(Loader, GoesByTheShardsOfSortedData) {
  const SourcePtr source = open_parsed(R"({"type":"by_label","source":)" + labelled() + "}");
  Loader loader(source, {.batch = 2, .seed = 3, .shards = 3, .threads = 0});
  std::multiset<float> seen;
  for (int64_t i = 0; i < 6; ++i) {
    const Batch& batch = loader.next();
    for (int64_t k = 0; k < 2; ++k) {
      seen.insert(batch.fields[0].data<float>()[k]);
      EXPECT_EQ(batch.fields[1].data<int64_t>()[k], i / 2) << "each shard has one label, and is one block here";
    }
  }
  EXPECT_EQ(std::set<float>(seen.begin(), seen.end()).size(), 12u);
}

}  // namespace
}  // namespace perigee
