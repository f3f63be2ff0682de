// Every topology's gather: everybody gets every payload as it was given, whatever the sizes, the order of arrival and the queues; what
// cannot be is refused before memory is taken for it.
#include <gtest/gtest.h>

#include "cluster/exchange/topology/gather.h"
#include "tests/cluster/exchange/exchange_world.h"

namespace perigee {
namespace {

struct Case {
  const TopologyDef* topology = nullptr;
  std::vector<size_t> lengths;  // of each rank's payload; 0: it gives none
  int hosts = 1;
  size_t bound = 0;  // 0: the longest
  uint64_t seed = 1;
  size_t queue = 3;
  double repeat = 0.1;
};

size_t bound_of(const Case& test) { return test.bound > 0 ? test.bound : *std::max_element(test.lengths.begin(), test.lengths.end()); }

std::vector<std::string> hosts_of(const Case& test) {
  std::vector<std::string> names;
  for (size_t rank = 0; rank < test.lengths.size(); ++rank)
    names.push_back("host" + std::to_string(rank * static_cast<size_t>(test.hosts) / test.lengths.size()));
  return names;
}

struct GatherWorld : ExchangeWorld {
  explicit GatherWorld(const Case& test) : ExchangeWorld(static_cast<int>(test.lengths.size()), test.seed, test.queue) {
    std::mt19937_64 data(test.seed * 7919);
    for (const size_t length : test.lengths) {
      auto bytes = std::make_shared<std::vector<std::byte>>(length);
      for (std::byte& b : *bytes) b = static_cast<std::byte>(data());
      given.push_back(length > 0 ? bytes : nullptr);
    }
    for (int rank = 0; rank < size(); ++rank) {
      GatherSetup setup{.rank = rank, .hosts = hosts_of(test), .payload = given[static_cast<size_t>(rank)], .bound = bound_of(test)};
      for (const SharedBytes& bytes : given) setup.gives.push_back(bytes != nullptr);
      std::unique_ptr<Gather> gather = test.topology->gather(std::move(setup));
      gathers.push_back(gather.get());
      members[static_cast<size_t>(rank)].exchange = std::move(gather);
    }
  }
  void check() {
    EXPECT_EQ(refused, 0);
    for (int rank = 0; rank < size(); ++rank) {
      EXPECT_TRUE(gathers[static_cast<size_t>(rank)]->done()) << "rank " << rank;
      EXPECT_TRUE(gathers[static_cast<size_t>(rank)]->waits_for().empty()) << "rank " << rank;
      for (int source = 0; source < size(); ++source) {
        const SharedBytes got = gathers[static_cast<size_t>(rank)]->payload(source), &sent = given[static_cast<size_t>(source)];
        ASSERT_EQ(got == nullptr, sent == nullptr) << "rank " << rank << ", of " << source;
        if (sent) {
          EXPECT_EQ(*got, *sent) << "rank " << rank << ", of " << source;
        }
      }
    }
  }
  std::vector<SharedBytes> given;
  std::vector<Gather*> gathers;
};

class EveryGather : public testing::TestWithParam<const TopologyDef*> {};

std::vector<size_t> lengths(int size, uint64_t seed) {
  static constexpr size_t kSome[] = {1, 7, 100, 1000, 3000, 9999, kGatherPiece - 1, kGatherPiece, kGatherPiece + 1, 2 * kGatherPiece + 17};
  std::mt19937_64 random(seed);
  std::vector<size_t> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(kSome[random() % std::size(kSome)]);
  return all;
}

TEST_P(EveryGather, GivesEverybodyEveryPayload) {
  uint64_t seed = 1;
  for (const int size : {1, 2, 3, 4, 5, 7, 8, 12})
    for (const int hosts : {1, 2, 3, size}) {
      if (hosts > size) continue;
      Case test{.topology = GetParam(), .lengths = lengths(size, seed), .hosts = hosts, .seed = seed, .queue = 1 + seed % 5};
      SCOPED_TRACE(std::string(GetParam()->name) + " K=" + std::to_string(size) + " hosts=" + std::to_string(hosts));
      GatherWorld world(test);
      world.run(test.repeat);
      world.check();
      ++seed;
    }
}

TEST_P(EveryGather, WhoGivesNothingReceivesAll) {
  for (const int size : {1, 2, 3, 5, 8})
    for (int absent = -1; absent < size; ++absent) {
      Case test{.topology = GetParam(), .lengths = lengths(size, 40), .hosts = (size + 1) / 2, .bound = 4 * kGatherPiece};
      for (int rank = 0; rank < size; ++rank)
        if (absent < 0 || rank == absent) test.lengths[static_cast<size_t>(rank)] = 0;  // -1: no rank has anything
      GatherWorld world(test);
      world.run();
      world.check();
    }
}

TEST_P(EveryGather, SendsTheBytesItSays) {
  const size_t length = 2 * kGatherPiece + 100, whole = length + 3 * kGatherLength;
  for (const int size : {1, 2, 3, 4, 8})
    for (const int hosts : {1, 2, 4}) {
      if (hosts > size) continue;
      const Case test{.topology = GetParam(), .lengths = std::vector<size_t>(static_cast<size_t>(size), length), .hosts = hosts};
      GatherWorld world(test);
      world.run();
      double all = 0;
      for (int rank = 0; rank < size; ++rank) {
        EXPECT_DOUBLE_EQ(world.sent_by(rank), GetParam()->gather_bytes_sent(rank, hosts_of(test), static_cast<double>(whole)))
            << GetParam()->name << " K=" << size << " hosts=" << hosts << " rank=" << rank;
        all += world.sent_by(rank);
      }
      EXPECT_DOUBLE_EQ(all, static_cast<double>(size * (size - 1)) * static_cast<double>(whole)) << "each once to everybody else";
      for (const auto& link : world.links) EXPECT_LE(link.most, kChunkBytes);
    }
}

// Each worker of a star uploads its payload once.
TEST(Gather, AStarsWorkersSendTheirPayloadOnce) {
  for (const TopologyDef* topology : all_topologies())
    if (std::string(topology->name) == "star") {
      for (int rank = 1; rank < 4; ++rank) EXPECT_EQ(topology->gather_bytes_sent(rank, std::vector<std::string>(4, "h"), 100), 100);
    }
}

std::vector<std::byte> body_of(uint64_t length, size_t piece) {
  std::vector<std::byte> body(kGatherLength + piece, std::byte{0x5a});
  std::memcpy(body.data(), &length, kGatherLength);
  return body;
}

TEST_P(EveryGather, RefusesWhatItCannotExpect) {
  const size_t bound = 2 * kGatherPiece;
  for (uint64_t seed = 1; seed < 6; ++seed) {
    const Case test{.topology = GetParam(), .lengths = {bound, 100, 0, kGatherPiece + 1}, .hosts = 2, .bound = bound, .seed = seed};
    GatherWorld world(test);
    std::mt19937_64 random(seed);
    int taken = 0;
    const std::vector<std::byte> above = body_of(bound + 1, kGatherPiece), far = body_of(UINT64_MAX, kGatherPiece);
    const std::vector<std::byte> full = body_of(bound, kGatherPiece), behind = body_of(kGatherPiece, 1);
    while (world.step(0.1)) {
      const int to = static_cast<int>(random() % 4);
      const auto offer = [&](int from, int source, uint16_t phase, uint64_t offset, const std::vector<std::byte>& body) {
        Chunk chunk;
        chunk.phase = phase, chunk.row = static_cast<uint16_t>(source), chunk.offset = offset;
        EXPECT_EQ(world.gathers[static_cast<size_t>(to)]->place(from, chunk, body.size()), nullptr);
        taken += world.gathers[static_cast<size_t>(to)]->on_chunk(from, chunk, body, world.sender(to));
      };
      for (int from = -1; from < 5; ++from)
        for (int source = 0; source < 5; ++source) {
          offer(from, source, 0, 0, {});
          offer(from, source, 0, 0, std::vector<std::byte>(kGatherLength));
          offer(from, source, 0, 0, body_of(0, 1));
          offer(from, source, 0, 0, above);            // longer than the bound
          offer(from, source, 0, 0, far);              // 64 bits of it
          offer(from, source, 0, 0, body_of(50, 49));  // truncated
          offer(from, source, 0, 0, body_of(50, 51));  // longer than it says
          offer(from, source, 0, 8, full);             // begins where no piece does
          offer(from, source, 0, kGatherPiece, behind);
          offer(from, source, 0, ~uint64_t{0} / kGatherPiece * kGatherPiece, full);
          offer(from, source, 1, 0, body_of(100, 100));  // a phase that does not exist
          offer(to, to, 0, 0, body_of(100, 100));        // of its own
          offer(from, 2, 0, 0, body_of(100, 100));       // of one who gives none
        }
    }
    EXPECT_EQ(taken, 0);
    world.check();
  }
}

// A payload has one length: the first chunk's.
TEST_P(EveryGather, RefusesAnotherLengthLater) {
  const Case test{.topology = GetParam(), .lengths = {2 * kGatherPiece, 10}, .bound = 4 * kGatherPiece};
  GatherWorld world(test);
  Chunk chunk;
  EXPECT_TRUE(world.gathers[1]->on_chunk(0, chunk, body_of(2 * kGatherPiece, kGatherPiece), world.sender(1)));
  EXPECT_TRUE(world.gathers[1]->on_chunk(0, chunk, body_of(2 * kGatherPiece, kGatherPiece), world.sender(1))) << "repeated";
  chunk.offset = kGatherPiece;
  EXPECT_FALSE(world.gathers[1]->on_chunk(0, chunk, body_of(2 * kGatherPiece - 1, kGatherPiece - 1), world.sender(1)));
  EXPECT_EQ(world.gathers[1]->payload(0), nullptr);
  EXPECT_TRUE(world.gathers[1]->on_chunk(0, chunk, body_of(2 * kGatherPiece, kGatherPiece), world.sender(1)));
  EXPECT_NE(world.gathers[1]->payload(0), nullptr);
}

TEST_P(EveryGather, SaysWhomItWaitsFor) {
  for (int silent = 0; silent < 4; ++silent) {
    const Case test{.topology = GetParam(), .lengths = {10, 20, 30, 40}};
    GatherWorld world(test);
    world.members[static_cast<size_t>(silent)].started = true;  // it never starts
    world.run();
    bool named = false;
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == silent) continue;
      EXPECT_FALSE(world.gathers[static_cast<size_t>(rank)]->done());
      const std::vector<int> ranks = world.gathers[static_cast<size_t>(rank)]->waits_for();
      named |= std::find(ranks.begin(), ranks.end(), silent) != ranks.end();
    }
    EXPECT_TRUE(named) << "no member waits for rank " << silent;
  }
}

INSTANTIATE_TEST_SUITE_P(Topologies, EveryGather, testing::ValuesIn(all_topologies().begin(), all_topologies().end()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace perigee
