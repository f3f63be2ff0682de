// Every topology: the sum is right, the same bytes for every member, whatever the sizes, the order of arrival and the queues.
#include "cluster/exchange/collective.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "cluster/exchange/topology/chunk_pool.h"
#include "cluster/ledger/fixed_plan.h"
#include "kernels/block_math.h"
#include "kernels/convert.h"
#include "src/core/error.h"
#include "tests/cluster/exchange/exchange_world.h"

namespace perigee {
namespace {

struct Case {
  const TopologyDef* topology = nullptr;
  int size = 1;
  ExchangeLayout layout;
  Bucket bucket;
  std::vector<std::string> hosts;  // empty: all on one
  std::vector<std::vector<Partial>> partials;
  std::vector<int> absent;  // ranks that do not take part
  bool separate_result = false;
  uint64_t seed = 1;
  size_t bound = 3;
  double repeat = 0.1;
};

double sum_at(const ExchangeLayout& layout, std::span<const std::byte> row, size_t i) {
  double value;
  convert(layout.dtype, row.data() + i * layout.width(), Dtype::f64, &value, 1);
  return value;
}
int64_t max_at(const ExchangeLayout& layout, std::span<const std::byte> row, int64_t i) {
  int64_t value;
  std::memcpy(&value, row.data() + layout.sum_bytes() + i * 8, 8);
  return value;
}

void fill(std::vector<std::byte>& row, const ExchangeLayout& layout, std::mt19937_64& random) {
  row.resize(layout.bytes());
  std::normal_distribution<double> normal(0.1, 1.0);
  for (size_t i = 0; i < static_cast<size_t>(layout.sums); ++i) {
    const double value = normal(random);
    convert(Dtype::f64, &value, layout.dtype, row.data() + i * layout.width(), 1);
  }
  for (int64_t i = 0; i < layout.maxima; ++i) {
    const int64_t value = static_cast<int64_t>(random() % 2000) - 3000;  // negative: an absent member is not a zero
    std::memcpy(row.data() + layout.sum_bytes() + i * 8, &value, 8);
  }
}

void build(ExchangeWorld& world, const Case& test) {
  std::mt19937_64 data(test.seed * 7919);
  const auto pool = std::make_shared<ChunkPool>();
  for (int rank = 0; rank < test.size; ++rank) {
    ExchangeWorld::Member& member = world.members[static_cast<size_t>(rank)];
    CollectiveSetup setup;
    setup.rank = rank;
    setup.hosts = test.hosts.empty() ? std::vector<std::string>(static_cast<size_t>(test.size), "host") : test.hosts;
    setup.layout = test.layout;
    setup.bucket = test.bucket;
    setup.partials = test.partials;
    setup.takes_part = std::find(test.absent.begin(), test.absent.end(), rank) == test.absent.end();
    setup.pool = pool;
    const size_t rows = test.partials.empty() ? 1 : std::max<size_t>(1, test.partials[static_cast<size_t>(rank)].size());
    member.rows.resize(rows);
    for (std::vector<std::byte>& row : member.rows) {
      fill(row, test.layout, data);
      setup.rows.push_back(row);
    }
    if (test.separate_result) {
      member.result.resize(test.layout.bytes());
      setup.result = member.result;
    }
    member.exchange = test.topology->make(std::move(setup));
  }
}

bool takes_part(const Case& test, size_t rank) {
  return std::find(test.absent.begin(), test.absent.end(), static_cast<int>(rank)) == test.absent.end() &&
         (test.partials.empty() || !test.partials[rank].empty());
}

// The sum of all rows in float64, and the sum of their magnitudes.
struct Reference {
  std::vector<double> sums, magnitudes;
  std::vector<int64_t> maxima;
};
Reference reference(const ExchangeWorld& world, const Case& test) {
  Reference r;
  r.sums.resize(static_cast<size_t>(test.layout.sums));
  r.magnitudes.resize(r.sums.size());
  r.maxima.resize(static_cast<size_t>(test.layout.maxima), 0);
  bool any = false;
  for (size_t rank = 0; rank < world.members.size(); ++rank) {
    if (!takes_part(test, rank)) continue;
    for (const std::vector<std::byte>& row : world.members[rank].rows) {
      for (size_t i = 0; i < r.sums.size(); ++i) {
        const double x = sum_at(test.layout, row, i);
        r.sums[i] += x;
        r.magnitudes[i] += std::fabs(x);
      }
      for (size_t i = 0; i < r.maxima.size(); ++i) {
        const int64_t x = max_at(test.layout, row, static_cast<int64_t>(i));
        r.maxima[i] = any ? std::max(r.maxima[i], x) : x;
      }
      any = true;
    }
  }
  return r;
}

// Runs the exchange and checks everybody's result inside the bucket and that nothing outside of it was touched.
std::vector<std::byte> check(const Case& test) {
  SCOPED_TRACE(std::string(test.topology->name) + " K=" + std::to_string(test.size) + " bytes=" + std::to_string(test.layout.bytes()) +
               " bucket=" + std::to_string(test.bucket.begin) + ".." + std::to_string(test.bucket.end) +
               " seed=" + std::to_string(test.seed));
  ExchangeWorld world(test.size, test.seed, test.bound);
  build(world, test);
  const Reference expected = reference(world, test);
  std::vector<std::vector<std::vector<std::byte>>> before;
  for (const auto& member : world.members) before.push_back(member.rows);
  world.run(test.repeat);
  EXPECT_EQ(world.refused, 0);

  const size_t border = test.layout.sum_bytes(), width = test.layout.width();
  const double tolerance = test.layout.dtype == Dtype::f64 ? 1e-15 : 1e-6;
  std::vector<std::byte> first;
  for (size_t rank = 0; rank < world.members.size(); ++rank) {
    ExchangeWorld::Member& member = world.members[rank];
    EXPECT_TRUE(member.exchange->done()) << "rank " << rank;
    EXPECT_TRUE(member.exchange->waits_for().empty()) << "rank " << rank;
    EXPECT_TRUE(!test.separate_result || member.rows == before[rank]) << "the contribution was changed";
    const std::vector<std::byte>& result = test.separate_result ? member.result : member.rows[0];
    for (size_t i = test.bucket.begin / width; (i + 1) * width <= std::min(border, test.bucket.end); ++i) {
      const double bound = tolerance * expected.magnitudes[i] + 1e-30;
      if (std::fabs(sum_at(test.layout, result, i) - expected.sums[i]) > bound) {
        ADD_FAILURE() << "rank " << rank << " sum " << i;
        return {};
      }
    }
    for (size_t i = std::max(border, test.bucket.begin); i + 8 <= test.bucket.end; i += 8)
      EXPECT_EQ(max_at(test.layout, result, static_cast<int64_t>((i - border) / 8)), expected.maxima[(i - border) / 8]);
    if (!test.separate_result) {
      const auto& old = before[rank][0];
      EXPECT_TRUE(std::equal(result.begin(), result.begin() + static_cast<ptrdiff_t>(test.bucket.begin), old.begin()));
      EXPECT_TRUE(std::equal(result.begin() + static_cast<ptrdiff_t>(test.bucket.end), result.end(),
                             old.begin() + static_cast<ptrdiff_t>(test.bucket.end)));
    }
    const std::vector<std::byte> inside(result.begin() + static_cast<ptrdiff_t>(test.bucket.begin),
                                        result.begin() + static_cast<ptrdiff_t>(test.bucket.end));
    if (rank == 0) first = inside;
    EXPECT_EQ(inside, first) << "rank " << rank << " has other bits than rank 0";
  }
  return first;
}

std::vector<std::string> dealt_hosts(int size, int hosts) {
  std::vector<std::string> names;
  for (int rank = 0; rank < size; ++rank) names.push_back("host" + std::to_string(rank * hosts / size));
  return names;
}

class EveryTopology : public testing::TestWithParam<const TopologyDef*> {};

TEST_P(EveryTopology, AddsUpForAnyNumberOfMembersAndAnySize) {
  uint64_t seed = 1;
  for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16})
    for (const ExchangeLayout layout : {ExchangeLayout{0, 0}, {1, 0}, {0, 1}, {3, 2}, {37, 5}, {1000, 0}, {4099, 300}, {150'001, 7}}) {
      Case test{.topology = GetParam(), .size = size, .layout = layout, .bucket = {0, layout.bytes()}};
      test.seed = seed++;
      test.separate_result = seed % 3 == 0;
      test.bound = 1 + seed % 5;
      check(test);
    }
}

TEST_P(EveryTopology, ExchangesOnlyTheBucket) {
  const ExchangeLayout layout{5001, 33};
  const size_t border = 5001 * 4;
  uint64_t seed = 1000;
  for (const Bucket bucket : {Bucket{0, 4},
                              {400, 400},
                              {404, 12'000},
                              {12'000, border},
                              {12'000, border + 80},
                              {border, border + 8},
                              {border + 16, layout.bytes()}}) {
    Case test{.topology = GetParam(), .size = 5, .layout = layout, .bucket = bucket};
    test.seed = seed++;
    check(test);
  }
}

TEST_P(EveryTopology, AddsFloat64) {
  uint64_t seed = 1500;
  for (const int size : {1, 2, 3, 4, 9})
    for (const ExchangeLayout layout : {ExchangeLayout{1, 0, Dtype::f64}, {37, 5, Dtype::f64}, {40'001, 300, Dtype::f64}})
      for (const bool whole : {true, false}) {
        const Bucket bucket{whole ? 0 : std::min<size_t>(layout.bytes(), 8 * 11), layout.bytes()};
        Case test{.topology = GetParam(), .size = size, .layout = layout, .bucket = bucket};
        test.seed = seed++;
        check(test);
      }
}

TEST_P(EveryTopology, LeavesOutWhoDoesNotTakePart) {
  const ExchangeLayout layout{3001, 20};
  uint64_t seed = 2000;
  for (const int size : {1, 2, 3, 4, 7})
    for (int absent = 0; absent < size; ++absent)
      for (const bool all : {false, true}) {
        Case test{.topology = GetParam(), .size = size, .layout = layout, .bucket = {0, layout.bytes()}};
        for (int rank = 0; rank < size; ++rank)
          if (all || rank == absent) test.absent.push_back(rank);
        test.seed = seed++;
        test.separate_result = seed % 2 == 0;
        check(test);
      }
}

TEST_P(EveryTopology, AddsUpAcrossHosts) {
  const ExchangeLayout layout{20'000, 3};
  uint64_t seed = 3000;
  for (const int size : {2, 4, 5, 9, 12, 24})
    for (const int hosts : {1, 2, 3, 10, size}) {
      if (hosts > size) continue;
      Case test{.topology = GetParam(), .size = size, .layout = layout, .bucket = {0, layout.bytes()}, .hosts = dealt_hosts(size, hosts)};
      test.seed = seed++;
      check(test);
    }
}

// The fixed summation tree: the bits do not depend on who holds which leaves, nor on how many members there are.
TEST_P(EveryTopology, GivesTheSameBitsHoweverTheLeavesAreDealtOut) {
  const ExchangeLayout layout{9001, 3};
  for (const int leaves : {1, 2, 3, 4, 6, 8, 12}) {
    std::vector<std::vector<std::byte>> leaf(static_cast<size_t>(leaves));
    std::mt19937_64 random(static_cast<uint64_t>(leaves));
    for (auto& row : leaf) fill(row, layout, random);
    // The sum of a subtree, by the definition.
    const std::function<std::vector<std::byte>(int, int)> sum = [&](int a, int b) {
      if (b - a == 1) return leaf[static_cast<size_t>(a)];
      const int middle = a + (b - a) / 2;
      std::vector<std::byte> left = sum(a, middle);
      const std::vector<std::byte> right = sum(middle, b);
      block_math(layout.dtype).add(left.data(), right.data(), layout.sums, left.data());
      for (int64_t i = 0; i < layout.maxima; ++i) {
        const int64_t value = std::max(max_at(layout, left, i), max_at(layout, right, i));
        std::memcpy(left.data() + layout.sum_bytes() + i * 8, &value, 8);
      }
      return left;
    };
    const std::vector<std::byte> expected = sum(0, leaves);
    for (const int size : {1, 2, 3, 4, 5, 8}) {
      SCOPED_TRACE(std::string(GetParam()->name) + " leaves=" + std::to_string(leaves) + " K=" + std::to_string(size));
      ExchangeWorld world(size, static_cast<uint64_t>(leaves * 100 + size), 2);
      std::vector<std::vector<Partial>> partials;
      for (int rank = 0; rank < size; ++rank) {
        const auto [first, last] = leaves_of(rank, size, leaves);
        partials.push_back(partials_of(first, last, leaves));
      }
      for (int rank = 0; rank < size; ++rank) {
        ExchangeWorld::Member& member = world.members[static_cast<size_t>(rank)];
        CollectiveSetup setup;
        setup.rank = rank;
        setup.hosts = dealt_hosts(size, 2);
        setup.layout = layout;
        setup.bucket = {0, layout.bytes()};
        setup.partials = partials;
        for (const Partial& p : partials[static_cast<size_t>(rank)]) member.rows.push_back(sum(p.first, p.first + p.count));
        if (member.rows.empty()) member.rows.emplace_back(layout.bytes());
        for (auto& row : member.rows) setup.rows.push_back(row);
        member.exchange = GetParam()->make(std::move(setup));
      }
      world.run(0.1);
      EXPECT_EQ(world.refused, 0);
      for (const auto& member : world.members) {
        EXPECT_TRUE(member.exchange->done());
        EXPECT_TRUE(member.rows[0] == expected) << "other bits than the tree's";
      }
    }
  }
}

TEST_P(EveryTopology, SendsTheBytesItSays) {
  for (const int size : {1, 2, 3, 4, 8})
    for (const int hosts : {1, 2, 4}) {
      if (hosts > size) continue;
      const ExchangeLayout layout{int64_t{48'000} * size, 0};
      Case test{.topology = GetParam(), .size = size, .layout = layout, .bucket = {0, layout.bytes()}, .hosts = dealt_hosts(size, hosts)};
      ExchangeWorld world(size, 5, 3);
      build(world, test);
      world.run();
      for (int rank = 0; rank < size; ++rank)
        EXPECT_DOUBLE_EQ(world.sent_by(rank), GetParam()->bytes_sent(rank, test.hosts, static_cast<double>(layout.bytes())))
            << GetParam()->name << " K=" << size << " hosts=" << hosts << " rank=" << rank;
      for (const auto& link : world.links) EXPECT_LE(link.most, kChunkBytes);
    }
}

TEST_P(EveryTopology, RefusesWhatItCannotExpect) {
  const ExchangeLayout layout{100'000, 10};
  Case test{.topology = GetParam(), .size = 4, .layout = layout, .bucket = {0, layout.bytes()}};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    ExchangeWorld world(4, seed, 3);
    test.seed = seed + 1;
    build(world, test);
    const Reference expected = reference(world, test);
    std::mt19937_64 random(seed);
    std::vector<std::byte> body(kChunkBytes + 64, std::byte{0x7f});
    int accepted = 0;
    while (world.step()) {
      const int to = static_cast<int>(random() % 4);
      Chunk chunk;  // never right: an odd offset, a phase, row or rank that does not exist, a length that is none
      chunk.offset = (random() % 500'000) | 1;
      accepted += world.members[static_cast<size_t>(to)].exchange->on_chunk(static_cast<int>(random() % 4), chunk, body, world.sender(to));
      chunk.offset = 0;
      chunk.phase = static_cast<uint16_t>(2 + random() % 1000);
      accepted += world.members[static_cast<size_t>(to)].exchange->on_chunk(static_cast<int>(random() % 4), chunk, body, world.sender(to));
      chunk.phase = static_cast<uint16_t>(random() % 2);
      chunk.row = static_cast<uint16_t>(1 + random() % 1000);
      accepted += world.members[static_cast<size_t>(to)].exchange->on_chunk(static_cast<int>(random() % 4), chunk, body, world.sender(to));
      chunk.row = 0;
      accepted +=
          world.members[static_cast<size_t>(to)].exchange->on_chunk(4 + static_cast<int>(random() % 9), chunk, body, world.sender(to));
      accepted += world.members[static_cast<size_t>(to)].exchange->on_chunk(to, chunk, body, world.sender(to));
      accepted +=
          world.members[static_cast<size_t>(to)].exchange->on_chunk((to + 1) % 4, chunk, std::span(body).first(12), world.sender(to));
      accepted += world.members[static_cast<size_t>(to)].exchange->on_chunk((to + 3) % 4, chunk, body, world.sender(to));
    }
    EXPECT_EQ(accepted, 0);
    for (const auto& member : world.members) {
      EXPECT_TRUE(member.exchange->done());
      EXPECT_NEAR(sum_at(layout, member.rows[0], 0), expected.sums[0], 1e-4);
    }
  }
}

// Memory is only given for a chunk that is expected now; what is put there before the chunk is handed over changes nothing else.
TEST_P(EveryTopology, GivesAPlaceToNothingButWhatItExpects) {
  const ExchangeLayout layout{100'000, 10};
  Case test{.topology = GetParam(), .size = 4, .layout = layout, .bucket = {0, layout.bytes()}};
  ExchangeWorld world(4, 7, 3);
  build(world, test);
  std::mt19937_64 random(7);
  while (world.step()) {
    auto& exchange = *world.members[random() % 4].exchange;
    const int from = static_cast<int>(random() % 4);
    Chunk chunk;
    EXPECT_EQ(exchange.place(from, chunk, kChunkBytes - 4), nullptr);  // not as long as that piece
    chunk.phase = 2;
    EXPECT_EQ(exchange.place(from, chunk, kChunkBytes), nullptr);  // no such phase
    chunk.phase = 1;
    EXPECT_EQ(exchange.place(from, chunk, 12), nullptr);  // not as long as that piece
    EXPECT_EQ(exchange.place(-1, chunk, kChunkBytes), nullptr);
    EXPECT_EQ(exchange.place(4, chunk, kChunkBytes), nullptr);
    chunk.row = 1;
    EXPECT_EQ(exchange.place(from, chunk, kChunkBytes), nullptr);
    chunk.row = 0, chunk.offset = (random() % 500'000) | 1;
    EXPECT_EQ(exchange.place(from, chunk, kChunkBytes), nullptr);
  }
  EXPECT_GT(world.placed, 0);
  for (const auto& member : world.members) EXPECT_TRUE(member.exchange->done());
}

// A member whose contribution was not sent cannot have a result.
TEST_P(EveryTopology, RefusesAResultBeforeItsContribution) {
  const ExchangeLayout layout{16, 0};
  Case test{.topology = GetParam(), .size = 2, .layout = layout, .bucket = {0, layout.bytes()}};
  ExchangeWorld world(2, 1, 3);
  build(world, test);
  Chunk chunk;
  chunk.phase = 1;
  const std::vector<std::byte> body(64);
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_FALSE(world.members[static_cast<size_t>(rank)].exchange->on_chunk(1 - rank, chunk, body, world.sender(rank)));
  for (int rank = 0; rank < 2; ++rank)
    for (const size_t bytes : {32, 64})
      EXPECT_EQ(world.members[static_cast<size_t>(rank)].exchange->place(1 - rank, chunk, bytes), nullptr);
}

TEST_P(EveryTopology, SaysWhomItWaitsFor) {
  const ExchangeLayout layout{1000, 0};
  for (int silent = 0; silent < 4; ++silent) {
    Case test{.topology = GetParam(), .size = 4, .layout = layout, .bucket = {0, layout.bytes()}};
    ExchangeWorld world(4, 9, 3);
    build(world, test);
    world.members[static_cast<size_t>(silent)].started = true;  // it never starts
    world.run();
    bool named = false;
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == silent) continue;
      const auto& member = world.members[static_cast<size_t>(rank)];
      EXPECT_FALSE(member.exchange->done());
      const std::vector<int> ranks = member.exchange->waits_for();
      EXPECT_FALSE(ranks.empty());
      named |= std::find(ranks.begin(), ranks.end(), silent) != ranks.end();
    }
    EXPECT_TRUE(named) << "no member waits for rank " << silent;
  }
}

// A late owner does not make others pile up more than their window in its memory.
TEST_P(EveryTopology, BoundsWhatWaitsForALateMember) {
  const int size = 16;
  const ExchangeLayout layout{int64_t{16} << 20, 0};  // 64 MB
  const auto pool = std::make_shared<ChunkPool>();
  const std::vector<std::byte> zeros(layout.bytes());
  std::vector<std::byte> rows = zeros;  // all members' row: the sums do not matter here
  for (int late = 0; late < 2; ++late) {
    ExchangeWorld world(size, 1, 4);
    for (int rank = 0; rank < size; ++rank) {
      CollectiveSetup setup;
      setup.rank = rank;
      setup.hosts.assign(size, "host");
      setup.layout = layout;
      setup.bucket = {0, layout.bytes()};
      setup.rows.push_back(rows);
      setup.pool = rank == late ? pool : nullptr;
      world.members[static_cast<size_t>(rank)].exchange = GetParam()->make(std::move(setup));
      world.members[static_cast<size_t>(rank)].started = rank == late;
    }
    world.run();
    EXPECT_LE(pool->bytes_kept(), size_t{64} << 20) << GetParam()->name;
  }
}

// On one host what waits for a late owner stays in the cache; over a network more may be under way.
TEST(Direct, LetsLessWaitOnOneHostThanOverANetwork) {
  const int size = 5;
  const ExchangeLayout layout{int64_t{16} << 20, 0};  // 64 MB
  std::vector<std::byte> rows(layout.bytes());
  size_t waits[2] = {0, 0};
  for (const bool one_host : {true, false}) {
    const auto pool = std::make_shared<ChunkPool>();
    ExchangeWorld world(size, 1, 4);
    for (int rank = 0; rank < size; ++rank) {
      CollectiveSetup setup;
      setup.rank = rank;
      for (int host = 0; host < size; ++host) setup.hosts.push_back(one_host ? "host" : "host" + std::to_string(host));
      setup.layout = layout;
      setup.bucket = {0, layout.bytes()};
      setup.rows.push_back(rows);
      setup.pool = rank == 0 ? pool : nullptr;
      world.members[static_cast<size_t>(rank)].exchange = find_topology("direct", setup).make(std::move(setup));
      world.members[static_cast<size_t>(rank)].started = rank == 0;
    }
    world.run();
    waits[one_host] = pool->bytes_kept();
  }
  EXPECT_LE(waits[true], size_t{4} << 20);  // four senders, four chunks each
  EXPECT_GT(waits[false], size_t{16} << 20);
}

// Buffers go back when an exchange is given up in the middle.
TEST_P(EveryTopology, GivesItsBuffersBack) {
  const ExchangeLayout layout{500'000, 100};
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto pool = std::make_shared<ChunkPool>();
    {
      ExchangeWorld world(5, seed, 2);
      std::vector<std::byte> rows(layout.bytes());
      for (int rank = 0; rank < 5; ++rank) {
        CollectiveSetup setup;
        setup.rank = rank;
        setup.hosts.assign(5, "host");
        setup.layout = layout;
        setup.bucket = {0, layout.bytes()};
        setup.rows.push_back(rows);
        setup.pool = pool;
        world.members[static_cast<size_t>(rank)].exchange = GetParam()->make(std::move(setup));
      }
      for (uint64_t i = 0; i < seed * 10; ++i) world.step();
    }
    EXPECT_EQ(pool->in_use(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Topology, EveryTopology, testing::ValuesIn(all_topologies().begin(), all_topologies().end()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST(Topology, SendsWhatTheFormulasSay) {  // U7
  for (const int size : {2, 3, 8}) {
    const std::vector<std::string> hosts(static_cast<size_t>(size), "host");
    const double k = size;
    CollectiveSetup setup;
    EXPECT_DOUBLE_EQ(find_topology("ring", setup).bytes_sent(1, hosts, 1e6), 2 * (k - 1) / k * 1e6);
    EXPECT_DOUBLE_EQ(find_topology("direct", setup).bytes_sent(1, hosts, 1e6), 2 * (k - 1) / k * 1e6);
    EXPECT_DOUBLE_EQ(find_topology("star", setup).bytes_sent(0, hosts, 1e6), (k - 1) * 1e6);
    EXPECT_DOUBLE_EQ(find_topology("star", setup).bytes_sent(1, hosts, 1e6), 1e6);
    double all = 0;
    for (int rank = 0; rank < size; ++rank) all += find_topology("tree", setup).bytes_sent(rank, hosts, 1e6);
    EXPECT_DOUBLE_EQ(all, 2 * (k - 1) * 1e6);
  }
}

TEST(Topology, AutoFitsTheMembers) {
  CollectiveSetup setup;
  setup.bucket = {0, size_t{64} << 20};
  setup.hosts = {"a"};
  EXPECT_STREQ(find_topology("auto", setup).name, "direct");
  setup.hosts = {"a", "a", "b", "b"};
  EXPECT_STREQ(find_topology("auto", setup).name, "hierarchical");
  setup.hosts = {"a", "b", "c"};
  EXPECT_STREQ(find_topology("auto", setup).name, "direct");
  setup.hosts.assign(100, "a");
  EXPECT_STREQ(find_topology("auto", setup).name, "ring");
  setup.bucket = {0, 1000};
  EXPECT_STREQ(find_topology("auto", setup).name, "tree");
}

TEST(Topology, NamesTheNearestForAnUnknownOne) {
  try {
    find_topology("rign", {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("there is no topology 'rign'; did you mean 'ring'?"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace perigee
