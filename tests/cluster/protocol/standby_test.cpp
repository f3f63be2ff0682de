// The standby by itself, and the arithmetic of who may coordinate.
#include "cluster/membership/standby.h"

#include "tests/cluster/protocol/scenario.h"
#include "tests/cluster/uv/raw_node.h"

namespace perigee {
namespace {

using Ids = std::vector<WorkerId>;

TEST(Votes, OfTwoSidesOnlyOneHasEnough) {
  for (size_t workers = 1; workers <= 7; ++workers) {
    Membership all{.generation = 1, .established = true};
    for (WorkerId id = 1; id <= workers; ++id) all.ids.push_back(id);
    for (uint32_t side = 0; side < (1u << workers); ++side) {
      Ids here, there;
      for (WorkerId id = 1; id <= workers; ++id) ((side >> (id - 1)) & 1 ? here : there).push_back(id);
      const bool coordinator = enough_votes(here, {&all, 1}, false), standby = enough_votes(there, {&all, 1}, true);
      EXPECT_NE(coordinator, standby) << here.size() << " of " << workers;
    }
  }
}

TEST(Votes, EveryMembershipThatMayBeInForceCounts) {
  const std::vector<Membership> known = {{1, true, {1, 2, 3}}, {2, false, {3, 4, 5}}};
  EXPECT_FALSE(enough_votes(Ids{1, 2}, known, true));
  EXPECT_TRUE(enough_votes(Ids{1, 2, 4, 5}, known, false));
  EXPECT_FALSE(enough_votes(Ids{3}, known, true));
  EXPECT_FALSE(enough_votes(Ids{1}, {}, true)) << "no answer is possible";
  EXPECT_FALSE(enough_votes(Ids{3, 4, 5}, {&known[1], 1}, true)) << "the first needed no votes: it may have none of these";
}

TEST(Votes, WhatIsRememberedIsWhatMayBeInForce) {
  std::vector<Membership> known;
  remember(&known, {3, true, {1, 2}});
  remember(&known, {2, true, {1, 2, 3}});
  remember(&known, {4, false, {1}});
  remember(&known, {5, false, {2}});
  EXPECT_EQ(known, (std::vector<Membership>{{3, true, {1, 2}}, {5, false, {2}}})) << "of one term the last proposal";
  remember(&known, {kGenerationsPerTerm + 1, false, {1, 2}});
  remember(&known, {4, false, {1}});
  EXPECT_EQ(known.size(), 3u);
  remember(&known, {5, true, {2}});
  EXPECT_EQ(known, (std::vector<Membership>{{5, true, {2}}, {kGenerationsPerTerm + 1, false, {1, 2}}}));
}

TEST(Votes, WhoIsMissingIsToldByMachine) {
  const std::vector<Membership> known = {{1, true, {1, 2, 3}}, {2, false, {3, 4}}};
  const std::map<WorkerId, Named> who = {{1, {1, "a/0", "a"}}, {2, {2, "b/0", "b"}}, {3, {3, "a/1", "a"}}};
  EXPECT_EQ(who_is_missing(Ids{2}, known, who), "unknown hosts (worker 4), host a (a/0, a/1)");
  EXPECT_EQ(who_is_missing(Ids{1, 2, 3, 4}, known, who), "");
}

struct StandbyTest : testing::Test, StandbyEvents {
  StandbyTest() {
    process = network.add_process(9, "standby:1");
    standby = std::make_unique<Standby>(
        StandbyOptions{.coordinator = "coordinator:1", .name = "s", .host = "h", .address = "standby:1", .job_id = 7},
        network.clock(process), network.rng(process), network.transport(process), *this);
    network.boot(process, standby.get());
    standby->start();
  }
  void on_event(const Json& event) override { events.push_back(event); }
  void on_take_over(const std::string&) override { took_over = true; }
  void on_stopped(const std::string&, bool) override { stopped = true; }
  void on_failed(const Error& e) override { error = e.what(); }

  bool run_until(const std::function<bool()>& condition, double limit_ms = 20'000) {
    const uint64_t end = network.now_ns() + static_cast<uint64_t>(limit_ms * 1e6);
    while (!condition()) {
      if (network.now_ns() > end || !network.step()) return false;
    }
    return true;
  }
  void run_for(double ms) {
    run_until([] { return false; }, ms);
  }
  FrameHeader header(uint64_t generation = 5) { return {.job = 7, .generation = generation}; }
  Follow followed() {
    Follow follow;
    EXPECT_TRUE(run_until([&] { return coordinator.take(&follow); }));
    return follow;
  }
  Replicated replicate(const Replicate& message, const std::vector<std::byte>& body = {}) {
    std::vector<std::byte> frame = encode(message, header(), body.size());
    frame.insert(frame.end(), body.begin(), body.end());
    coordinator.say_bytes(frame);
    Replicated answer;
    EXPECT_TRUE(run_until([&] { return coordinator.take(&answer); }));
    return answer;
  }
  static std::vector<std::byte> record(int64_t round) { return encode_record({.generation = 5, .round = round, .hash = 3}); }
  void come(RawNode& worker, WorkerId id) {
    worker.connect("standby:1");
    ASSERT_TRUE(run_until([&] { return worker.connected; }));
    worker.say(Join{.version = PERIGEE_VERSION, .name = "w", .host = "w", .address = "w:1", .id = id}, header());
  }
  // The coordinator's process ends.
  void kill_coordinator() { network.kill(0, false); }

  sim::Network network{1};
  RawNode coordinator{network, 0, "coordinator:1"};  // process 0
  int process = 0;
  std::unique_ptr<Standby> standby;
  bool took_over = false, stopped = false;
  std::string error;
  std::vector<Json> events;
};

TEST_F(StandbyTest, CopiesTheLedgerAndSaysHowFarItIs) {
  EXPECT_EQ(followed().bytes, 0u);
  const auto first = record(0), second = record(1);
  EXPECT_EQ(replicate({.offset = 0}, first).bytes, first.size());
  EXPECT_EQ(replicate({.offset = first.size()}, second).bytes, first.size() + second.size());
  EXPECT_EQ(standby->status().find("round")->as_int(), 1);
}

TEST_F(StandbyTest, APartThatIsMissingMakesItAskAnew) {
  followed();
  const auto first = record(0);
  replicate({.offset = 0}, first);
  std::vector<std::byte> frame = encode(Replicate{.offset = first.size() + 10}, header(), first.size());
  frame.insert(frame.end(), first.begin(), first.end());
  coordinator.say_bytes(frame);
  EXPECT_EQ(followed().bytes, first.size()) << "it comes again, with what it has";
}

TEST_F(StandbyTest, ConsentsOnceAndRemembers) {
  followed();
  EXPECT_EQ(replicate({.membership = {5, false, {1}}, .consent = true}).consent, 5u);
  EXPECT_EQ(replicate({.membership = {4, false, {2}}, .consent = true}).consent, 5u) << "an older one has no owner";
}

TEST_F(StandbyTest, SendsWorkersAwayWhileTheCoordinatorIsThere) {
  followed();
  replicate({.membership = {5, true, {1}}});
  RawNode worker(network, 20, "w:1");
  come(worker, 1);
  Refuse refuse;
  ASSERT_TRUE(run_until([&] { return worker.take(&refuse); }));
  EXPECT_TRUE(refuse.retry);
  EXPECT_FALSE(took_over);
}

TEST_F(StandbyTest, TakesOverWithHalfOfTheWorkersAndNotWithLess) {
  followed();
  replicate({.membership = {5, true, {1, 2, 3, 4}}});
  kill_coordinator();
  RawNode one(network, 20, "w:1"), other(network, 21, "w:2");
  come(one, 1);
  run_for(5000);
  EXPECT_FALSE(took_over);
  EXPECT_TRUE(one.lost) << "it is to look for the coordinator again, and still counts";
  come(other, 4);
  ASSERT_TRUE(run_until([&] { return took_over; }));
  const Inheritance all = standby->take();
  ASSERT_EQ(all.arrivals.size(), 1u);
  EXPECT_EQ(all.arrivals[0].frames.size(), 1u);
  EXPECT_EQ(all.generation, 5u);
  ASSERT_EQ(all.memberships.size(), 1u);
}

// The coordinator that a standby has become, when fewer workers come to it than it needs.
struct Alone : CoordinatorEvents {
  void on_round(int64_t, uint64_t, int64_t, int, const Figures&, int64_t) override {}
  void on_epoch(uint64_t) override {}
  void on_evaluated(const std::string&, const std::vector<std::string>&) override {}
  void on_image(uint64_t, int64_t, std::vector<std::byte>) override {}
  void on_event(const Json&) override {}
  void on_finished(int64_t) override {}
  void on_reopened() override {}
  void on_failed(const Error& e) override { error = e.what(); }
  std::string error;
};

TEST(TakeOver, IsGivenUpWithoutEnoughWorkers) {
  sim::Network network{1};
  const int process = network.add_process(0, "coordinator:1");
  const Json averaging = Json::parse(R"({"type": "allreduce"})", "test");
  sim::Disk disk;
  Alone alone;
  Coordinator coordinator({.job_id = 7,
                           .job = R"({"averaging": {"type": "allreduce"}})",
                           .policy = read_policy(&averaging, "test"),
                           .examples = 96,
                           .planned = 96,
                           .batch = 4,
                           .takes_over = true,
                           .is_standby = true,
                           .take_over_ms = 3000},
                          network.clock(process), network.rng(process), network.transport(process), disk, alone);
  network.boot(process, &coordinator);
  coordinator.start();
  while (alone.error.empty() && network.now_ns() < 60'000'000'000 && network.step()) {}
  EXPECT_NE(alone.error.find("standby: the standby could not take over: fewer than half of the workers came"), std::string::npos)
      << alone.error;
  EXPECT_NE(alone.error.find("the coordinator may be alive with the others"), std::string::npos) << alone.error;
}

TEST_F(StandbyTest, NeverTakesOverWithoutHavingHeardOfAMembership) {
  followed();
  kill_coordinator();
  RawNode one(network, 20, "w:1");
  come(one, 1);
  run_for(5000);
  EXPECT_FALSE(took_over);
}

TEST_F(StandbyTest, EndsWithTheRun) {
  followed();
  coordinator.say(Stop{.why = "finished", .finished = true}, header());
  EXPECT_TRUE(run_until([&] { return stopped; }));
  EXPECT_EQ(network.open_connections(process), 0u);
  EXPECT_EQ(network.running_timers(process), 0u);
}

TEST_F(StandbyTest, GivesUpWhenNobodyComes) {
  followed();
  replicate({.membership = {5, true, {1}}});
  kill_coordinator();
  EXPECT_TRUE(run_until([&] { return !error.empty(); }, 200'000));
}

TEST_F(StandbyTest, SaysThatItNeverFoundItsCoordinator) {
  kill_coordinator();
  ASSERT_TRUE(run_until([&] { return !error.empty(); }, 200'000));
  EXPECT_EQ(
      error,
      "s: the coordinator could not be reached; got coordinator:1; start the run with --advertise HOST:PORT, an address under which this "
      "machine reaches it");
}

TEST_F(StandbyTest, NamesTheMachineThatIsMissing) {
  followed();
  replicate({.membership = {5, true, {1, 2, 3}}, .who = {{1, "a/0", "a"}, {2, "b/0", "b"}, {3, "c/0", "c"}}});
  kill_coordinator();
  RawNode one(network, 20, "w:1");
  come(one, 2);
  const auto waiting = [&] {
    return std::find_if(events.begin(), events.end(), [](const Json& e) { return e.find("event")->as_string() == "waiting"; });
  };
  ASSERT_TRUE(run_until([&] { return waiting() != events.end(); }, 8000));
  EXPECT_EQ(waiting()->find("missing")->as_string(), "host a (a/0), host c (c/0)");
  run_for(3000);
  EXPECT_EQ(std::count_if(events.begin(), events.end(), [](const Json& e) { return e.find("event")->as_string() == "waiting"; }), 1);
  EXPECT_TRUE(run_until([&] { return !error.empty(); }, 200'000));
  EXPECT_NE(error.find("missing are host a (a/0), host c (c/0)"), std::string::npos) << error;
  EXPECT_NE(error.find("at least half of the workers of the run"), std::string::npos) << error;
  EXPECT_NE(error.find("the coordinator is gone, and too few of its workers came here"), std::string::npos) << error;
}

TEST_F(StandbyTest, HandsOverWhatWasAskedOfTheRun) {
  followed();
  replicate({.membership = {5, true, {1}}, .steering = R"({"pause": true})", .who = {{1, "a/0", "a"}}});
  replicate({.offset = 0});
  kill_coordinator();
  RawNode one(network, 20, "w:1");
  come(one, 1);
  ASSERT_TRUE(run_until([&] { return took_over; }));
  const Inheritance all = standby->take();
  EXPECT_EQ(all.steering, R"({"pause": true})");
  EXPECT_EQ(all.who.at(1).host, "a");
}

}  // namespace
}  // namespace perigee
