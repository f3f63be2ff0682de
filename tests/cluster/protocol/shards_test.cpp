// Leases of shards: the pool against a plain list of positions, and a cluster in which each worker keeps to its own.
#include <algorithm>
#include <map>
#include <random>

#include "cluster/ledger/ledger.h"
#include "tests/cluster/protocol/scenario.h"

namespace perigee {
namespace {

struct PlainPool {
  enum State { open, leased, done };
  int64_t size;
  ShardedOrder order;
  std::vector<State> states;

  Range take_of(int64_t first, int64_t last, int64_t count) {
    const auto total = static_cast<int64_t>(states.size());
    const int64_t oldest = std::find(states.begin(), states.end(), open) - states.begin();
    for (int64_t begin = oldest; begin < std::min(total, oldest + size); ++begin) {
      const int64_t shard = order.at(begin % size).shard;
      if (states[static_cast<size_t>(begin)] != open || shard < first || shard >= last) continue;
      const int64_t stop = std::min({total, oldest + size, begin + count, begin - begin % size + order.at(begin % size).end});
      int64_t end = begin;
      while (end < stop && states[static_cast<size_t>(end)] == open) states[static_cast<size_t>(end++)] = leased;
      return {static_cast<uint64_t>(begin / size), begin % size, end - begin};
    }
    return {};
  }
  void set(const Range& range, State state) {
    for (int64_t i = 0; i < range.count; ++i) {
      State& at = states[static_cast<size_t>(static_cast<int64_t>(range.epoch) * size + range.begin + i)];
      if (state == done || at != done) at = state;
    }
  }
};

TEST(LeasePool, TakesOfShardsWhatAListOfPositionsWould) {
  int64_t helped = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const int64_t size = 6 + static_cast<int64_t>(random() % 90), planned = 1 + static_cast<int64_t>(random() % 300);
    const int64_t shards = 2 + static_cast<int64_t>(random() % 5);
    const ShardedOrder order(size, shards, 1);
    LeasePool pool(size, planned, order);
    PlainPool plain{size, order, std::vector<PlainPool::State>(static_cast<size_t>(planned), PlainPool::open)};
    std::vector<Range> leased;
    for (int step = 0; step < 900 && !pool.all_done(); ++step) {
      if (const uint64_t what = random() % 8; what < 4 || leased.empty()) {
        const int64_t count = 1 + static_cast<int64_t>(random() % 12),
                      first = static_cast<int64_t>(random() % static_cast<uint64_t>(shards));
        const int64_t last = std::min(shards, first + 1 + static_cast<int64_t>(random() % 2));
        Range range = pool.take_of(first, last, count);
        const Range expected = plain.take_of(first, last, count);
        ASSERT_EQ(range.count, expected.count) << "seed " << seed;
        if (range.count == 0) {
          range = pool.take(count), ++helped;
          plain.set(range, PlainPool::leased);
        } else {
          ASSERT_EQ(range, expected) << "seed " << seed;
        }
        if (range.count > 0) leased.push_back(range);
      } else {
        const size_t i = random() % leased.size();
        const Range range = leased[i];
        leased.erase(leased.begin() + static_cast<std::ptrdiff_t>(i));
        if (what < 7) {
          ASSERT_EQ(pool.mark_done(range), range.count);
          plain.set(range, PlainPool::done);
        } else {
          pool.put_back(range), plain.set(range, PlainPool::open);
        }
      }
      ASSERT_EQ(pool.done(), std::count(plain.states.begin(), plain.states.end(), PlainPool::done));
    }
  }
  EXPECT_GT(helped, 100);
}

// Shares of the ledger's rounds, with the shards of what each worker trained there.
struct Trained {
  int64_t round;
  WorkerId id;
  std::map<int64_t, int64_t> of_shard;
};

std::vector<Trained> trained(Scenario& s, const ShardedOrder& order) {
  std::vector<Trained> found;
  size_t read = 0;
  for (const LedgerRecord& record : decode_records(s.disk().read(), &read))
    for (const Share& share : record.shares) {
      Trained t{record.round, share.id, {}};
      for (const Range& range : share.ranges)
        for (int64_t p = range.begin; p < range.begin + range.count; ++p) ++t.of_shard[order.at(p).shard];
      if (record.kind == LedgerRecord::Kind::round) found.push_back(std::move(t));
    }
  return found;
}

TEST(Scenario, EachWorkerKeepsToItsShard) {
  Scenario s({.workers = 4, .examples = 640, .epochs = 3, .averaging = R"({"type": "periodic", "every": 3})", .shards = 4});
  ASSERT_TRUE(s.run_to_end());
  s.check_sound();
  const ShardedOrder order(640, 4, 4);
  std::map<WorkerId, std::set<int64_t>> shards;
  for (const Trained& t : trained(s, order))
    for (const auto& [shard, examples] : t.of_shard) shards[t.id].insert(shard);
  ASSERT_EQ(shards.size(), 4u);
  std::set<int64_t> all;
  for (const auto& [id, own] : shards) {
    EXPECT_EQ(own.size(), 1u) << "worker " << id;
    all.insert(own.begin(), own.end());
  }
  EXPECT_EQ(all.size(), 4u);
}

TEST(Scenario, OfMoreShardsThanWorkersEachHasItsPart) {
  Scenario s({.workers = 2, .examples = 640, .epochs = 2, .averaging = R"({"type": "periodic", "every": 3})", .shards = 6});
  ASSERT_TRUE(s.run_to_end());
  s.check_sound();
  std::map<WorkerId, std::set<int64_t>> shards;
  for (const Trained& t : trained(s, ShardedOrder(640, 6, 4)))
    for (const auto& [shard, examples] : t.of_shard) shards[t.id].insert(shard / 3);
  for (const auto& [id, own] : shards) EXPECT_EQ(own.size(), 1u) << "worker " << id;
}

TEST(Scenario, WhoeverIsLeftTakesTheShardsOfTheDead) {
  Scenario s({.workers = 3, .examples = 960, .epochs = 2, .averaging = R"({"type": "periodic", "every": 3})", .shards = 3});
  ASSERT_TRUE(s.run_to_round(10));
  s.kill_worker(1);
  ASSERT_TRUE(s.run_to_end());
  s.check_sound();
}

// By speed the fast ones are done with their shards first; they help the slow one, and are never an epoch ahead of it.
TEST(Scenario, WhoIsDoneWithItsShardHelps) {
  Scenario s(
      {.workers = 4, .examples = 1920, .epochs = 3, .averaging = R"({"type": "periodic", "every": 8, "by_speed": true})", .shards = 4});
  s.worker(2).faults.slow = 6;
  ASSERT_TRUE(s.run_to_end());
  s.check_sound();
  std::map<WorkerId, std::set<int64_t>> shards;
  for (const Trained& t : trained(s, ShardedOrder(1920, 4, 4)))
    for (const auto& [shard, examples] : t.of_shard) shards[t.id].insert(shard);
  const auto several = std::count_if(shards.begin(), shards.end(), [](const auto& own) { return own.second.size() > 1; });
  EXPECT_GE(several, 2) << "no worker helped";
}

}  // namespace
}  // namespace perigee
