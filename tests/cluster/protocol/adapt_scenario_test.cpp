// Rounds that follow the run, and what is left out of them, between a real coordinator and real workers on a virtual clock.
#include "tests/cluster/protocol/scenario.h"

namespace perigee {
namespace {

std::string text_of(const Json& event, const char* key) { return event.find(key)->as_string(); }

TEST(Scenario, AContributionThatIsFarTooLargeIsLeftOut) {
  Scenario s({.workers = 4, .examples = 960, .averaging = R"({"type": "periodic", "every": 3})"});
  s.worker(1).faults.outlying = 0.2;
  ASSERT_TRUE(s.run_to_end());
  EXPECT_GT(s.count_events("outlying"), 0u);
  for (const Json& event : s.events_)
    if (text_of(event, "event") == "outlying") {
      EXPECT_EQ(text_of(event, "worker"), s.worker(1).name);
      EXPECT_NE(text_of(event, "cause").find("where the median is"), std::string::npos);
    }
  EXPECT_EQ(s.ledger_audit().skipped, 0) << "others can do what it got wrong";
  s.check_sound();
}

TEST(Scenario, WithoutTheGuardNothingIsLeftOut) {
  Scenario s({.workers = 2, .examples = 480, .averaging = R"({"type": "periodic", "every": 3, "outlier": 0})"});
  s.worker(1).faults.outlying = 0.2;
  ASSERT_TRUE(s.run_to_end());
  EXPECT_EQ(s.count_events("outlying"), 0u);
  s.check_sound();
}

TEST(Scenario, AWorkerThatIsOfNoUseIsSentAway) {
  for (const bool large : {true, false}) {
    Scenario s({.workers = 4, .examples = 960, .averaging = R"({"type": "periodic", "every": 3})"});
    ASSERT_TRUE(s.run_to_round(2));
    (large ? s.worker(1).faults.outlying : s.worker(1).faults.nan) = 1;
    ASSERT_TRUE(s.run_to_end());
    EXPECT_EQ(s.count_events("worker_lost"), 1u);
    EXPECT_EQ(s.ledger_audit().skipped, 0);
  }
}

TEST(Scenario, BySpeedNobodyWaitsForASlowWorker) {
  uint64_t took[2] = {};
  for (const bool by_speed : {false, true}) {
    Scenario s({.workers = 4,
                .examples = 3840,
                .epochs = 1,
                .averaging = std::string(R"({"type": "periodic", "every": 8, "by_speed": )") + (by_speed ? "true}" : "false}")});
    s.worker(2).faults.slow = 4;
    ASSERT_TRUE(s.run_to_round(8));
    const uint64_t begin = s.network().now_ns();
    double share = 0;
    for (const WorkerView& view : s.coordinator().workers())
      if (view.name == s.worker(2).name) share = view.share;
    EXPECT_NEAR(share, by_speed ? 2.0 / (3 * 8 + 2) : 0.25, 0.01);
    ASSERT_TRUE(s.run_to_end());
    took[by_speed] = s.network().now_ns() - begin;
    s.check_sound();
  }
  EXPECT_LT(static_cast<double>(took[1]), 0.6 * static_cast<double>(took[0]));
}

TEST(Scenario, AveragesComeAsOftenAsTheNetworkAllows) {
  for (const double latency_ms : {2.0, 20.0}) {
    Scenario s({.workers = 3,
                .examples = 200'000,
                .epochs = 1,
                .averaging = R"({"type": "periodic", "every": "auto", "utilisation": 0.8, "every_max": 500})"});
    s.network().set_quality({.latency_ms = latency_ms, .jitter_ms = 0});
    ASSERT_TRUE(s.run_to_round(12));
    for (int64_t round = 13; round < 20; ++round) {
      ASSERT_TRUE(s.run_to_round(round));
      EXPECT_NEAR(s.coordinator().round_view().utilisation, 0.8, 0.1) << latency_ms;
    }
    EXPECT_GT(s.count_events("pace"), 0u);
  }
}

}  // namespace
}  // namespace perigee
