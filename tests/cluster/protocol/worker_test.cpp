// A worker's response to coordinators that are old, of another version, or gone.
#include "cluster/membership/worker.h"

#include <algorithm>

#include "tests/cluster/protocol/scenario.h"
#include "tests/cluster/uv/raw_node.h"

namespace perigee {
namespace {

struct WorkerTest : testing::Test {
  Scenario s{{.workers = 0, .examples = 24, .epochs = 1, .batch = 4, .own_coordinator = false}};
  RawNode coordinator{s.network(), 60, Scenario::kCoordinatorAddress};
  uint64_t generation = 0;
  Scenario::WorkerNode* worker = nullptr;

  void SetUp() override { worker = &s.worker(s.add_worker()); }
  FrameHeader header(int64_t round = -1) { return {.job = Scenario::kJob, .generation = generation, .round = round}; }
  template <class M>
  bool wait_for(M* message, FrameHeader* h = nullptr) {
    return s.run_until([&] { return coordinator.take(message, h); }, 20'000);
  }
  Welcome welcome() {
    return {.version = PERIGEE_VERSION, .id = 9, .job = R"({"averaging": {"type": "allreduce"}})", .folder = {}, .tuning = {}};
  }
  // Alone in generation 5, round 0 applied but not committed.
  void hold_round_zero() {
    ASSERT_TRUE(wait_for(&join));
    coordinator.say(welcome(), header());
    Acknowledge formed;
    ASSERT_TRUE(wait_for(&formed));
    EXPECT_EQ(formed.hash, 0u);
    generation = 5;
    coordinator.say(form(), header());
    ASSERT_TRUE(wait_for(&formed));
    coordinator.say(CatchUp{.round = -1}, header());
    CaughtUp healed;
    ASSERT_TRUE(wait_for(&healed));
    go = {.base = -1, .hash = healed.hash, .per_epoch = 24, .planned = 24, .batch = 4, .global = 4};
    coordinator.say(go, header(0));
    ASSERT_TRUE(wait_for(&done));
  }
  Propose form() { return {.members = {{.id = 9, .name = "host1/1", .host = "host1", .address = "host1:1"}}}; }
  bool wait_for_join_again() {
    coordinator.frames.clear();
    return wait_for(&join);
  }

  Join join;
  StartEpoch go;
  Done done;
};

TEST_F(WorkerTest, ComesBackWithItsIdAndResult) {
  hold_round_zero();
  coordinator.hang_up();
  FrameHeader h;
  ASSERT_TRUE(wait_for(&join, &h));
  EXPECT_EQ(join.id, 9u);
  EXPECT_EQ(join.round, 0);
  EXPECT_EQ(join.hash, done.hash);
  EXPECT_EQ(join.fingerprint, 7u);
  EXPECT_EQ(h.generation, 5u);
  coordinator.say(welcome(), header());
  Acknowledge formed;
  ASSERT_TRUE(wait_for(&formed));
  ASSERT_FALSE(formed.log.empty());
  EXPECT_EQ(formed.log.back().round, 0);
  EXPECT_EQ(formed.log.back().hash, done.hash);
  EXPECT_EQ(formed.log.back().ranges, (std::vector<Range>{{0, 0, 4}}));
}

TEST_F(WorkerTest, DoesNotApplyTheNextRoundBeforeThisOneIsCommitted) {
  hold_round_zero();
  EXPECT_FALSE(s.run_until([&] { return worker->replica->round() > 0; }, 1000));
  coordinator.say(Commit{.hash = done.hash}, header(0));
  ASSERT_TRUE(wait_for(&done));
  EXPECT_EQ(worker->replica->round(), 1);
}

TEST_F(WorkerTest, RefusesACoordinatorOfAnOlderGeneration) {
  hold_round_zero();
  generation = 4;
  coordinator.say(form(), header());
  Refuse refuse;
  FrameHeader h;
  ASSERT_TRUE(wait_for(&refuse, &h));
  EXPECT_EQ(h.generation, 5u);
  ASSERT_TRUE(wait_for_join_again());
  coordinator.say(welcome(), header());
  ASSERT_TRUE(wait_for(&refuse));
  EXPECT_EQ(worker->replica->round(), 0);
}

TEST_F(WorkerTest, DropsAndCountsFramesOfAnotherGeneration) {
  hold_round_zero();
  coordinator.say(Commit{.hash = done.hash}, {.job = Scenario::kJob, .generation = 4, .round = 0});
  coordinator.say(Commit{.hash = done.hash}, {.job = Scenario::kJob + 1, .generation = 5, .round = 0});
  ASSERT_TRUE(s.run_until([&] { return worker->worker->counters().find("job")->as_int() == 1; }));
  EXPECT_EQ(worker->worker->counters().find("stale")->as_int(), 1);
  EXPECT_EQ(worker->replica->round(), 0);
}

TEST_F(WorkerTest, GoesWhenTheCoordinatorRunsAnotherVersion) {
  ASSERT_TRUE(wait_for(&join));
  Welcome other = welcome();
  other.version = "9.9";
  coordinator.say(other, header());
  ASSERT_TRUE(s.run_until([&] { return worker->failed; }));
  EXPECT_NE(worker->error.find("9.9"), std::string::npos);
  EXPECT_NE(worker->error.find(PERIGEE_VERSION), std::string::npos);
}

TEST_F(WorkerTest, HearsWhenThereIsRoomForWhatItCouldNotAsk) {
  hold_round_zero();
  const Read read{.ids = std::vector<int64_t>(4096)};
  int asked = 0;
  while (asked < 10'000 && worker->worker->ask(read)) ++asked;
  ASSERT_LT(asked, 10'000) << "the queue is bounded";
  EXPECT_EQ(worker->writable, 0);
  ASSERT_TRUE(s.run_until([&] { return worker->writable > 0; }, 1000));
  EXPECT_TRUE(worker->worker->ask(read));
}

TEST_F(WorkerTest, LeavesACoordinatorThatFallsSilent) {
  hold_round_zero();
  ASSERT_TRUE(wait_for_join_again()) << "no answer to its heartbeats";
  EXPECT_EQ(join.round, 0);
}

TEST_F(WorkerTest, GivesUpWhenNobodyCoordinatesForLong) {
  s.run_for(10);
  coordinator.hang_up();
  s.network().block(1, 60);
  s.network().block(60, 1);
  const uint64_t begin = s.network().now_ns();
  ASSERT_TRUE(s.run_until([&] { return worker->failed; }, 300'000));
  EXPECT_NE(worker->error.find("no coordinator"), std::string::npos) << worker->error;
  EXPECT_NE(worker->error.find("the run may have ended while this worker was cut off; the first address tried was "), std::string::npos);
  EXPECT_LT(s.network().now_ns() - begin, 130'000 * sim::kMs);
  const auto says = [](const std::string& event) {
    return event.find("coordinator_missed") != std::string::npos && event.find("without for 120 s, then ends") != std::string::npos;
  };
  EXPECT_EQ(std::ranges::count_if(worker->events, says), 1) << "it says once that it looks for one, and for how long";
}

TEST_F(WorkerTest, StopsWhenItIsTold) {
  hold_round_zero();
  coordinator.say(Stop{.why = "finished", .finished = true}, header());
  ASSERT_TRUE(s.run_until([&] { return worker->stopped; }));
  EXPECT_TRUE(worker->finished);
  EXPECT_EQ(s.network().open_connections(worker->process), 0u);
  EXPECT_EQ(s.network().running_timers(worker->process), 0u);
}

TEST_F(WorkerTest, ClosesAStrangerThatIsNoWorker) {
  hold_round_zero();
  RawNode stranger(s.network(), 61, "host61:1");
  stranger.connect("host1:1");
  ASSERT_TRUE(s.run_until([&] { return stranger.connected; }));
  stranger.say(Link{.from = 3, .to = 4}, header());
  ASSERT_TRUE(s.run_until([&] { return stranger.lost; }));
}

TEST_F(WorkerTest, RefusesAChunkThatNoExchangeExpects) {
  hold_round_zero();
  RawNode peer(s.network(), 61, "host61:1");
  peer.connect("host1:1");
  ASSERT_TRUE(s.run_until([&] { return peer.connected; }));
  peer.say(Link{.from = 8, .to = 9}, header());
  peer.say(Chunk{.from = 8, .bucket = 1000}, header(1));
  ASSERT_TRUE(s.run_until([&] { return peer.lost; }));
  EXPECT_GE(worker->worker->counters().find("unexpected")->as_int(), 1);
}

}  // namespace
}  // namespace perigee
