// The coordinator's response to workers that lie, lag, or come from elsewhere.
#include "cluster/membership/coordinator.h"

#include "tests/cluster/protocol/scenario.h"
#include "tests/cluster/uv/raw_node.h"

namespace perigee {
namespace {

struct CoordinatorTest : testing::Test {
  Scenario s{{.workers = 0, .examples = 24, .epochs = 1, .batch = 4, .averaging = R"({"type": "periodic", "every": 1})"}};
  RawNode node{s.network(), 50, "host50:1"};
  uint64_t generation = 0;

  static constexpr uint32_t kPid = 77;
  Join join() { return {.version = PERIGEE_VERSION, .name = "raw", .host = "host50", .address = "host50:1", .pid = kPid}; }
  FrameHeader header(int64_t round = -1) { return {.job = Scenario::kJob, .generation = generation, .round = round}; }
  template <class M>
  bool wait_for(M* message, FrameHeader* h = nullptr) {
    return s.run_until([&] { return node.take(message, h); }, 20'000);
  }
  void connect() {
    node.connect(Scenario::kCoordinatorAddress);
    ASSERT_TRUE(s.run_until([&] { return node.connected; }));
  }
  bool wait_until_closed() {
    return s.run_until([&] { return node.lost; }, 20'000);
  }
  // Through Join, Propose and CatchUp to StartEpoch, holding the initial values.
  void take_part() {
    connect();
    node.say(join(), {.job = 0});
    Welcome welcome;
    ASSERT_TRUE(wait_for(&welcome));
    id = welcome.id;
    node.say(Acknowledge{.fingerprint = 7}, header());
    Propose form;
    FrameHeader h;
    ASSERT_TRUE(wait_for(&form, &h));
    generation = h.generation;
    node.say(Acknowledge{.fingerprint = 7}, header());
    CatchUp heal;
    ASSERT_TRUE(wait_for(&heal));
    EXPECT_EQ(heal.donor, 0u);
    node.say(CaughtUp{.round = -1, .hash = 11}, header());
    ASSERT_TRUE(wait_for(&go));
    EXPECT_EQ(go.base, -1);
    ASSERT_TRUE(wait_for(&lease));
  }
  int64_t dropped(const char* why) { return s.coordinator().counters().find(why)->as_int(); }

  WorkerId id = 0;
  StartEpoch go;
  Lease lease;
};

TEST_F(CoordinatorTest, RefusesAnotherVersionAndNamesBoth) {
  connect();
  Join other = join();
  other.version = "0.0.9";
  node.say(other, {.job = Scenario::kJob});
  Refuse refuse;
  ASSERT_TRUE(wait_for(&refuse));
  EXPECT_EQ(refuse.what, "the worker is of another version");
  EXPECT_EQ(refuse.got, "0.0.9");
  EXPECT_EQ(refuse.expected, PERIGEE_VERSION);
  EXPECT_EQ(refuse.hint, "install the same version on every machine");
  EXPECT_FALSE(refuse.retry);
  EXPECT_EQ(s.count_events("worker_refused"), 1u);
  EXPECT_TRUE(wait_until_closed());
}

TEST_F(CoordinatorTest, RefusesAWorkerOfAnotherRun) {
  connect();
  node.say(join(), {.job = Scenario::kJob + 1});
  Refuse refuse;
  ASSERT_TRUE(wait_for(&refuse));
  EXPECT_EQ(refuse.what, "the worker is of another run");
  EXPECT_EQ(refuse.hint, "start a new worker for this run");
  EXPECT_TRUE(wait_until_closed());
}

TEST_F(CoordinatorTest, RefusesAnotherProtocol) {
  connect();
  node.say(join(), {.job = Scenario::kJob, .protocol = kProtocol + 1});
  Refuse refuse;
  ASSERT_TRUE(wait_for(&refuse));
  EXPECT_EQ(refuse.what, "the worker speaks another version of the protocol");
  EXPECT_TRUE(wait_until_closed());
}

TEST_F(CoordinatorTest, RefusesAStandbyThatNobodyAskedFor) {
  connect();
  node.say(Follow{.version = PERIGEE_VERSION}, {.job = Scenario::kJob});
  Refuse refuse;
  ASSERT_TRUE(wait_for(&refuse));
  EXPECT_EQ(refuse.what, "this run has no standby");
  EXPECT_NE(refuse.hint.find("--standby HOST:PORT"), std::string::npos);
}

TEST_F(CoordinatorTest, ClosesAStrangerThatSaysNothing) {
  connect();
  EXPECT_TRUE(wait_until_closed());
}

TEST_F(CoordinatorTest, ClosesAStrangerThatSaysSomethingElse) {
  connect();
  node.say(Done{.hash = 1}, {.job = Scenario::kJob});
  EXPECT_TRUE(wait_until_closed());
  EXPECT_EQ(dropped("unexpected"), 1);
}

TEST_F(CoordinatorTest, EvictsAWorkerWhoseFrameIsMalformed) {
  take_part();
  std::vector<std::byte> frame = encode(Done{.hash = 5}, header(0));
  frame.back() = std::byte{1};
  frame.push_back({});
  write_header({.type = MessageType::done,
                .job = Scenario::kJob,
                .generation = generation,
                .round = 0,
                .length = static_cast<uint32_t>(frame.size() - kHeaderBytes)},
               std::span(frame).first<kHeaderBytes>());
  node.say_bytes(frame);
  EXPECT_TRUE(wait_until_closed());
  EXPECT_EQ(dropped("malformed"), 1);
  EXPECT_EQ(s.count_events("worker_lost"), 1u);
}

TEST_F(CoordinatorTest, DropsAndCountsFramesOfAnotherJobAndOfAnOlderGeneration) {
  take_part();
  node.say(Done{.hash = 5}, {.job = Scenario::kJob + 1, .generation = generation, .round = 0});
  node.say(Done{.hash = 5}, {.job = Scenario::kJob, .generation = generation - 1, .round = 0});
  node.say(Done{.hash = 5}, header(0));  // nothing has begun
  ASSERT_TRUE(s.run_until([&] { return dropped("unexpected") == 1; }));
  EXPECT_EQ(dropped("job"), 1);
  EXPECT_EQ(dropped("stale"), 1);
  EXPECT_EQ(s.coordinator().round(), -1);
}

TEST_F(CoordinatorTest, StopsWhenAWorkerHasSeenANewerGeneration) {
  take_part();
  node.say(Beat{}, {.job = Scenario::kJob, .generation = generation + 5, .round = 0});
  ASSERT_TRUE(s.run_until([&] { return s.failed_; }));
  EXPECT_NE(s.error_.find("generation " + std::to_string(generation + 5)), std::string::npos) << s.error_;
  EXPECT_TRUE(wait_until_closed());
  Stop stop;
  EXPECT_FALSE(node.take(&stop)) << "the workers belong to another coordinator by now";
}

TEST_F(CoordinatorTest, EvictsAWorkerThatClaimsForeignWork) {
  take_part();
  Ready ready{.examples = 4, .steps = 1, .ranges = {{0, 20, 4}}};  // the last of the epoch: not leased yet
  node.say(ready, header(0));
  EXPECT_TRUE(wait_until_closed());
  EXPECT_EQ(s.count_events("worker_lost"), 1u);
  EXPECT_EQ(s.coordinator().round(), -1);
}

TEST_F(CoordinatorTest, EvictsAWorkerThatClaimsThatItDidTheSameTwice) {
  take_part();
  Ready ready{.examples = 8, .steps = 2, .ranges = {lease.ranges[0], lease.ranges[0]}};
  node.say(ready, header(0));
  EXPECT_TRUE(wait_until_closed());
}

TEST_F(CoordinatorTest, WritesTheRecordBeforeItSaysCommit) {
  take_part();
  node.say(Ready{.examples = lease.ranges[0].count, .steps = 1, .ranges = {lease.ranges[0]}}, header(0));
  Begin begin;
  ASSERT_TRUE(wait_for(&begin));
  ASSERT_EQ(begin.shares.size(), 1u);
  EXPECT_EQ(begin.shares[0].ranges, std::vector<Range>{lease.ranges[0]});
  EXPECT_EQ(s.ledger_audit().rounds, 0);
  node.say(Done{.hash = 12}, header(0));
  Commit commit;
  ASSERT_TRUE(s.run_until([&] {
    EXPECT_EQ(s.coordinator().round() < 0, s.ledger_audit().rounds == 0);
    return node.take(&commit);
  }));
  EXPECT_EQ(commit.hash, 12u);
  EXPECT_EQ(s.ledger_audit().rounds, 1);
}

TEST_F(CoordinatorTest, LeasesWorkForTwoRoundsAndNoMore) {
  take_part();
  EXPECT_EQ(lease.ranges, (std::vector<Range>{{0, 0, 4}, {0, 4, 4}}));
  EXPECT_FALSE(lease.last);
}

TEST_F(CoordinatorTest, AnswersBeatsWithTheirTime) {
  take_part();
  node.say(Beat{.sent_ns = 77}, header(0));
  Beat beat;
  ASSERT_TRUE(wait_for(&beat));
  EXPECT_EQ(beat.echo_ns, 77u);
}

// It may have much to send, and be heard late: it must not take the coordinator for dead.
TEST_F(CoordinatorTest, BeatsUnaskedForAWorkerThatIsLate) {
  take_part();
  Beat beat{.echo_ns = 1};
  ASSERT_TRUE(wait_for(&beat));
  EXPECT_EQ(beat.echo_ns, 0u);
  EXPECT_GT(beat.sent_ns, 0u);
  EXPECT_FALSE(node.lost);
}

TEST_F(CoordinatorTest, AnswersWhoeverAsksForTheStatus) {
  take_part();
  RawNode curious(s.network(), 51, "host51:1");
  curious.connect(Scenario::kCoordinatorAddress);
  ASSERT_TRUE(s.run_until([&] { return curious.connected; }));
  curious.say(Status{.version = PERIGEE_VERSION}, {});
  Report report;
  ASSERT_TRUE(s.run_until([&] { return curious.take(&report); }));
  const Json status = Json::parse(report.json, "report");
  EXPECT_EQ(status.find("phase")->as_string(), "running");
  EXPECT_EQ(status.find("workers")->as_array().size(), 1u);
}

TEST_F(CoordinatorTest, TellsTheLiveView) {
  take_part();
  node.say(Beat{.sent_ns = 77, .step = 3, .examples_per_s = 50, .waits_for = "the round"}, header(0));
  Beat beat;
  ASSERT_TRUE(wait_for(&beat));
  const auto views = s.coordinator().workers();
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].name, "raw");
  EXPECT_EQ(views[0].state, "training");
  EXPECT_EQ(views[0].step, 3);
  EXPECT_EQ(views[0].waits_for, "the round");
  EXPECT_EQ(s.coordinator().status().find("workers")->as_array().size(), 1u);
}

// Nothing says that a worker that fell silent is dead, until its agent does: then the end of the run does not wait for it.
TEST_F(CoordinatorTest, ExpectsNoWorkerBackWhoseAgentSawItDie) {
  take_part();
  ASSERT_TRUE(s.run_until([&] { return s.count_events("worker_lost") == 1; }));
  EXPECT_EQ(s.coordinator().expected_back(), std::vector<std::string>{"raw"});
  s.coordinator().note_death("raw", kPid + 1);
  EXPECT_EQ(s.coordinator().expected_back(), std::vector<std::string>{"raw"}) << "an earlier process of that name";
  s.coordinator().note_death("raw", kPid);
  EXPECT_TRUE(s.coordinator().expected_back().empty());
}

TEST_F(CoordinatorTest, AwaitsNoAnswerToTheLastWordFromADeadWorker) {
  take_part();
  s.coordinator().stop("finished", true);
  EXPECT_EQ(s.coordinator().expected_back(), std::vector<std::string>{"raw"});
  s.coordinator().note_death("raw", kPid);
  EXPECT_TRUE(s.coordinator().expected_back().empty());
}

}  // namespace
}  // namespace perigee
