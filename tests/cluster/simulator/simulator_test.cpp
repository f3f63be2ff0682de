// A few hundred seeds of every policy, and each fault alone with the events that it must cause. tests/run_tests.py simulator runs many more.
#include <gtest/gtest.h>

#include "cluster/simulator/agent_world.h"
#include "cluster/simulator/tls_world.h"
#include "cluster/simulator/world.h"
#include "tests/cluster/simulator/properties.h"
#include "tests/cluster/simulator/standby_world.h"

namespace perigee::sim {
namespace {

TEST(Simulator, TheSameSeedIsTheSameRun) {
  for (uint64_t seed = 100; seed < 110; ++seed) {
    const Outcome one = simulate(make_scenario(seed)), other = simulate(make_scenario(seed));
    EXPECT_EQ(one.trace_hash, other.trace_hash);
    EXPECT_EQ(one.events, other.events);
  }
  EXPECT_NE(simulate(make_scenario(1)).trace_hash, simulate(make_scenario(2)).trace_hash);
}

class Policies : public testing::TestWithParam<std::string> {};

TEST_P(Policies, SurviveWhatTheSeedsBring) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const Outcome outcome = simulate(make_scenario(seed, GetParam()));
    EXPECT_TRUE(outcome.passed()) << "simulate --policy " << GetParam() << " --seed " << seed << ": " << outcome.failure;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Policies, testing::ValuesIn(scenario_policies()), [](const auto& info) { return info.param; });

class Topologies : public testing::TestWithParam<std::string> {};

TEST_P(Topologies, GiveEveryWorkerTheSameSumsForAnyNumberOfThem) {
  for (const char* type : {"allreduce", "periodic"})
    for (int workers = 1; workers <= 9; ++workers)
      for (const int per_host : {1, 3}) {
        Scenario s{.seed = static_cast<uint64_t>(workers), .workers = workers, .min_workers = workers, .workers_per_host = per_host};
        s.averaging = Json::object();
        s.averaging.set("type", type);
        s.averaging.set("topology", GetParam());
        const Outcome outcome = simulate(s);
        EXPECT_TRUE(outcome.passed()) << workers << " workers: " << outcome.failure;
        EXPECT_EQ(outcome.audit.counted, s.planned);
      }
}

INSTANTIATE_TEST_SUITE_P(All, Topologies, testing::Values("auto", "star", "ring", "tree", "direct", "hierarchical"),
                         [](const auto& info) { return info.param; });

// One fault in a quiet cluster: the run completes, and the coordinator names one root cause.
struct Expected {
  Fault fault;
  std::map<std::string, int64_t> events;  // of the coordinator
};

TEST(Faults, EachHasOneRootCause) {
  using Kind = Fault::Kind;
  const Expected expected[] = {
      {{.kind = Kind::worker_kill, .at_ms = 600, .for_ms = 300}, {{"worker_lost", 1}}},
      {{.kind = Kind::worker_power, .at_ms = 600, .for_ms = 4000}, {{"worker_lost", 1}}},
      {{.kind = Kind::worker_pause, .at_ms = 600, .for_ms = 8000}, {{"worker_lost", 1}}},
      {{.kind = Kind::worker_pause, .at_ms = 600, .for_ms = 500}, {}},
      {{.kind = Kind::partition, .at_ms = 600, .for_ms = 9000}, {{"worker_lost", 1}}},
      {{.kind = Kind::half_open, .at_ms = 600}, {{"link_lost", 1}}},
      {{.kind = Kind::leave, .at_ms = 600}, {{"worker_left", 1}}},
      {{.kind = Kind::join, .at_ms = 600}, {}},
      {{.kind = Kind::stuck, .at_ms = 600}, {{"worker_stuck", 1}}},
      {{.kind = Kind::wrong_data, .at_ms = 600}, {{"worker_refused", 1}}},
      {{.kind = Kind::wrong_apply, .at_ms = 600}, {{"hash_mismatch", 1}}},
      {{.kind = Kind::trainer_fails, .at_ms = 600}, {{"worker_failed", 1}}},
      {{.kind = Kind::disk_full, .at_ms = 600, .for_ms = 2000}, {{"ledger_unwritable", 1}}},
      {{.kind = Kind::coordinator_kill, .at_ms = 600, .for_ms = 500}, {{"coordinator_recovered", 1}}},
  };
  static const char* const kRootCauses[] = {
      "worker_lost",           "worker_left", "worker_stuck",  "worker_refused", "hash_mismatch", "ledger_unwritable",
      "coordinator_recovered", "link_lost",   "rounds_voided", "quarantined",    "skipped"};
  for (const Expected& one : expected) {
    Scenario s{.seed = 7, .workers = 4, .examples = 200, .planned = 800};
    s.faults = {one.fault};
    const Outcome outcome = simulate(s);
    const std::string name = to_string(one.fault.kind);
    EXPECT_TRUE(outcome.passed()) << name << ": " << outcome.failure;
    EXPECT_EQ(outcome.sites.count(name), 1u) << name << " did not take hold";
    for (const char* cause : kRootCauses) {
      const auto said = outcome.sites.find(cause), meant = one.events.find(cause);
      EXPECT_EQ(said == outcome.sites.end() ? 0 : said->second, meant == one.events.end() ? 0 : meant->second) << name << ": " << cause;
    }
  }
}

TEST(Faults, AScenarioReachesEveryKind) {
  std::map<std::string, int> reached;
  for (uint64_t seed = 0; seed < 300; ++seed)
    for (const char* policy : {"", "partitioned"})
      for (const Fault& fault : make_scenario(seed, policy).faults) ++reached[to_string(fault.kind)];
  for (int kind = 0; kind < static_cast<int>(Fault::Kind::count); ++kind) EXPECT_GT(reached[to_string(static_cast<Fault::Kind>(kind))], 0);
}

// Who is evicted takes the run below its least number of workers, at any moment of a round.
TEST(Faults, BelowTheLeastNumberOfWorkersTheRunWaits) {
  for (const char* averaging : {"allreduce", "periodic"})
    for (int i = 0; i < 40; ++i) {
      Scenario s{.seed = 11, .workers = 4, .min_workers = 4, .examples = 92, .planned = 368, .example_ms = 0.5};
      s.averaging = averaging;
      s.faults = {{.kind = Fault::Kind::partition_outgoing, .at_ms = 590.0 + i, .for_ms = 3000, .who = i % 4}};
      const Outcome outcome = simulate(s);
      EXPECT_TRUE(outcome.passed()) << averaging << " at " << s.faults[0].at_ms << ": " << outcome.failure;
    }
}

// Two workers stop hearing each other, for good or until they make a new link: the others do not wait for them.
TEST(Faults, ALinkThatCarriesNothingCostsThreeSeconds) {
  for (const Fault::Kind kind : {Fault::Kind::half_open, Fault::Kind::partition_pair})
    for (const char* averaging : {"allreduce", "periodic"})
      for (int i = 0; i < 20; ++i) {
        Scenario s{.seed = static_cast<uint64_t>(i), .workers = 4, .examples = 400, .planned = 4000, .example_ms = 20};
        s.averaging = averaging;
        s.faults = {{.kind = kind, .at_ms = 700.0 + 7 * i, .for_ms = 15000, .who = i % 4, .other = (i + 1 + i / 4 % 3) % 4}};
        const Outcome outcome = simulate(s);
        EXPECT_TRUE(outcome.passed()) << averaging << ", " << to_string(kind) << ": " << outcome.failure;
        EXPECT_LT(outcome.longest_pause_ms, 3000) << averaging << ", " << to_string(kind) << ", seed " << i;
      }
}

// A worker that is sent away because its link does not hold hears that the run is over, though it must not join before.
TEST(Faults, AWorkerThatWasSentAwayHearsOfTheEnd) {
  int sent_away = 0;
  for (int i = 0; i < 100; ++i) {
    Scenario s{.seed = static_cast<uint64_t>(i), .workers = 2, .examples = 400, .planned = 1600, .example_ms = 5};
    for (int blow = 0; blow < 12; ++blow)
      s.faults.push_back({.kind = Fault::Kind::reset_pair, .at_ms = 700.0 + 40 * i + 500 * blow, .who = 0, .other = 1});
    const Outcome outcome = simulate(s);
    EXPECT_TRUE(outcome.passed()) << "seed " << i << ": " << outcome.failure;
    sent_away += outcome.sites.contains("worker_lost");
  }
  EXPECT_GT(sent_away, 20);
}

// All who hold the last rounds lose their power after the launcher was told that all is committed, and before it has the result.
TEST(Faults, AResultThatIsLostAtTheEndIsMadeAgain) {
  int64_t reopened = 0;
  for (int i = 0; i < 60; ++i) {
    Scenario s{.seed = 5, .workers = 1, .examples = 40, .planned = 80, .example_ms = 2, .evaluates = i % 2 == 0};
    s.averaging = i % 3 == 0 ? "allreduce" : "periodic";
    s.faults = {{.kind = Fault::Kind::worker_power, .at_ms = 480.0 + i, .for_ms = 200}};
    const Outcome outcome = simulate(s);
    EXPECT_TRUE(outcome.passed()) << "at " << s.faults[0].at_ms << ": " << outcome.failure;
    EXPECT_EQ(outcome.audit.counted, s.planned);
    reopened += outcome.sites.contains("reopened") ? 1 : 0;
  }
  EXPECT_GT(reopened, 0);
}

// Joint results of several batches, which two idle workers have to try one after the other.
TEST(Faults, ExamplesThatNobodyCanComputeEndNoWorker) {
  for (int i = 0; i < 60; ++i) {
    Scenario s{.seed = static_cast<uint64_t>(i), .workers = 2 + i % 2, .examples = 60, .planned = 120, .batch = 20, .example_ms = 12};
    s.averaging = Json::parse(R"({"type": "periodic", "every": 3, "deadline_ms": 1000})", "averaging");
    if (i % 3 == 0) s.averaging.set("quorum", 0.4), s.averaging.set("grace_ms", 50.0);
    s.network.latency_ms = 10;
    s.faults = {{.kind = Fault::Kind::poison, .how = i / 60.0}};
    const Outcome outcome = simulate(s);
    EXPECT_TRUE(outcome.passed()) << "poison at " << s.faults[0].how << ": " << outcome.failure;
    EXPECT_FALSE(outcome.sites.contains("worker_lost") || outcome.sites.contains("worker_stuck")) << "poison at " << s.faults[0].how;
    EXPECT_GT(outcome.audit.skipped, 0);
  }
}

TEST(Simulator, ScenariosHoldTheirProperties) {
  for (const Property& property : kProperties)
    for (uint64_t seed = 0; seed < 12; ++seed) EXPECT_EQ(property.failure(seed), "") << property.name << ", seed " << seed;
}

TEST(Simulator, SeedsThatOnceFailedPass) {
  for (const uint64_t seed :
       {2466,   15485,  16823,  18053,  20812,  22758,  25029,  48345,  59676,  63547,  72171,   86490,   138042,  146704,
        152020, 194250, 205281, 221885, 290978, 293292, 296133, 355610, 394091, 500745, 3003466, 8017093, 23001975}) {
    const Outcome outcome = simulate(make_scenario(seed));
    EXPECT_TRUE(outcome.passed()) << "seed " << seed << ": " << outcome.failure;
  }
  const std::pair<const char*, uint64_t> of_policies[] = {
      {"streaming", 40873},    {"streaming", 103257},   {"streaming", 7002182}, {"streaming", 7002954},     {"nested", 7002182},
      {"steered", 7002034},    {"overlap", 7001196},    {"streaming", 9501298}, {"streaming", 21003555},    {"streaming", 21006170},
      {"streaming", 22001235}, {"streaming", 22008177}, {"steered", 7003633},   {"steered", 22003109},      {"steered", 9501073},
      {"steered", 103300},     {"steered", 104407},     {"steered", 21008088},  {"nested", 23007343},       {"partitioned", 247},
      {"partitioned", 721},    {"auto", 12104},         {"allreduce", 12504},   {"allreduce_passes", 13016}};
  for (const auto& [policy, seed] : of_policies) {
    const Outcome outcome = simulate(make_scenario(seed, policy));
    EXPECT_TRUE(outcome.passed()) << "seed " << seed << " of " << policy << ": " << outcome.failure;
  }
}

TEST(Simulator, EncryptedConnectionsSurviveAnyCutsAndNoMischief) {
  std::map<std::string, int64_t> reached;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const TlsOutcome outcome = simulate_tls(seed);
    EXPECT_TRUE(outcome.passed()) << "simulate --tls --from " << seed << " --seeds 1: " << outcome.failure;
    for (const auto& [site, times] : outcome.sites) reached[site] += times;
  }
  for (const char* site :
       {"opened", "refused", "wrong_key", "flip", "drop", "repeat", "swap", "add", "cut", "swallow", "said_again", "noticed"})
    EXPECT_GT(reached[site], 0) << site;
}

TEST(Simulator, AgentsRunEachWorkerOnceAndLeaveNone) {
  std::map<std::string, int64_t> reached;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const AgentOutcome outcome = simulate_agents(seed);
    EXPECT_TRUE(outcome.passed()) << "simulate --agents --trace --from " << seed << " --seeds 1: " << outcome.failure;
    for (const auto& [site, times] : outcome.sites) reached[site] += times;
  }
  for (const char* site : {"started", "restarted", "end_told", "end_told_restarted", "agent_kill", "agent_power", "agent_cut_off",
                           "launcher_kill", "agent_lost", "agent_back"})
    EXPECT_GT(reached[site], 0) << site;
  EXPECT_EQ(simulate_agents(7).trace_hash, simulate_agents(7).trace_hash);
}

TEST(Simulator, WithAStandbyOneLineIsCommittedWhateverHappens) {
  int taken_over = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const StandbyOutcome outcome = simulate_standby(seed);
    EXPECT_EQ(outcome.failure, "") << "simulate_standby --seed " << seed;
    taken_over += outcome.taken_over;
  }
  EXPECT_GT(taken_over, 40);
}

TEST(Simulator, WorkersComeAndGo) {
  Scenario s{.seed = 3, .workers = 1, .examples = 400, .planned = 8000};
  for (int i = 0; i < 15; ++i) s.faults.push_back({.kind = Fault::Kind::join, .at_ms = 300.0 + 40 * i});
  for (int i = 0; i < 13; ++i) s.faults.push_back({.kind = Fault::Kind::leave, .at_ms = 1500.0 + 60 * i, .who = i});
  const Outcome outcome = simulate(s);
  EXPECT_TRUE(outcome.passed()) << outcome.failure;
  EXPECT_EQ(outcome.audit.counted, s.planned);
  EXPECT_EQ(outcome.sites.count("worker_left"), 1u);
}

}  // namespace
}  // namespace perigee::sim
