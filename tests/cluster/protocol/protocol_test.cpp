// The whole protocol in one thread: what happens to a cluster, and what must be so afterwards.
#include <tuple>

#include "tests/cluster/protocol/scenario.h"

namespace perigee {
namespace {

const char* const kPeriodic = R"({"type": "periodic", "every": 3})";

// ---- undisturbed ----

TEST(Scenario, ThreeWorkersAverageGradientsToTheEnd) {
  Scenario s({});
  ASSERT_TRUE(s.run_to_end());
  EXPECT_EQ(s.epochs_, (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(s.members_of_round_.back(), 3);
  s.check_sound();
}

TEST(Scenario, ThreeWorkersAverageParametersToTheEnd) {
  Scenario s({.averaging = kPeriodic});
  ASSERT_TRUE(s.run_to_end());
  EXPECT_EQ(s.epochs_, (std::vector<uint64_t>{0, 1}));
  s.check_sound();
}

TEST(Scenario, OneWorkerAloneGoesToTheEnd) {
  for (const char* averaging : {R"({"type": "allreduce"})", kPeriodic}) {
    Scenario s({.workers = 1, .averaging = averaging});
    ASSERT_TRUE(s.run_to_end());
    s.check_sound();
  }
}

TEST(Scenario, ShardsAreSummedAlikeByAnyNumberOfWorkers) {
  for (const int workers : {1, 2, 3, 4}) {
    Scenario s({.workers = workers, .averaging = R"({"type": "allreduce", "shards": 4})"});
    ASSERT_TRUE(s.run_to_end()) << workers;
    s.check_sound();
  }
}

TEST(Scenario, EveryTopologySumsTheSame) {
  for (const char* topology : {"star", "ring", "tree", "direct", "hierarchical", "auto"}) {
    for (const char* type : {"allreduce", "periodic"}) {
      Scenario s({.workers = 5, .averaging = std::string(R"({"type": ")") + type + R"(", "topology": ")" + topology + R"("})"});
      ASSERT_TRUE(s.run_to_end()) << topology << " " << type;
      s.check_sound();
    }
  }
}

// FakeReplica complains when a payload is merged as another's, and when what its codec did not send is lost or sent twice.
TEST(Scenario, EveryTopologyGathersPayloads) {
  for (const char* policy : {R"("periodic", "every": 3, "codec": "int8")", R"("allreduce", "codec": "int8")", R"("powersgd")"})
    for (const char* topology : {"star", "ring", "tree", "direct", "hierarchical", "auto"})
      for (const int workers : {1, 2, 5}) {
        Scenario s({.workers = workers, .averaging = std::string(R"({"type": )") + policy + R"(, "topology": ")" + topology + R"("})"});
        ASSERT_TRUE(s.run_to_end()) << policy << " " << topology << " " << workers;
        s.check_sound();
      }
}

TEST(Scenario, GradientsFirstAndPayloadsLater) {
  Scenario s({.averaging = R"({"type": "post_local", "sync_until": 0.5, "every": 2, "codec": "int4"})"});
  ASSERT_TRUE(s.run_to_end());
  s.check_sound();
}

// Once, and its work is done again; the third time it is evicted, whichever worker joined first.
TEST(Scenario, WhoSendsWhatIsNoPayloadIsNamed) {
  const char* const policies[] = {R"({"type": "periodic", "every": 2, "codec": "int8"})", R"({"type": "allreduce", "codec": "int8"})"};
  for (const auto& [policy, workers, times] : std::vector<std::tuple<const char*, int, int>>{{policies[0], 2, 1},
                                                                                             {policies[0], 2, 3},
                                                                                             {policies[0], 4, 1},
                                                                                             {policies[0], 4, 3},
                                                                                             {policies[1], 2, 1},
                                                                                             {policies[1], 2, 3},
                                                                                             {policies[1], 4, 1},
                                                                                             {policies[1], 4, 3}}) {
    Scenario s({.workers = workers, .examples = 480, .averaging = policy});
    ASSERT_TRUE(s.run_to_round(1));
    s.worker(0).faults.bad_payloads = times;
    ASSERT_TRUE(s.run_to_end()) << s.coordinator().status().dump();
    EXPECT_EQ(s.count_events("link_lost"), static_cast<size_t>(std::min(times, 2)));
    EXPECT_EQ(s.count_events("worker_lost"), times == 3 ? 1u : 0u);
    for (const Json& event : s.events_) {
      const std::string name = event.find("event")->as_string();
      const bool blames = name == "link_lost" || name == "worker_lost";
      EXPECT_TRUE(!blames || event.dump().find("host1/1") != std::string::npos) << event.dump();
    }
    s.check_sound();
  }
}

TEST(Scenario, RoundsByTimeEndToo) {
  Scenario s({.averaging = R"({"type": "periodic", "every_ms": 20})"});
  s.worker(1).faults.slow = 3;
  ASSERT_TRUE(s.run_to_end());
  s.check_sound();
}

TEST(Scenario, TheRunBeginsWhenAllExpectedWorkersHaveJoined) {
  Scenario s({.workers = 2, .expected_workers = 3});
  s.run_for(5'000);
  EXPECT_EQ(s.coordinator().generation(), 0u) << "two of three are there";
  s.add_worker();
  ASSERT_TRUE(s.run_to_end());
  EXPECT_EQ(s.members_of_round_.front(), 3);
  EXPECT_EQ(s.count_events("workers_missing"), 0u);
  s.check_sound();
}

TEST(Scenario, ExpectedWorkersThatNeverComeAreNotWaitedForForEver) {
  Scenario s({.workers = 2, .expected_workers = 3});
  ASSERT_TRUE(s.run_to_end());
  EXPECT_EQ(s.members_of_round_.front(), 2);
  EXPECT_EQ(s.count_events("workers_missing"), 1u);
  s.check_sound();
}

TEST(Scenario, AWorkerThatWillNotComeIsNoLongerExpected) {
  Scenario s({.workers = 2, .expected_workers = 3});
  s.run_for(2'000);
  EXPECT_EQ(s.coordinator().round(), -1);
  s.coordinator().expect_workers(2);
  ASSERT_TRUE(s.run_until([&] { return s.coordinator().round() >= 0; }, 5'000));
  EXPECT_EQ(s.count_events("workers_missing"), 0u);
  ASSERT_TRUE(s.run_to_end());
}

TEST(Scenario, PostLocalChangesFromGradientsToParameters) {
  Scenario s({.averaging = R"({"type": "post_local", "sync_until": 0.4, "every": 2})"});
  ASSERT_TRUE(s.run_to_end());
  EXPECT_GE(s.coordinator().generation(), 2u);
  s.check_sound();
}

TEST(Scenario, TheRunEndsAfterSoManyRounds) {
  for (const char* averaging : {R"({"type": "allreduce"})", kPeriodic}) {
    Scenario s({.averaging = averaging, .max_rounds = 3});
    ASSERT_TRUE(s.run_to_end());
    EXPECT_EQ(s.coordinator().round(), 2);
    s.check_sound();
  }
}

TEST(Scenario, WorkersEvaluateSlicesBetweenEpochs) {
  for (const char* averaging : {R"({"type": "allreduce"})", kPeriodic}) {
    Scenario s({.averaging = averaging, .evaluate = true});
    ASSERT_TRUE(s.run_to_end());
    EXPECT_EQ(s.evaluated_, (std::vector<std::string>{"test in 3", "test in 3"}));

    s.check_sound();
  }
}

// The slow worker's work is some rounds old whenever the membership changes: it goes on from where it began, and no worker repeats it.
TEST(Scenario, LocalWorkSurvivesAChangeOfMembership) {
  int stale = 0;
  for (int i = 0; i < 12; ++i) {
    Scenario s({.examples = 768,
                .averaging = R"({"type": "periodic", "every": 2, "quorum": 0.6, "grace_ms": 1, "max_staleness": 8})",
                .example_ms = 5});
    s.worker(2).faults.slow = 3;
    ASSERT_TRUE(s.run_to_round(5));
    s.run_for(11.0 * i);
    const bool joins = i % 2 == 0;
    const uint64_t before = s.coordinator().generation();
    if (joins) s.add_worker();
    else s.network().reset_connections(1, 2);
    ASSERT_TRUE(s.run_until([&] { return s.coordinator().generation() > before; }));
    ASSERT_TRUE(s.run_until([&] {
      for (const WorkerView& view : s.coordinator().workers()) stale += view.staleness > 0;
      return s.done_;
    }));
    s.check_sound();
    int64_t steps = 0;
    for (size_t worker = 0; worker < (joins ? 4u : 3u); ++worker) steps += s.worker(worker).replica->steps();
    EXPECT_EQ(steps * 4, 2 * 768) << "of " << (joins ? "a worker that joins" : "a link that breaks") << " " << 11 * i
                                  << " ms after round 5";
  }
  EXPECT_GT(stale, 0);
}

TEST(Scenario, AWorkerThatHangsInAnEvaluationIsReplaced) {
  for (const char* averaging :
       {R"({"type": "allreduce", "deadline_ms": 2000})", R"({"type": "periodic", "every": 2, "deadline_ms": 2000})"}) {
    Scenario s({.averaging = averaging, .evaluate = true});
    ASSERT_TRUE(s.run_until([&] { return s.epochs_.size() == 1; }));
    s.worker(1).faults.stuck = true;
    ASSERT_TRUE(s.run_to_end()) << averaging;
    EXPECT_EQ(s.count_events("worker_stuck"), 1u);
    EXPECT_EQ(s.evaluated_, (std::vector<std::string>{"test in 2", "test in 2"})) << "its share is done by the others";
    s.check_sound();
  }
}

TEST(Scenario, ASlowEvaluationIsWaitedFor) {
  Scenario s({.averaging = R"({"type": "allreduce", "deadline_ms": 2000})", .evaluate = true});
  ASSERT_TRUE(s.run_until([&] { return s.epochs_.size() == 1; }));
  s.worker(1).faults.slow = 1500;
  ASSERT_TRUE(s.run_until([&] { return s.evaluated_.size() == 1; }));
  EXPECT_EQ(s.evaluated_.front(), "test in 3");
  EXPECT_EQ(s.count_events("worker_stuck"), 0u);
}

TEST(Scenario, AnImageIsOfACommittedRound) {
  Scenario s({});
  ASSERT_TRUE(s.run_to_round(3));
  s.coordinator().request_image("checkpoint");
  s.coordinator().request_image("model");
  ASSERT_TRUE(s.run_until([&] { return s.images_.size() == 2; }));
  for (const auto& [round, bytes] : s.images_) {
    EXPECT_GE(round, 3);
    EXPECT_LE(round, s.coordinator().round());
    EXPECT_GT(bytes, 0u);
  }
  ASSERT_TRUE(s.run_to_end());
  s.check_sound();
}

// A launcher waits at an epoch's end for the checkpoint and at the run's end for the model: what it has asked for must come.
TEST(Scenario, AnImageComesThoughTheMembershipChanges) {
  for (const char* averaging : {R"({"type": "allreduce"})", kPeriodic}) {
    Scenario s({.examples = 960, .averaging = averaging});
    ASSERT_TRUE(s.run_to_round(3));
    s.coordinator().request_image("checkpoint");
    s.kill_worker(1);  // whichever worker was asked: the others form a new epoch
    s.coordinator().request_image("model");
    ASSERT_TRUE(s.run_until([&] { return s.images_.size() == 2; }));
    s.coordinator().request_image("checkpoint");
    s.pause_coordinator(4000);  // all workers leave it and come again
    ASSERT_TRUE(s.run_until([&] { return s.images_.size() == 3; }));
    for (const auto& image : s.images_) EXPECT_GT(image.second, 0u);
    ASSERT_TRUE(s.run_to_end());
    s.check_sound();
  }
}

// ---- workers come and go ----

TEST(Scenario, AWorkerJoinsWhileTheOthersTrain) {
  for (const char* averaging : {R"({"type": "allreduce"})", kPeriodic}) {
    Scenario s({.examples = 960, .averaging = averaging, .example_ms = 2});
    ASSERT_TRUE(s.run_to_round(2));
    s.add_worker();
    ASSERT_TRUE(s.run_to_end());
    EXPECT_EQ(s.members_of_round_.back(), 4);
    s.check_sound();
  }
}

TEST(Scenario, TheOthersFinishWhatALostWorkerHad) {
  for (const char* averaging : {R"({"type": "allreduce"})", kPeriodic}) {
    for (const bool power : {false, true}) {
      Scenario s({.averaging = averaging});
      ASSERT_TRUE(s.run_to_round(1));
      s.kill_worker(1, power);
      ASSERT_TRUE(s.run_to_end());
      EXPECT_EQ(s.count_events("worker_lost"), 1u);
      EXPECT_EQ(s.members_of_round_.back(), 2);
      s.check_sound();
    }
  }
}

TEST(Scenario, AWorkerLeavesOnRequest) {
  Scenario s({.averaging = kPeriodic});
  ASSERT_TRUE(s.run_to_round(1));
  s.worker(2).worker->leave("SIGTERM");
  EXPECT_TRUE(s.worker(2).stopped);
  ASSERT_TRUE(s.run_to_end());
  EXPECT_EQ(s.count_events("worker_left"), 1u);
  EXPECT_EQ(s.count_events("worker_lost"), 0u);
  s.check_sound();
}

TEST(Scenario, AStoppedWorkerIsEvictedFencedAndHeals) {
  for (const char* averaging : {R"({"type": "allreduce"})", kPeriodic}) {
    Scenario s({.examples = 960, .epochs = 6, .averaging = averaging});
    ASSERT_TRUE(s.run_to_round(1));
    s.network().pause(s.worker(1).process);
    const int64_t before = s.coordinator().round();
    ASSERT_TRUE(s.run_until([&] { return s.count_events("worker_lost") == 1; }, 2000)) << "it must be evicted within 2 s";
    ASSERT_TRUE(s.run_to_round(before + 3));
    s.network().resume(s.worker(1).process);
    ASSERT_TRUE(s.run_until([&] { return s.members_of_round_.back() == 3; }));
    ASSERT_TRUE(s.run_to_end());
    s.check_sound();
  }
}

// Messages lost towards it, from it, or both: in 2 s the others go on. The times are the virtual clock's.
TEST(Scenario, WhoeverIsCutOffIsEvictedWithinTwoSeconds) {
  for (int moment = 0; moment < 4; ++moment) {
    for (const auto& [out, in] : {std::pair{true, false}, {false, true}, {true, true}}) {
      Scenario s({.examples = 2400, .example_ms = 4, .seed = static_cast<uint64_t>(moment) + 1});
      ASSERT_TRUE(s.run_to_round(2));
      s.run_for(131.0 * moment);
      const uint64_t struck = s.network().now_ns();
      if (out) s.network().block(3, 0);
      if (in) s.network().block(0, 3);
      ASSERT_TRUE(s.run_until([&] { return s.count_events("worker_lost") == 1; }));
      EXPECT_LE(s.network().now_ns() - struck, 2'000'000'000u) << (out ? "out " : "") << (in ? "in" : "");
      if (out) s.network().unblock(3, 0);
      if (in) s.network().unblock(0, 3);
      ASSERT_TRUE(s.run_to_end());
      EXPECT_EQ(s.members_of_round_.back(), 3);
      s.check_sound();
    }
  }
}

TEST(Scenario, TheRunWaitsForEnoughWorkers) {
  Scenario s({.workers = 1, .min_workers = 2});
  s.run_for(3000);
  EXPECT_EQ(s.coordinator().round(), -1);
  s.add_worker();
  ASSERT_TRUE(s.run_to_end());
  s.check_sound();
}

TEST(Scenario, AWorkerWithOtherDataIsRefused) {
  Scenario s({});
  ASSERT_TRUE(s.run_to_round(0));
  const size_t other = s.add_worker(8);
  ASSERT_TRUE(s.run_until([&] { return s.worker(other).failed; }));
  EXPECT_NE(s.worker(other).error.find("another data set"), std::string::npos) << s.worker(other).error;
  EXPECT_NE(s.worker(other).error.find("0000000000000008"), std::string::npos) << s.worker(other).error;
  EXPECT_NE(s.worker(other).error.find("0000000000000007"), std::string::npos) << s.worker(other).error;
  ASSERT_TRUE(s.run_to_end());
  s.check_sound();
}

TEST(Scenario, AllWorkersDieAndNewOnesBeginAnew) {
  Scenario s({});
  ASSERT_TRUE(s.run_to_round(3));
  for (size_t i = 0; i < 3; ++i) s.kill_worker(i);
  s.run_for(500);
  for (size_t i = 0; i < 3; ++i) s.restart_worker(i);
  ASSERT_TRUE(s.run_to_end());
  EXPECT_EQ(s.count_events("rounds_voided"), 1u);
  s.check_sound();
}

TEST(Scenario, AStuckWorkerIsReportedAndReplaced) {
  Scenario s({.examples = 960, .epochs = 4});
  ASSERT_TRUE(s.run_to_round(5));
  s.worker(2).faults.stuck = true;
  ASSERT_TRUE(s.run_to_end());
  EXPECT_EQ(s.count_events("worker_stuck"), 1u);
  EXPECT_TRUE(s.worker(2).failed);
  s.check_sound();
}

// ---- links ----

TEST(Scenario, ACutLinkFormsTheSameWorkersAgain) {
  Scenario s({.examples = 480});
  ASSERT_TRUE(s.run_to_round(2));
  s.network().reset_connections(1, 2);
  ASSERT_TRUE(s.run_to_end());
  EXPECT_GE(s.count_events("link_lost"), 1u);
  EXPECT_EQ(s.count_events("worker_lost"), 0u);
  EXPECT_EQ(s.members_of_round_.back(), 3);
  s.check_sound();
}

TEST(Scenario, ALinkThatDoesNotHoldCostsTheLaterWorker) {
  Scenario s({.examples = 960, .epochs = 4, .averaging = R"({"type": "allreduce", "deadline_ms": 1000})"});
  ASSERT_TRUE(s.run_to_round(2));
  s.network().block(1, 2);
  s.network().block(2, 1);
  ASSERT_TRUE(s.run_until([&] { return s.count_events("worker_lost") > 0; }));
  const auto told = [&](size_t worker) {
    const auto& events = s.worker(worker).events;
    return std::any_of(events.begin(), events.end(), [](const std::string& event) {
      return event.find("no link between it and host") != std::string::npos &&
             event.find("it asks again by itself; a firewall between the two may be the reason") != std::string::npos;
    });
  };
  EXPECT_TRUE(s.run_until([&] { return told(0) || told(1); })) << "the one that is kept away says why";
  s.network().unblock(1, 2);
  s.network().unblock(2, 1);
  ASSERT_TRUE(s.run_to_end());
  s.check_sound();
}

// ---- quorum ----

TEST(Scenario, RoundClosesWithoutTheStraggler) {
  Scenario s({.workers = 4, .examples = 480, .averaging = R"({"type": "periodic", "every": 2, "quorum": 0.75, "grace_ms": 5})"});
  ASSERT_TRUE(s.run_to_round(1));
  s.worker(3).faults.slow = 4;
  ASSERT_TRUE(s.run_to_end());

  EXPECT_NE(std::count(s.members_of_round_.begin(), s.members_of_round_.end(), 3), 0);
  EXPECT_NE(std::count(s.members_of_round_.begin(), s.members_of_round_.end(), 4), 0) << "what the straggler did must be merged later";
  EXPECT_EQ(s.count_events("worker_lost"), 0u);
  s.check_sound();
}

TEST(Scenario, WorkThatIsTooOldIsDoneAgain) {
  Scenario s({.workers = 4,
              .examples = 480,
              .averaging = R"({"type": "periodic", "every": 2, "quorum": 0.5, "grace_ms": 1, "max_staleness": 1})"});
  ASSERT_TRUE(s.run_to_round(1));
  s.worker(3).faults.slow = 20;
  ASSERT_TRUE(s.run_to_end());
  EXPECT_GT(s.count_events("too_stale"), 0u);
  s.check_sound();
}

// ---- what is not finite, what is not equal ----

TEST(Scenario, AWorkerThatGivesNaNIsQuarantined) {
  for (const char* averaging : {R"({"type": "allreduce"})", kPeriodic}) {
    Scenario s({.examples = 480, .averaging = averaging});
    s.worker(1).faults.nan = 0.2;
    ASSERT_TRUE(s.run_to_end());
    EXPECT_GT(s.count_events("quarantined"), 0u) << averaging;
    s.check_sound();
  }
}

TEST(Scenario, ExamplesThatNobodyCanComputeAreSkipped) {
  for (const char* averaging : {R"({"type": "allreduce"})", R"({"type": "periodic", "every": 1})"}) {
    Scenario s({.averaging = averaging, .poison = {.epoch = 0, .begin = 40, .count = 1}});
    ASSERT_TRUE(s.run_to_end()) << averaging;
    EXPECT_EQ(s.count_events("skipped"), 1u) << averaging;
    EXPECT_GT(s.ledger_audit().skipped, 0);
    s.check_sound();
  }
}

// The text that the first event of a name has under a key; empty where there is none.
std::string text_of_event(const Scenario& s, const std::string& name, const char* key) {
  for (const Json& event : s.events_)
    if (event.find("event")->as_string() == name) return event.find(key)->as_string();
  return "";
}

TEST(Scenario, ADifferentResultIsOutvotedAndHealed) {
  for (const char* averaging : {R"({"type": "allreduce"})", kPeriodic}) {
    Scenario s({.averaging = averaging});
    ASSERT_TRUE(s.run_to_round(1));
    s.worker(0).faults.wrong_apply = true;
    ASSERT_TRUE(s.run_to_end());
    ASSERT_EQ(s.count_events("hash_mismatch"), 1u);
    EXPECT_NE(text_of_event(s, "hash_mismatch", "cause").find("those of most workers"), std::string::npos);
    s.check_sound();
  }
}

// Two replicas differ, and no third says which is right.
TEST(Scenario, ATieIsToldAsOne) {
  for (const char* averaging : {R"({"type": "allreduce"})", kPeriodic}) {
    Scenario s({.workers = 2, .averaging = averaging});
    ASSERT_TRUE(s.run_to_round(1));
    s.worker(0).faults.wrong_apply = true;
    ASSERT_TRUE(s.run_to_end());
    ASSERT_EQ(s.count_events("hash_mismatch"), 1u);
    const std::string cause = text_of_event(s, "hash_mismatch", "cause"), done = text_of_event(s, "hash_mismatch", "done");
    EXPECT_NE(cause.find("and as many workers hold the ones as the others"), std::string::npos) << cause;
    EXPECT_NE(done.find("which are right nobody can tell"), std::string::npos) << done;
  }
}

// The one of three whose result is wrong loses its connection, at any moment about then, and comes again; then another one does. What each had
// said and what it says is one voice: two hold the right result, not two the right and two the wrong one.
TEST(Scenario, AWorkerThatComesAgainHasOneVoice) {
  int told = 0;
  for (int steps = 0; steps < 60; ++steps) {
    Scenario s({.workers = 3});
    ASSERT_TRUE(s.run_to_round(1));
    s.worker(1).faults.wrong_apply = true;
    ASSERT_TRUE(s.run_until([&] { return !s.worker(1).faults.wrong_apply; }));
    for (int i = 0; i < steps; ++i) s.step();
    s.network().pause(s.worker(0).process);  // it answers when both are there again
    for (const int host : {2, 3}) {
      s.network().reset_connections(0, host);
      s.run_for(300);
    }
    s.network().resume(s.worker(0).process);
    ASSERT_TRUE(s.run_to_end()) << steps;
    const std::string cause = text_of_event(s, "hash_mismatch", "cause");
    EXPECT_EQ(cause.find("as many workers"), std::string::npos) << steps << " steps later: " << cause;
    told += cause.find("those of most workers") != std::string::npos;
    s.check_sound();
  }
  EXPECT_GT(told, 30);
}

// ---- the coordinator ----

TEST(Scenario, ARestartedCoordinatorGoesOnWithWhatTheWorkersHold) {
  for (const char* averaging : {R"({"type": "allreduce"})", kPeriodic}) {
    for (const bool power : {false, true}) {
      Scenario s({.examples = 480, .averaging = averaging});
      ASSERT_TRUE(s.run_to_round(5));
      const int64_t before = s.coordinator().round();
      s.kill_coordinator(power);
      if (power) {
        sim::SeededRng rng(3);
        s.disk().lose_power(rng);
      }
      s.run_for(700);
      s.start_coordinator(true);
      ASSERT_TRUE(s.run_until([&] { return s.coordinator().round() >= before; }));
      EXPECT_EQ(s.count_events("rounds_voided"), 0u);
      ASSERT_TRUE(s.run_to_end());
      s.check_sound();
    }
  }
}

TEST(Scenario, TheLedgerOfACoordinatorThatLostItsDiskIsCompletedFromTheLogs) {
  Scenario s({.examples = 480, .epochs = 1});
  s.disk().failing = true;  // nothing is ever on disk
  ASSERT_TRUE(s.run_to_round(8));
  s.kill_coordinator(true);
  sim::SeededRng rng(3);
  s.disk().failing = false;
  s.disk().lose_power(rng);
  s.start_coordinator(true);
  ASSERT_TRUE(s.run_to_end());
  s.check_sound();
}

TEST(Scenario, AHealedWorkerRemembersWhatItsDonorDid) {
  for (const char* averaging : {R"({"type": "allreduce"})", kPeriodic}) {
    Scenario s({.examples = 960, .epochs = 1, .averaging = averaging, .example_ms = 2});
    s.disk().failing = true;  // nothing is ever on disk
    ASSERT_TRUE(s.run_to_round(5));
    const size_t late = s.add_worker();
    ASSERT_TRUE(s.run_until([&] { return s.members_of_round_.back() == 4; }));
    for (size_t i = 0; i < late; ++i) s.kill_worker(i);
    s.kill_coordinator(true);
    sim::SeededRng rng(3);
    s.disk().failing = false;
    s.disk().lose_all();
    s.start_coordinator(true);
    ASSERT_TRUE(s.run_to_end());
    EXPECT_EQ(s.count_events("rounds_voided"), 0u);
    s.check_sound();
  }
}

TEST(Scenario, AFullDiskStopsNothing) {
  Scenario s({.examples = 480, .example_ms = 5});
  ASSERT_TRUE(s.run_to_round(2));
  s.disk().full = true;
  s.run_for(1000);
  EXPECT_EQ(s.count_events("ledger_unwritable"), 1u);
  EXPECT_GT(s.coordinator().round(), 4);
  s.coordinator().request_image("checkpoint");  // it must not be ahead of the ledger: who waits for it is told soon that there is none
  ASSERT_TRUE(s.run_until([&] { return s.images_.size() == 1; }, 10'000));
  EXPECT_EQ(s.images_[0].second, 0u);
  s.disk().full = false;
  ASSERT_TRUE(s.run_to_end());
  s.check_sound();
}

// ---- at every point ----

enum class Blow { kill_worker, restart_worker, kill_coordinator, kill_both, cut_link, stop_worker, stop_coordinator, join, nan, wrong };

struct Disturbance {
  Blow blow;
  const char* averaging;
};

void strike(Scenario& s, Blow blow, uint64_t n) {
  const size_t victim = n % 3;
  const int host = static_cast<int>(victim) + 1;
  switch (blow) {
    case Blow::kill_worker: return s.kill_worker(victim);
    case Blow::restart_worker: s.kill_worker(victim); return s.restart_worker(victim);
    case Blow::kill_both: s.kill_worker(victim); [[fallthrough]];
    case Blow::kill_coordinator:
      s.kill_coordinator();
      s.run_for(300);
      return s.start_coordinator(true);
    case Blow::cut_link: return s.network().reset_connections(host, host % 3 + 1);
    case Blow::stop_worker:
      s.network().pause(s.worker(victim).process);
      s.run_for(2500);
      return s.network().resume(s.worker(victim).process);
    case Blow::stop_coordinator: return s.pause_coordinator(3000);
    case Blow::join: s.add_worker(); return;
    case Blow::nan: s.worker(victim).faults.nan = 0.5; return;
    case Blow::wrong: s.worker(victim).faults.wrong_apply = true; return;
  }
}

class AtEveryPoint : public testing::TestWithParam<Disturbance> {};

// A run of a few rounds is disturbed once after n events of the world, for every n.
TEST_P(AtEveryPoint, NothingIsLost) {
  const auto setup = [&] { return Scenario::Setup{.examples = 36, .epochs = 1, .batch = 4, .averaging = GetParam().averaging}; };
  Scenario whole(setup());
  ASSERT_TRUE(whole.run_to_end());
  const uint64_t events = whole.network().events();
  size_t disturbed = 0;
  for (uint64_t n = 20; n < events; ++n) {
    Scenario s(setup());
    while (s.network().events() < n && !s.done_ && s.step()) {}
    if (s.done_) break;
    strike(s, GetParam().blow, n);
    ASSERT_TRUE(s.run_to_end()) << "after event " << n << ": " << s.coordinator().status().dump() << s.error_;
    s.check_sound();
    if (testing::Test::HasFailure()) FAIL() << "after event " << n;
    ++disturbed;
  }
  EXPECT_GT(disturbed, 100u);
}

std::vector<Disturbance> disturbances() {
  std::vector<Disturbance> all;
  for (const Blow blow : {Blow::kill_worker, Blow::restart_worker, Blow::kill_coordinator, Blow::kill_both, Blow::cut_link,
                          Blow::stop_worker, Blow::stop_coordinator, Blow::join, Blow::nan, Blow::wrong})
    for (const char* averaging :
         {R"({"type": "allreduce"})", R"({"type": "allreduce", "shards": 4, "topology": "tree"})", R"({"type": "periodic", "every": 2})",
          R"({"type": "periodic", "every": 1, "quorum": 0.6, "grace_ms": 1})", R"({"type": "post_local", "sync_until": 0.5, "every": 2})",
          R"({"type": "periodic", "every": 2, "codec": "int8"})",
          R"({"type": "periodic", "every": 1, "quorum": 0.6, "grace_ms": 1, "codec": "int8", "topology": "star"})"})
      all.push_back({blow, averaging});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Blows, AtEveryPoint, testing::ValuesIn(disturbances()));

// ---- anything, in any order ----

class Storm : public testing::TestWithParam<int> {};

void rage(uint64_t seed) {
  sim::SeededRng rng(seed * 7919);
  static const char* const kPolicies[] = {R"({"type": "allreduce"})",
                                          R"({"type": "allreduce", "shards": 8, "topology": "tree"})",
                                          R"({"type": "allreduce", "topology": "ring"})",
                                          R"({"type": "allreduce", "topology": "hierarchical"})",
                                          R"({"type": "periodic", "every": 2})",
                                          R"({"type": "periodic", "every_ms": 15})",
                                          R"({"type": "periodic", "every": 1, "quorum": 0.5, "grace_ms": 2, "max_staleness": 2})",
                                          R"({"type": "post_local", "sync_until": 0.4, "every": 2, "topology": "star"})",
                                          R"({"type": "periodic", "every": 2, "codec": "int8", "topology": "tree"})",
                                          R"({"type": "periodic", "every": 1, "quorum": 0.5, "grace_ms": 2, "codec": "int8"})"};
  Scenario s({.workers = static_cast<int>(rng.integer(1, 5)),
              .examples = rng.integer(20, 150),
              .epochs = rng.integer(1, 4),
              .batch = rng.integer(1, 7),
              .averaging = kPolicies[rng.integer(0, static_cast<int64_t>(std::size(kPolicies)) - 1)],
              .example_ms = rng.between(0.2, 10),
              .seed = seed,
              .evaluate = rng.chance(0.5)});
  const int64_t blows = rng.integer(0, 8);
  for (int64_t b = 0; b < blows && !s.done_; ++b) {
    s.run_for(rng.between(0, rng.chance(0.5) ? 40 : 1500));
    if (s.done_) break;
    s.strike_at_random(rng);
  }
  s.calm_down();
  const bool ended = s.run_to_end();
  if (!ended || std::getenv("PERIGEE_STORM")) s.print_events();
  ASSERT_TRUE(ended) << s.coordinator().status().dump(1) << s.error_;
  s.check_sound();
}

TEST_P(Storm, Passes) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const uint64_t number = static_cast<uint64_t>(GetParam()) * 100 + seed;
    rage(number);
    if (testing::Test::HasFailure()) FAIL() << "seed " << number;
  }
}

// One seed again: PERIGEE_STORM=621.
TEST(Storms, OneSeed) {
  if (const char* seed = std::getenv("PERIGEE_STORM")) rage(std::strtoull(seed, nullptr, 10));
}

INSTANTIATE_TEST_SUITE_P(Seeds, Storm, testing::Range(0, 5));

}  // namespace
}  // namespace perigee
