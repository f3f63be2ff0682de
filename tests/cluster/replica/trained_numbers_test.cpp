// Simulated workers that really train: their numbers are those of real replicas, whatever the simulated clock does between two steps.
#include "cluster/replica/trained_numbers.h"

#include "cluster/rounds/server/desk.h"
#include "cluster/simulator/forecast.h"
#include "tests/cluster/replica/replica_harness.h"

namespace perigee {
namespace {

Welcome welcome_to_numbers(const std::string& averaging) {
  Welcome welcome;
  welcome.job = R"({"loss": "cross_entropy", "seed": 5, "epochs": 50, "network": {"type": "sequential", "layers": [
      {"type": "conv2d", "out": 3, "kernel": 5, "stride": 4}, {"type": "batchnorm"}, {"type": "activation", "activation": "tanh"},
      {"type": "dense", "out": 10}]}, "optimizer": {"type": "sgd", "lr": 0.05, "momentum": 0.9}, "averaging": )" +
                averaging + R"(, "data": {"train": {"type": "digits", "endless": false, "size": 640}, "batch": 16}})";
  welcome.folder = ".";
  welcome.threads = 1;
  return welcome;
}

TrainOrder order_of(int64_t round, int64_t steps) {
  TrainOrder order{.round = round, .examples_before = 64 * round, .examples_per_step = 16};
  for (int64_t i = 0; i < steps; ++i) order.ranges.push_back({0, round * 64 + i * 16, 16});
  return order;
}

class Unwatched final : public OrderWatch {
 public:
  bool given_up() override { return false; }
  void on_step() override {}
  void on_bucket(size_t) override {}
};

// The order in steps; `between` happens before each but the first.
Contribution in_steps(
    TrainedNumbers& numbers, const TrainOrder& order, size_t steps, const std::function<void()>& between = [] {}) {
  numbers.begin(order);
  for (size_t i = 1;; ++i) {
    const std::optional<Contribution> contribution = numbers.step(i == steps);
    if (contribution) return *contribution;
    between();
  }
}

TEST(TrainedNumbers, StepByStepAreThoseOfAReplicaThatTrainsAtOnce) {
  SharedOpener opener;
  TrainedNumbers stepped(opener);
  const Welcome welcome = welcome_to_numbers(R"({"type": "periodic", "every": 4})");
  stepped.open(welcome);
  TestReplica whole(welcome);
  for (int64_t round = 0; round < 3; ++round) {
    const Contribution one = in_steps(stepped, order_of(round, 4), 4);
    const Contribution other = whole.train(order_of(round, 4));
    EXPECT_EQ(one.examples, 64);
    EXPECT_EQ(one.ranges, other.ranges);
    EXPECT_EQ(one.figures.loss_sum, other.figures.loss_sum);
    const std::span<std::byte> row = stepped.exchange_row(0);
    EXPECT_EQ(std::memcmp(row.data(), whole.replica->exchange_row(0).data(), row.size()), 0);
    stepped.apply({.round = round, .examples = 64, .examples_after = 64 * (round + 1)});
    EXPECT_EQ(stepped.hash(), whole.apply(round, 64, 64 * (round + 1)));
  }
}

TEST(TrainedNumbers, EndWhereTheClockSaysSo) {
  SharedOpener opener;
  TrainedNumbers numbers(opener);
  numbers.open(welcome_to_numbers(R"({"type": "periodic", "every": 4})"));
  const Contribution cut = in_steps(numbers, order_of(0, 4), 3);
  EXPECT_EQ(cut.steps, 3);
  EXPECT_EQ(cut.ranges.size(), 3u);
}

TEST(TrainedNumbers, AnOrderThatIsGivenUpLeavesNothing) {
  SharedOpener opener;
  TrainedNumbers numbers(opener);
  const Welcome welcome = welcome_to_numbers(R"({"type": "periodic", "every": 4})");
  numbers.open(welcome);
  TestReplica whole(welcome);
  numbers.begin(order_of(0, 4));
  numbers.drop();  // before its first step
  numbers.begin(order_of(0, 4));
  EXPECT_FALSE(numbers.step(false));
  EXPECT_FALSE(numbers.step(false));
  numbers.drop();
  in_steps(numbers, order_of(0, 4), 4);
  whole.train(order_of(0, 4));
  numbers.apply({.round = 0, .examples = 64, .examples_after = 64});
  EXPECT_EQ(numbers.hash(), whole.apply(0, 64, 64));
}

// Another's result comes while an order is under way: what was trained so far moves onto it, as in a replica of its own thread.
TEST(TrainedNumbers, AResultThatComesBetweenTwoStepsIsTaken) {
  SharedOpener opener;
  TrainedNumbers numbers(opener), other(opener);
  const Welcome welcome = welcome_to_numbers(R"({"type": "periodic", "every": 4})");
  numbers.open(welcome), other.open(welcome);
  in_steps(other, order_of(0, 4), 4);
  other.apply({.round = 0, .examples = 64, .examples_after = 64, .alone = true});
  const SharedBytes image = other.snapshot(true);
  int between = 0;
  uint64_t held = 0;
  in_steps(numbers, order_of(0, 4), 4, [&] {
    if (++between != 2) return;
    numbers.load(0, image, true);
    held = numbers.hash();
  });
  EXPECT_EQ(held, other.hash());
  // Two steps from the initial values moved onto the result, then two more: none of it is the result or the other's work.
  const uint64_t result = numbers.hash();
  numbers.apply({.round = 1, .examples = 64, .examples_after = 128});
  EXPECT_NE(numbers.hash(), result);
}

sim::ForecastInput simulated(SharedOpener& opener, int nodes, const std::string& averaging) {
  const Welcome welcome = welcome_to_numbers(averaging);
  sim::ForecastInput in;
  in.nodes = nodes;
  in.job = Json::parse(welcome.job, "job");
  in.averaging = *in.job.find("averaging");
  in.folder = welcome.folder;
  in.numbers = [&opener] { return std::make_unique<TrainedNumbers>(opener); };
  in.examples = 640, in.planned = 1280;
  in.times = {.step_ms = 10, .stage_ms = 1, .apply_ms = 1, .batch = 16};
  in.buckets = {{0, 64}};
  return in;
}

// src/ARCHITECTURE.md, decision 5: a fixed tree over the shards, whichever worker computes them.
TEST(TrainedNumbers, AnAllReduceWithShardsGivesTheSameBitsForAnyNumberOfNodes) {
  SharedOpener opener;
  uint64_t hash = 0;
  for (const int nodes : {1, 2, 4}) {
    sim::ForecastInput in = simulated(opener, nodes, R"({"type": "allreduce", "shards": 4})");
    in.global_batch = 64;
    const sim::Forecast f = sim::forecast(in);
    EXPECT_EQ(f.share, 1);
    EXPECT_EQ(f.rounds, 20);
    if (hash == 0) hash = f.hash;
    EXPECT_EQ(f.hash, hash) << nodes;
  }
}

// One worker and its server by hand: what it trains, pushes and takes over, round by round.
TEST(TrainedNumbers, ServedRoundsAreThoseOfAWorkerAndAServer) {
  for (const char* averaging : {R"({"type": "staleness_aware", "every": 4, "rate": 0.5, "codec": "int8"})",
                                R"({"type": "easgd", "every": 4})", R"({"type": "fasgd", "every": 4, "rate": 0.05})"}) {
    SharedOpener opener;
    const sim::Forecast f = sim::forecast(simulated(opener, 1, averaging));
    EXPECT_EQ(f.rounds, 20);
    ASSERT_EQ(f.share, 1) << f.ended;
    Welcome welcome = welcome_to_numbers(averaging);
    ReplicaTrainer server(welcome, {.opener = &opener});
    welcome.id = 2;  // the server is started first
    ReplicaTrainer worker(welcome, {.opener = &opener});
    const ExchangeLayout layout = server.block().layout();
    Storage row(layout.bytes()), server_row(layout.bytes());
    std::byte* const rows[] = {row.data()};
    const std::atomic<bool> never = false;
    Unwatched watch;
    SharedBytes reply;
    bool change = false;
    server.serve({.round = -1}, server_row.data(), &reply, &change);
    worker.take({.round = -1, .bytes = reply});
    for (int64_t round = 0; round < 20; ++round) {
      TrainOrder order{.round = round, .examples_before = 64 * round, .examples_per_step = 16};
      for (int64_t i = 0; i < 4; ++i) order.ranges.push_back({static_cast<uint64_t>(round / 10), round % 10 * 64 + i * 16, 16});
      Contribution made;
      ASSERT_TRUE(worker.train(order, rows, never, watch, &made));
      add_beside(layout, {server_row.data(), layout.bytes()}, {row.data() + layout.coded, layout.bytes() - layout.coded}, true);
      const ApplyOrder merge{
          .round = round, .examples = 64, .examples_after = 64 * (round + 1), .payloads = {{made.payload, 64}}, .workers = 1};
      ASSERT_FALSE(server.serve(merge, server_row.data(), &reply, &change));
      ASSERT_TRUE(worker.take({.round = round, .examples_after = 64 * (round + 1), .counted = true, .change = change, .bytes = reply}));
    }
    EXPECT_EQ(f.hash, server.hash()) << averaging;
  }
}

TEST(TrainedNumbers, AServedRunGivesTheSameBitsWhateverFails) {
  SharedOpener opener;
  sim::ForecastInput in = simulated(opener, 4, R"({"type": "async_local", "every": 2, "momentum": 0.5, "codec": "int4"})");
  in.planned = 32'000, in.mtbf_s = 10, in.repair_s = 1, in.speed_spread = 0.4, in.speeds = {{2, 0.25}};
  const sim::Forecast one = sim::forecast(in), other = sim::forecast(in);
  EXPECT_EQ(one.ended, "");
  EXPECT_EQ(one.examples_done, 32'000);
  EXPECT_GT(one.failures, 0);
  EXPECT_EQ(one.hash, other.hash);
  EXPECT_EQ(one.trace_hash, other.trace_hash);
  in.seed = 3;
  EXPECT_NE(sim::forecast(in).hash, one.hash);
}

TEST(TrainedNumbers, ASeedGivesTheSameBitsWhateverFails) {
  SharedOpener opener;
  sim::ForecastInput in = simulated(opener, 4, R"({"type": "periodic", "every": 2, "quorum": 0.5})");
  in.planned = 32'000, in.mtbf_s = 10, in.repair_s = 1, in.speed_spread = 0.4, in.speeds = {{2, 0.25}};
  const sim::Forecast one = sim::forecast(in), other = sim::forecast(in);
  EXPECT_EQ(one.share, 1);
  EXPECT_GT(one.failures, 0);
  EXPECT_EQ(one.hash, other.hash);
  EXPECT_EQ(one.trace_hash, other.trace_hash);
  ASSERT_EQ(one.course.size(), other.course.size());
  for (size_t i = 0; i < one.course.size(); ++i) EXPECT_EQ(one.course[i].loss, other.course[i].loss);
  in.seed = 1;
  EXPECT_NE(sim::forecast(in).hash, one.hash);
}

}  // namespace
}  // namespace perigee
