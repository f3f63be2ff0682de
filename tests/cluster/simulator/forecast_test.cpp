// Forecasts against what can be worked out by hand: compute time alone, and the transport arithmetic of star, ring and direct exchanges.
#include "cluster/simulator/forecast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/core/error.h"

namespace perigee::sim {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

Json averaging(const char* type, int every = 0, const char* topology = "auto") {
  Json json(Json::Object{{"type", type}, {"topology", topology}});
  if (every > 0) json.set("every", every);
  return json;
}

// `megabytes` in one bucket, an ideal network.
ForecastInput input(int nodes, Json averaging, double megabytes = 0.2) {
  ForecastInput in;
  in.nodes = nodes, in.averaging = std::move(averaging);
  in.bytes_per_s = kInfinite, in.latency_ms = 0;
  in.times = {.step_ms = 10, .stage_ms = 0, .apply_ms = 0, .batch = 10};
  in.examples = 12'000, in.planned = 12'000;
  in.layout = {.sums = std::llround(megabytes * 1e6) / 128 * 32, .maxima = 2};
  in.buckets = {{0, in.layout.bytes()}};
  in.image_bytes = in.layout.bytes();
  return in;
}

TEST(Forecast, OnAnIdealNetworkTheTimeIsThatOfComputing) {
  for (const Json& policy : {averaging("allreduce"), averaging("periodic", 1), averaging("periodic", 5), averaging("periodic", 20)})
    for (int nodes = 1; nodes <= 4; ++nodes) {
      const Forecast f = forecast(input(nodes, policy));
      EXPECT_NEAR(f.wall_s, 12.0 / nodes, 0.001 * f.wall_s) << policy.dump() << " on " << nodes;
      EXPECT_NEAR(f.computing, 1, 0.001) << policy.dump() << " on " << nodes;
      EXPECT_NEAR(f.examples_per_s, 1000 * nodes, 1.0 * nodes);
      EXPECT_EQ(f.share, 1);
      EXPECT_EQ(f.lost_examples, 0);
    }
}

TEST(Forecast, StagingAndApplyingAddToEveryRound) {
  ForecastInput in = input(3, averaging("periodic", 5));
  in.times.stage_ms = 4, in.times.apply_ms = 6;
  const Forecast f = forecast(in);
  EXPECT_EQ(f.rounds, 80);
  EXPECT_NEAR(f.wall_s, 80 * (5 * 0.010 + 0.004 + 0.006), 0.01);
  EXPECT_NEAR(f.computing, 50.0 / 60, 0.005);
}

// A codec's payload goes to everybody else as it is, at each step and after local steps alike.
TEST(Forecast, PayloadsGoToEverybody) {
  Json periodic = averaging("periodic", 1, "direct");
  periodic.set("codec", Json(Json::Object{{"type", "sign"}, {"feedback", false}, {"scale", "one"}}));
  for (const Json& policy : {averaging("signsgd", 0, "direct"), periodic}) {
    const ForecastInput in = input(4, policy);
    const double payload = 16 + static_cast<double>(in.layout.sums) / 8;
    const Forecast f = forecast(in);
    EXPECT_EQ(f.rounds, 300) << policy.dump();
    EXPECT_NEAR(f.sent_per_worker, 300 * 3 * payload, 0.1 * 300 * 3 * payload) << policy.dump();
  }
}

// Per round and worker S bytes, K workers, B bytes per second each way: direct and ring 2 (K-1)/K S; star K-1 times S in and again out
// at its middle. One chunk per segment, so that nothing of the way back overlaps with the way there.
struct Transfer {
  const char* topology;
  double busiest;  // bytes through the busiest host, each way, of S; equal to what its round takes at B
  double mean_sent;
  int hops;
};

TEST(Forecast, ASlowNetworkTakesWhatTheTransportArithmeticSays) {
  constexpr int kNodes = 4;
  const Transfer transfers[] = {{"direct", 1.5, 1.5, 2}, {"ring", 1.5, 1.5, 6}, {"star", 6, 1.5, 2}};
  for (const Transfer& t : transfers)
    for (const double rate : {250e3, 1.25e6})
      for (const double latency_ms : {0.0, 20.0}) {
        ForecastInput in = input(kNodes, averaging("periodic", 10, t.topology));
        in.bytes_per_s = rate, in.latency_ms = latency_ms, in.image_bytes = 1;
        const auto bytes = static_cast<double>(in.layout.bytes());
        const Forecast f = forecast(in);
        ASSERT_EQ(f.rounds, 30);
        // Each hop takes the latency once; the round's announcement (Ready, Begin) twice.
        const double round_s = 0.1 + t.busiest * bytes / rate + (t.hops + 2) * latency_ms / 1e3;
        EXPECT_NEAR(f.wall_s, 30 * round_s, 0.03 * 30 * round_s) << t.topology << " at " << rate << " bytes/s, " << latency_ms << " ms";
        EXPECT_NEAR(f.sent_per_worker, 30 * t.mean_sent * bytes, 0.03 * 30 * t.mean_sent * bytes) << t.topology;
        EXPECT_NEAR(f.computing, 0.1 / round_s, 0.03 * 0.1 / round_s) << t.topology;
      }
}

// 30 rounds of 10 steps of 10 ms, and S on the wire each: beside the steps, S takes less time than they do, and only the last round shows.
TEST(Forecast, OverlapHidesATransferThatIsShorterThanTheSteps) {
  for (const bool overlap : {false, true}) {
    Json policy = averaging("periodic", 10, "direct");
    policy.set("overlap", overlap);
    ForecastInput in = input(4, policy);
    in.image_bytes = 1;
    const double transfer_s = 0.06;
    in.bytes_per_s = 1.5 * static_cast<double>(in.layout.bytes()) / transfer_s;
    const Forecast f = forecast(in);
    EXPECT_EQ(f.rounds, 30);
    EXPECT_NEAR(f.wall_s, 30 * 0.1 + (overlap ? 1 : 30) * transfer_s, 0.03 * f.wall_s) << overlap;
  }
}

// Two fragments: rounds twice as often, half as large. The last one averages both.
TEST(Forecast, ARoundOfFragmentsSendsThoseThatAreDue) {
  Json policy = averaging("periodic", 10, "direct");
  policy.set("fragments", 2);
  const ForecastInput in = input(4, policy);
  const Forecast f = forecast(in);
  EXPECT_EQ(f.rounds, 60);
  const double whole = 1.5 * static_cast<double>(in.layout.bytes());
  EXPECT_NEAR(f.sent_per_worker, (59 * 0.5 + 1) * whole, 0.05 * 30 * whole);
}

// ---- with a server: what it is sent and sends goes through the connection of the coordinator's host ----

Json served(int every, const char* merge = "reset", int merge_every = 1) {
  Json json = Json::parse(R"({"type": "custom", "synchrony": "server",
      "outer": {"program": [{"op": "add", "in": ["mean", 0], "out": "t1"}], "outputs": {"global": "t1"}}})",
                          "test");
  json.set("every", every), json.set("merge", merge), json.set("merge_every", merge_every);
  return json;
}

TEST(Forecast, WorkersOfAServerWaitForNobody) {
  for (int nodes = 1; nodes <= 4; ++nodes) {
    const Forecast f = forecast(input(nodes, served(5)));
    EXPECT_EQ(f.rounds, 240) << nodes;
    EXPECT_NEAR(f.wall_s, 12.0 / nodes, 0.01 * f.wall_s) << nodes;
    EXPECT_NEAR(f.computing, 1, 0.01) << nodes;
    EXPECT_EQ(f.lost_examples, 0);
  }
  // A node four times slower delays no other: 3.25 nodes' work, but for what it has been given ahead at the end, two contributions.
  ForecastInput in = input(4, served(5));
  in.speeds = {{3, 0.25}};
  EXPECT_NEAR(forecast(in).wall_s, 12.0 / 3.25, 2 * 5 * 0.040);
}

// With one worker each round is sequential: train, stage, push, merge, answer, take over.
TEST(Forecast, ARoundOfOneWorkerIsTheSumOfItsParts) {
  for (const char* merge : {"reset", "elastic"}) {
    ForecastInput in = input(1, served(5, merge));
    in.times.stage_ms = 4, in.times.apply_ms = 6, in.times.take_ms = 2;
    in.latency_ms = 20, in.bytes_per_s = 1.25e6, in.image_bytes = 1;
    const auto bytes = static_cast<double>(in.layout.sum_bytes());
    const Forecast f = forecast(in);
    EXPECT_EQ(f.rounds, 240);
    const double round_s = 0.050 + 0.004 + bytes / 1.25e6 + 0.020 + 0.006 + bytes / 1.25e6 + 0.020 + 0.002;
    EXPECT_NEAR(f.wall_s, 240 * round_s, 0.03 * 240 * round_s) << merge;
    EXPECT_NEAR(f.sent_per_worker, 240 * bytes, 0.03 * 240 * bytes) << merge;
    EXPECT_NEAR(f.computing, 0.050 / round_s, 0.03 * 0.050 / round_s) << merge;
  }
}

// Each contribution comes in once and each answer goes out once, both ways at the same time: S / B each, however many workers push.
TEST(Forecast, TheServersConnectionIsWhatManyWorkersShare) {
  for (const int nodes : {4, 8}) {
    ForecastInput in = input(nodes, served(1));
    in.bytes_per_s = 1.25e6, in.image_bytes = 1, in.planned = 3000;
    const auto bytes = static_cast<double>(in.layout.sum_bytes());
    const Forecast f = forecast(in);
    EXPECT_EQ(f.rounds, 300);
    EXPECT_NEAR(f.wall_s, 300 * bytes / 1.25e6, 0.03 * 300 * bytes / 1.25e6) << nodes;
    EXPECT_EQ(f.busiest_link, "server");
    EXPECT_NEAR(f.busiest_link_use, 1, 0.03);
  }
}

// Where the network is ideal it is the server that merges one after the other, alone or several in a round.
TEST(Forecast, AServerMergesOneContributionAfterTheOther) {
  for (const int merge_every : {1, 4}) {
    ForecastInput in = input(8, served(1, "reset", merge_every));
    in.times.apply_ms = 20;
    const Forecast f = forecast(in);
    EXPECT_EQ(f.rounds, 1200 / merge_every);
    EXPECT_NEAR(f.wall_s, 1200 * 0.020, 0.01 * 1200 * 0.020) << merge_every;
    EXPECT_NEAR(f.computing, 1200 * 0.010 / 8 / 24, 0.01);
  }
}

TEST(Forecast, ANodeThatFailsCostsOnlyItsOwnWork) {
  ForecastInput in = input(4, served(5));
  in.mtbf_s = 2, in.repair_s = 0.5, in.latency_ms = 1;
  const Forecast one = forecast(in), other = forecast(in);
  EXPECT_EQ(one.trace_hash, other.trace_hash);
  EXPECT_GT(one.failures, 0);
  EXPECT_GT(one.wall_s, 3);
  EXPECT_EQ(one.examples_done, 12'000);
  // At most what a worker had under way is lost with it: five steps in training and five that were pushed.
  EXPECT_LE(one.lost_examples, one.failures * 100);
}

TEST(Forecast, WhatDoesNotFitIntoMemoryIsRefused) { EXPECT_THROW(forecast(input(64, served(5), 1000)), Error); }

TEST(Forecast, BucketsAreSentWhileBackwardGoesOn) {
  // Two buckets of 0.5 s each on the wire, direct between two: the first leaves when two thirds of the step are done.
  ForecastInput in = input(2, averaging("allreduce", 0, "direct"), 1);
  in.times.step_ms = 3000, in.planned = 400;
  in.buckets = {{0, in.layout.bytes() / 2 / 64 * 64}, {in.layout.bytes() / 2 / 64 * 64, in.layout.bytes()}};
  in.bytes_per_s = static_cast<double>(in.layout.bytes());
  in.image_bytes = 1;
  const Forecast two = forecast(in);
  in.buckets = {{0, in.layout.bytes()}};
  const Forecast one = forecast(in);
  EXPECT_NEAR(one.wall_s, 20 * 4.0, 0.02 * 80);  // 3 s, then S / 2 there and S / 2 back at S per second
  EXPECT_NEAR(two.wall_s, 20 * 3.5, 0.02 * 70);
}

TEST(Forecast, TheSameSeedIsTheSameForecast) {
  ForecastInput in = input(5, averaging("periodic", 5));
  in.speed_spread = 0.3, in.mtbf_s = 2, in.repair_s = 0.5, in.latency_ms = 1, in.bytes_per_s = 1e7;
  const Forecast one = forecast(in), other = forecast(in);
  EXPECT_EQ(one.trace_hash, other.trace_hash);
  EXPECT_EQ(one.wall_s, other.wall_s);
  in.seed = 2;
  EXPECT_NE(forecast(in).wall_s, one.wall_s);
}

TEST(Forecast, SpeedsAreSpreadLogNormally) {
  ForecastInput in = input(1, averaging("allreduce"));
  in.speed_spread = 0.3;
  constexpr int kSeeds = 1000;
  double sum = 0, squares = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    in.seed = static_cast<uint64_t>(seed);
    const double x = std::log(forecast(in).wall_s / 12);
    sum += x, squares += x * x;
  }
  const double mean = sum / kSeeds;
  EXPECT_NEAR(mean, 0, 4 * 0.3 / std::sqrt(kSeeds));
  EXPECT_NEAR(std::sqrt(squares / kSeeds - mean * mean), 0.3, 4 * 0.3 / std::sqrt(2 * kSeeds));
}

TEST(Forecast, ABarrierWaitsForTheSlowest) {
  ForecastInput in = input(4, averaging("allreduce"));
  in.speed_spread = 0.5;
  // The node that is slowest by its own, alone on the work, would take four times as long as all four at its pace.
  double spread_s = 0, even_s = 12.0 / 4;
  for (in.seed = 0; in.seed < 5; ++in.seed) {
    const Forecast f = forecast(in);
    EXPECT_LT(f.computing, 0.95);
    EXPECT_NEAR(f.examples_per_s * f.wall_s, 12'000, 1);
    spread_s += f.wall_s / 5;
  }
  EXPECT_GT(spread_s, 1.2 * even_s);  // the slowest of four is 1.03 standard deviations below the median on average
}

TEST(Forecast, NodesThatFailComeBackAndTheirWorkIsDoneAgain) {
  ForecastInput in = input(6, averaging("periodic", 5));
  in.planned = 600'000, in.latency_ms = 0.5, in.bytes_per_s = 1e8;
  const Forecast undisturbed = forecast(in);
  EXPECT_EQ(undisturbed.failures, 0);
  EXPECT_EQ(undisturbed.lost_workers, 0);
  in.mtbf_s = 30, in.repair_s = 5;
  const Forecast f = forecast(in);
  // Poisson: a node fails once in (mtbf + repair) on average.
  const double expected = 6 * f.wall_s / 35;
  EXPECT_NEAR(static_cast<double>(f.failures), expected, 4 * std::sqrt(expected));
  EXPECT_GT(f.lost_examples, 0);
  EXPECT_LT(f.lost_examples, f.failures * 6 * 10 * 10);  // of a failure at most two rounds of everybody
  EXPECT_GT(f.wall_s, 1.1 * undisturbed.wall_s);
  EXPECT_EQ(f.share, 1);
}

TEST(Forecast, ALongRunIsTakenInProportion) {
  ForecastInput in = input(4, averaging("periodic", 5));
  in.planned = 1'200'000, in.bytes_per_s = 1e7, in.latency_ms = 1, in.image_bytes = 1;
  const Forecast whole = forecast(in);
  in.max_effort = whole.events / 4;
  const Forecast part = forecast(in);
  EXPECT_EQ(whole.share, 1);
  EXPECT_GT(part.share, 0.02);
  EXPECT_LT(part.share, 0.5);
  EXPECT_NEAR(part.wall_s, whole.wall_s, 0.03 * whole.wall_s);
  EXPECT_NEAR(part.sent_per_worker, whole.sent_per_worker, 0.03 * whole.sent_per_worker);
  EXPECT_NEAR(static_cast<double>(part.rounds), static_cast<double>(whole.rounds), 0.03 * static_cast<double>(whole.rounds));
}

TEST(Forecast, ARunThatGetsNowhereIsAnError) {
  ForecastInput in = input(2, averaging("periodic", 5));
  in.bytes_per_s = 100, in.max_effort = 100'000;
  try {
    forecast(in);
    FAIL() << "no round can have come through";
  } catch (const Error& error) {
    const std::string said = error.what();
    EXPECT_NE(said.find("simulate: no round was committed in "), std::string::npos) << said;
    EXPECT_NE(said.find("a network that is too slow for the policy's deadline_ms, or nodes that fail too often"), std::string::npos)
        << said;
  }
}

TEST(Forecast, MemoryThatNobodyReadsMayBeAnySize) {
  constexpr size_t kBytes = size_t{300} << 30;
  const BlankMemory memory(kBytes + 12);
  ASSERT_EQ(memory.bytes().size(), kBytes + 12);
  memory.bytes().front() = memory.bytes().back() = std::byte{1};
  EXPECT_EQ(memory.bytes()[kBytes / 2 + 77], std::byte{0});
}

}  // namespace
}  // namespace perigee::sim
