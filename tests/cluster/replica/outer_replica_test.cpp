// Outer steps in replicas that really train: what a round makes of the staged contributions, and that the outer state goes wherever the
// result goes.
#include <algorithm>
#include <cmath>

#include "src/io/safetensors.h"
#include "src/run/checkpoint.h"
#include "tests/cluster/replica/replica_harness.h"

namespace perigee {
namespace {

Welcome welcome_to_outer(const std::string& averaging, const std::string& more = "") {
  Welcome welcome;
  welcome.job = R"({"loss": "cross_entropy", "seed": 5, "epochs": 100, "network": {"type": "sequential", "layers": [
      {"type": "conv2d", "out": 3, "kernel": 5, "stride": 4}, {"type": "batchnorm"}, {"type": "activation", "activation": "tanh"},
      {"type": "dense", "out": 10}]}, "optimizer": {"type": "adam", "lr": {"type": "cosine", "from": 0.01}}, "averaging": )" +
                averaging + R"(, "data": {"train": {"type": "digits", "endless": false, "size": 640}, "batch": 16})" + more + "}";
  welcome.folder = ".";
  welcome.threads = 1;
  return welcome;
}

// Trains one round on all replicas, with `steps[i]` local steps of replica i, and applies the merged rows. Returns the mean of the
// contributions, computed apart, in double.
template <class T = float>
std::vector<double> play_round(Replicas& nodes, int64_t round, const std::vector<int64_t>& steps) {
  const ExchangeLayout layout = nodes[0]->replica->layout();
  std::vector<std::byte> sum;
  std::vector<double> mean;
  int64_t examples = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (steps[i] == 0) continue;
    const Contribution& contribution = nodes[i]->train(small_order(round, i, steps[i]));
    EXPECT_FALSE(nodes[i]->failed) << nodes[i]->failure;
    EXPECT_TRUE(contribution.finite);
    examples += contribution.examples;
    const std::span<std::byte> row = nodes[i]->replica->exchange_row(0);
    if (sum.empty()) sum.assign(row.begin(), row.end());
    else add_row(layout, sum.data(), row.data());
    const auto* values = reinterpret_cast<const T*>(row.data());
    mean.resize(parameters_of<T>(*nodes[i]).size());
    for (size_t k = 0; k < mean.size(); ++k) mean[k] += static_cast<double>(values[k]);
  }
  for (double& value : mean) value /= static_cast<double>(examples);
  const bool alone = std::count_if(steps.begin(), steps.end(), [](int64_t n) { return n > 0; }) == 1;
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::memcpy(nodes[i]->replica->exchange_row(0).data(), sum.data(), sum.size());
    nodes[i]->apply(round, examples, 96 * (round + 1), alone && steps[i] > 0 && nodes.size() == 1);
  }
  for (auto& node : nodes) EXPECT_EQ(node->hash, nodes[0]->hash) << "round " << round;
  return mean;
}

std::vector<float> velocity_of(TestReplica& node) {
  const Safetensors image = parse_safetensors(*node.snapshot(), "snapshot");
  const Tensor* velocity = image.find("outer/velocity/dense1.weight");
  if (!velocity) return {};
  const auto* values = static_cast<const float*>(velocity->view().data);
  return {values, values + velocity->shape().elements()};
}

// U2: the same bits as plain averaging.
TEST(OuterIdentity, WithoutMomentumItIsPlainAveraging) {
  std::vector<std::vector<double>> ends;
  for (const char* averaging : {R"({"type": "periodic", "every": 2})", R"({"type": "diloco", "every": 2, "rate": 1, "momentum": 0})",
                                R"({"type": "bmuf", "every": 2, "momentum": 0})", R"({"type": "slowmo", "every": 2, "momentum": 0})"}) {
    Replicas nodes = make_replicas(3, welcome_to_outer(averaging));
    for (int64_t round = 0; round < 4; ++round) play_round(nodes, round, {2, 1, 0});
    ends.push_back(parameters_of(*nodes[2]));
  }
  for (size_t i = 1; i < ends.size(); ++i) EXPECT_EQ(ends[i], ends[0]) << i;
}

// U2: with a learning rate that stays, slow momentum is classic block momentum.
TEST(OuterIdentity, SlowmoAtAConstantRateIsClassicBlockMomentum) {
  std::vector<std::vector<double>> ends;
  for (const char* averaging :
       {R"({"type": "slowmo", "every": 2, "momentum": 0.6})", R"({"type": "bmuf", "every": 2, "momentum": 0.6, "nesterov": false})"}) {
    Welcome welcome = welcome_to_outer(averaging);
    // Plain SGD: Adam would make steps of the rounding's noise where a gradient is zero.
    const std::string adam = R"({"type": "adam", "lr": {"type": "cosine", "from": 0.01}})";
    welcome.job.replace(welcome.job.find(adam), adam.size(), R"({"type": "sgd", "lr": 0.05})");
    Replicas nodes = make_replicas(2, welcome);
    for (int64_t round = 0; round < 5; ++round) play_round(nodes, round, {2, 2});
    ends.push_back(parameters_of(*nodes[0]));
  }
  EXPECT_LE(relative_difference(ends[0], ends[1]), 1e-6);
}

// The mean of what was staged, computed apart, through torch's formula (see outer_test.cpp), in both precisions.
template <class T>
void expect_diloco(const std::string& precision, double tolerance) {
  Replicas nodes = make_replicas(3, welcome_to_outer(R"({"type": "diloco", "every": 2, "momentum": 0.8, "rate": 0.6})", precision));
  std::vector<double> buffer;
  for (int64_t round = 0; round < 4; ++round) {
    const std::vector<double> global = parameters_of<T>(*nodes[0]);
    const std::vector<double> mean = play_round<T>(nodes, round, {2, 1, 0});  // the third had no work, and applies the same
    buffer.resize(global.size());
    std::vector<double> expected(global.size());
    for (size_t i = 0; i < global.size(); ++i) {
      const double gradient = global[i] - mean[i];
      buffer[i] = 0.8 * buffer[i] + gradient;
      expected[i] = global[i] - 0.6 * (gradient + 0.8 * buffer[i]);
    }
    EXPECT_LE(relative_difference(expected, parameters_of<T>(*nodes[2])), tolerance) << "round " << round;
  }
}
TEST(OuterTrajectory, OfDilocoIsTorchs) {
  expect_diloco<float>("", 2e-6);
  expect_diloco<double>(R"(, "precision": "float64")", 1e-14);
}

// The program sees the learning rate at which the round began, by the workers' own schedule, and the share of the run before it.
TEST(OuterTrajectory, SeesTheRoundAsItBegan) {
  const std::string averaging = R"({"type": "custom", "every": 2, "state": {"seen": 0}, "outer": {"program": [
      {"op": "add", "in": ["learning_rate", "progress"], "out": "t1"}, {"op": "add", "in": ["t1", "workers"], "out": "t2"},
      {"op": "add", "in": ["t2", "round"], "out": "t3"}], "outputs": {"global": "mean", "seen": "t3"}}})";
  Replicas nodes = make_replicas(2, welcome_to_outer(averaging, R"(, "precision": "float64")"));
  for (int64_t round = 0; round < 3; ++round) {
    const std::vector<int64_t> steps = round == 1 ? std::vector<int64_t>{2, 0} : std::vector<int64_t>{2, 2};
    play_round<double>(nodes, round, steps);
    const Safetensors image = parse_safetensors(*nodes[0]->snapshot(), "image");
    const Tensor* seen = image.find("outer/seen/dense1.bias");
    ASSERT_NE(seen, nullptr);
    const double progress = 96.0 * static_cast<double>(round) / 64000;
    const double rate = 0.01 * 0.5 * (1 + std::cos(M_PI * progress));
    EXPECT_NEAR(static_cast<const double*>(seen->view().data)[0], rate + progress + (round == 1 ? 1 : 2) + static_cast<double>(round),
                1e-12);
  }
}

TEST(OuterState, IsInTheHashAndInCheckpointsAndNotInModels) {
  Replicas nodes = make_replicas(2, welcome_to_outer(R"("diloco")"));
  Replicas plain = make_replicas(1, welcome_to_outer(R"("periodic")"));
  EXPECT_EQ(parameters_of(*nodes[0]), parameters_of(*plain[0]));
  EXPECT_NE(nodes[0]->load(-1, nullptr), plain[0]->load(-1, nullptr)) << "the state is no part of the hash";
  play_round(nodes, 0, {2, 2});
  EXPECT_FALSE(velocity_of(*nodes[0]).empty());
  const Safetensors model = parse_safetensors(*nodes[0]->snapshot(false), "model");
  EXPECT_EQ(model.find("outer/velocity/dense1.weight"), nullptr);
}

// U9, and a run that goes on from a checkpoint: the same bits as one that never stopped.
TEST(OuterState, AJoinerAndAResumedRunHaveIt) {
  const Welcome welcome = welcome_to_outer(R"({"type": "diloco", "every": 2, "rate": 0.9})");
  Replicas nodes = make_replicas(2, welcome);
  for (int64_t round = 0; round < 3; ++round) play_round(nodes, round, {2, 2});
  const SharedBytes image = nodes[1]->snapshot();
  Replicas resumed = make_replicas(2, welcome);
  for (auto& node : resumed) EXPECT_EQ(node->load(2, image), nodes[0]->hash);
  for (auto* run : {&nodes, &resumed})
    for (auto& node : *run) node->load(2, image);  // Adam's moments are each worker's own: both runs go on from the image's
  for (int64_t round = 3; round < 6; ++round) {
    play_round(nodes, round, {2, 2});
    play_round(resumed, round, {2, 2});
    EXPECT_EQ(resumed[0]->hash, nodes[0]->hash);
  }
  EXPECT_EQ(*resumed[0]->snapshot(), *nodes[0]->snapshot());
}

TEST(OuterState, StaysWhatItWasWhenWorkIsDroppedOrNobodyContributes) {
  Replicas nodes = make_replicas(2, welcome_to_outer(R"("diloco")"));
  play_round(nodes, 0, {2, 1});
  const SharedBytes before = nodes[0]->snapshot();
  const uint64_t hash = nodes[0]->hash;
  nodes[0]->train(small_order(1, 0, 2));
  EXPECT_EQ(*nodes[0]->snapshot(), *before) << "local work is no part of the result";
  nodes[0]->replica->drop();
  EXPECT_EQ(*nodes[0]->snapshot(), *before);
  nodes[1]->train(small_order(1, 1, 2));
  EXPECT_EQ(nodes[1]->apply(1, 0, 96), hash) << "a round without examples changes neither parameters nor state";
  // And the initial values are those of the job's beginning.
  const uint64_t start = make_replicas(1, welcome_to_outer(R"("diloco")"))[0]->load(-1, nullptr);
  EXPECT_NE(hash, start);
  EXPECT_EQ(nodes[0]->load(-1, nullptr), start);
}

// A late worker's change is moved onto the new result, of which the state is part.
TEST(OuterState, ALateWorkerTakesItWithTheResult) {
  const Welcome welcome = welcome_to_outer(R"({"type": "diloco", "every": 2})");
  Replicas nodes = make_replicas(2, welcome), late = make_replicas(1, welcome);
  late[0]->train(small_order(0, 3, 2));
  play_round(nodes, 0, {2, 2});
  EXPECT_EQ(late[0]->load(0, nodes[0]->snapshot(), true), nodes[0]->hash);
  // Beside the local work the result itself is held, state included.
  EXPECT_EQ(velocity_of(*late[0]), velocity_of(*nodes[0]));
  EXPECT_EQ(parameters_of(*late[0]), parameters_of(*nodes[0]));
  late[0]->replica->drop();
  EXPECT_EQ(late[0]->load(0, nodes[0]->snapshot()), nodes[0]->hash);
}

TEST(OuterState, AnImageOfAnotherPolicyIsRefused) {
  Replicas plain = make_replicas(1, welcome_to_outer(R"("periodic")")), nodes = make_replicas(2, welcome_to_outer(R"("diloco")"));
  play_round(nodes, 0, {2, 2});
  const SharedBytes before = nodes[0]->snapshot();
  EXPECT_EQ(nodes[0]->load(9, plain[0]->snapshot()), nodes[0]->hash);
  EXPECT_EQ(nodes[0]->round, 0);
  EXPECT_EQ(*nodes[0]->snapshot(), *before);
}

// One worker by itself: its parameters are the mean, and the outer step moves on from there.
TEST(OuterState, AloneTheStepIsTakenToo) {
  Replicas one = make_replicas(1, welcome_to_outer(R"({"type": "diloco", "every": 2, "momentum": 0, "rate": 0.5})"));
  const std::vector<double> global = parameters_of(*one[0]);
  const std::vector<double> mean = play_round(one, 0, {2});
  std::vector<double> expected(global.size());
  for (size_t i = 0; i < global.size(); ++i) expected[i] = global[i] - 0.5 * (global[i] - mean[i]);
  EXPECT_LE(relative_difference(expected, parameters_of(*one[0])), 1e-6);
  // Block momentum of one worker is none: its parameters stay to the bit.
  Replicas bmuf = make_replicas(1, welcome_to_outer(R"("bmuf")")), periodic = make_replicas(1, welcome_to_outer(R"("periodic")"));
  for (int64_t round = 0; round < 3; ++round) {
    play_round(bmuf, round, {2});
    play_round(periodic, round, {2});
  }
  EXPECT_EQ(parameters_of(*bmuf[0]), parameters_of(*periodic[0]));
}

// Gradients are averaged first; the outer step begins with the first round of parameters, from the state's initial values.
TEST(OuterState, WaitsForTheSynchronousPhase) {
  const Welcome welcome = welcome_to_outer(R"({"type": "diloco", "every": 2, "sync_until": 0.001})");
  TestReplica node(welcome);
  const SharedBytes start = node.snapshot();
  node.train({.gradient = true, .ranges = {{0, 0, 32}}});
  node.apply(0, 32, 64);
  for (const float value : velocity_of(node)) EXPECT_EQ(value, 0);
  EXPECT_NE(*node.snapshot(), *start);
}

}  // namespace
}  // namespace perigee
