// The cluster's demands on a replica: the same bits however the leaves are dealt out, weighted means, healing, and that a result
// once held is given out unchanged whatever local work goes on.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>

#include "cluster/data/rooted_opener.h"
#include "src/io/file.h"
#include "src/model/evaluator.h"
#include "src/run/checkpoint.h"
#include "tests/cluster/replica/replica_harness.h"

namespace perigee {
namespace {

const char* const kLenet = R"([{"type": "conv2d", "out": 20, "kernel": 5, "activation": "relu"}, {"type": "maxpool", "kernel": 2},
    {"type": "conv2d", "out": 50, "kernel": 5, "stride": 2, "activation": "relu"}, {"type": "maxpool", "kernel": 2},
    {"type": "dense", "out": 200, "activation": "relu"}, {"type": "dense", "out": 10}])";
const char* const kTiny = R"([{"type": "avgpool", "kernel": 7}, {"type": "dense", "out": 10}])";
const char* const kNormed = R"([{"type": "conv2d", "out": 4, "kernel": 5, "stride": 2}, {"type": "batchnorm"},
    {"type": "activation", "activation": "relu"}, {"type": "dropout", "rate": 0.3}, {"type": "dense", "out": 10}])";
const char* const kNet64 = R"([{"type": "conv2d", "out": 4, "kernel": 5, "stride": 4, "activation": "tanh"},
    {"type": "dense", "out": 20, "activation": "relu"}, {"type": "dense", "out": 10}])";
const char* const kAdam = R"({"type": "adamw", "lr": {"type": "cosine", "from": 0.002}, "weight_decay": 0.0005})";

// models/lenet.lua's data where they are; else the digits that stand in for them.
std::string data_of(const std::string& part, int size) {
  if (std::getenv("PERIGEE_DATA"))
    return R"({"type": "take", "count": )" + std::to_string(size) + R"(, "source": {"type": "mnist", "part": ")" + part + R"("}})";
  return R"({"type": "digits", "endless": false, "size": )" + std::to_string(size) + "}";
}

Welcome welcome_to(const std::string& layers, const std::string& optimizer, const std::string& averaging, const std::string& more = "",
                   const std::string& train = R"({"type": "digits", "endless": false, "size": 640})") {
  Welcome welcome;
  welcome.job = R"({"loss": "cross_entropy", "seed": 5, "epochs": 100, "network": {"type": "sequential", "layers": )" + layers +
                R"(}, "optimizer": )" + optimizer + R"(, "averaging": )" + averaging + R"(, "data": {"train": )" + train +
                R"(, "batch": 32})" + more + "}";
  welcome.folder = ".";
  welcome.threads = 1;
  return welcome;
}

TrainOrder gradient_order(const FixedPlan::Round& round, int64_t number, int rank, int size, int leaves) {
  const auto [first, last] = leaves_of(rank, size, leaves);
  return {.round = number,
          .gradient = true,
          .ranges = {round.ranges.begin() + first, round.ranges.begin() + last},
          .first_leaf = first,
          .leaves = leaves,
          .examples_before = round.examples_before};
}

// Trains by gradients; returns the hash after each round.
std::vector<uint64_t> train_allreduce(Replicas& nodes, int rounds, int leaves, int64_t global, int64_t size, int64_t first_round = 0) {
  FixedPlan plan{.examples_per_epoch = size, .planned = 100 * size, .global = global, .leaves = leaves};
  std::vector<uint64_t> hashes;
  for (int64_t r = first_round; r < first_round + rounds; ++r) {
    const FixedPlan::Round round = plan.at(r);
    const int count = static_cast<int>(nodes.size());
    for (int i = 0; i < count; ++i) nodes[i]->start(gradient_order(round, r, i, count, leaves));
    for (auto& node : nodes) {
      EXPECT_TRUE(node->finish().finite);
      EXPECT_FALSE(node->failed) << node->failure;
    }
    exchange(nodes, leaves);
    EXPECT_EQ(nodes[0]->tail().examples, round.examples);
    EXPECT_EQ(nodes[0]->tail().contributions, count);
    for (auto& node : nodes) node->apply(r, round.examples, round.examples_before + round.examples);
    for (auto& node : nodes) EXPECT_EQ(node->hash, nodes[0]->hash) << "round " << r;
    hashes.push_back(nodes[0]->hash);
  }
  return hashes;
}

TrainOrder local_order(int64_t round, std::vector<Range> ranges, int64_t before = 0, int64_t per_step = 32) {
  return {.round = round, .ranges = std::move(ranges), .examples_before = before, .examples_per_step = per_step};
}

// Weighted mean of what the nodes staged, for all of them.
int64_t merge_values(Replicas& nodes) {
  const ExchangeLayout layout = nodes[0]->replica->layout();
  std::vector<std::byte> sum;
  for (auto& node : nodes) {
    if (!node->contribution.finite || node->contribution.examples == 0) continue;
    const std::span<std::byte> row = node->replica->exchange_row(0);
    if (sum.empty()) sum.assign(row.begin(), row.end());
    else add_row(layout, sum.data(), row.data());
  }
  for (auto& node : nodes) std::memcpy(node->replica->exchange_row(0).data(), sum.data(), sum.size());
  return nodes[0]->tail().examples;
}

TEST(Allreduce, AnyNumberOfWorkersGivesTheSameBits) {
  const Welcome welcome = welcome_to(kLenet, kAdam, R"({"type": "allreduce", "shards": 4})", "", data_of("train", 1000));
  std::vector<std::vector<uint64_t>> hashes;
  for (const int count : {1, 2, 4}) {
    Replicas nodes = make_replicas(count, welcome);
    ASSERT_FALSE(nodes[0]->failed) << nodes[0]->failure;
    hashes.push_back(train_allreduce(nodes, 100, 4, 128, 1000));
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[0], hashes[2]);
}

// Three workers hold subtrees of unlike sizes, and each leaf normalises by itself.
TEST(Allreduce, UnevenSubtreesAndRunningStatisticsGiveTheSameBits) {
  const Welcome welcome = welcome_to(kNormed, R"("adam")", R"({"type": "allreduce", "shards": 5})");
  std::vector<std::vector<uint64_t>> hashes;
  for (const int count : {1, 2, 3, 4}) {
    Replicas nodes = make_replicas(count, welcome);
    hashes.push_back(train_allreduce(nodes, 12, 5, 90, 640));  // the epoch's last round has 10 examples
  }
  for (size_t i = 1; i < hashes.size(); ++i) EXPECT_EQ(hashes[0], hashes[i]);
}

TEST(Allreduce, ThreadsOfAWorkerGiveTheSameBitsForAnyNumberOfWorkers) {
  Welcome welcome = welcome_to(kLenet, kAdam, R"({"type": "allreduce", "shards": 2})");
  welcome.threads = 2;
  std::vector<std::vector<uint64_t>> hashes;
  for (const int count : {1, 2}) {
    Replicas nodes = make_replicas(count, welcome);
    hashes.push_back(train_allreduce(nodes, 6, 2, 64, 640));
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

// One leaf is exactly the step that a single machine makes.
TEST(Allreduce, OneLeafIsTheStepOfOneMachine) {
  const Welcome welcome = welcome_to(kLenet, kAdam, R"("allreduce")");
  Replicas nodes = make_replicas(1, welcome);
  train_allreduce(nodes, 25, 1, 32, 640);
  Trainer trainer(Job(Json::parse(welcome.job, "job"), "job"), {.threads = 1, .measure = false});
  for (int i = 0; i < 25; ++i) trainer.step();
  EXPECT_EQ(parameters_of(*nodes[0]), parameters_of(trainer.model().params()));
}

// The sum over workers differs only by the rounding of another order of additions.
TEST(Allreduce, InFloat64AnyNumberOfWorkersGivesTheSameNumbers) {
  for (const char* precision : {"float64", "float32"}) {
    const bool wide = std::string(precision) == "float64";
    const Welcome welcome =
        welcome_to(kNet64, kAdam, R"("allreduce")", R"(, "device": "ref", "precision": ")" + std::string(precision) + "\"");
    std::vector<std::vector<double>> ends;
    for (const int count : {1, 2, 4}) {
      Replicas nodes = make_replicas(count, welcome);
      ASSERT_FALSE(nodes[0]->failed) << nodes[0]->failure;
      EXPECT_EQ(nodes[0]->replica->layout().dtype, wide ? Dtype::f64 : Dtype::f32);
      train_allreduce(nodes, 20, count, 64, 640);
      if (wide) ends.push_back(parameters_of<double>(*nodes[0]));
      else
        for (ends.emplace_back(); const float value : parameters_of(*nodes[0])) ends.back().push_back(value);
    }
    for (size_t i = 1; i < ends.size(); ++i) {
      if (wide) EXPECT_LE(relative_difference(ends[0], ends[i]), 1e-12);
      else EXPECT_GT(relative_difference(ends[0], ends[i]), 1e-12) << "or the test could not tell the two apart";
    }
  }
}

TEST(Buckets, CoverTheBlockAndGiveTheBitsOfOneBucket) {
  for (const int threads : {1, 2}) {
    Welcome welcome = welcome_to(kLenet, kAdam, R"({"type": "allreduce", "shards": 4})");
    welcome.threads = threads;
    Replicas whole = make_replicas(2, welcome), cut = make_replicas(2, welcome, {.bucket_bytes = 20'000});
    EXPECT_EQ(whole[0]->replica->buckets().size(), 1u);
    const auto buckets = cut[0]->replica->buckets();
    EXPECT_GE(buckets.size(), 3u);
    std::vector<int> covered(cut[0]->replica->layout().bytes());
    for (const Bucket& bucket : buckets) {
      ASSERT_LE(bucket.end, covered.size());
      EXPECT_EQ(bucket.begin % 64, 0u);
      for (size_t i = bucket.begin; i < bucket.end; ++i) ++covered[i];
    }
    EXPECT_EQ(std::count(covered.begin(), covered.end(), 1), static_cast<int64_t>(covered.size()));
    // A bucket's content does not change after it is announced.
    std::vector<std::vector<std::byte>> announced(buckets.size());
    cut[0]->on_bucket_do = [&](uint32_t b) {
      const std::span<std::byte> row = cut[0]->replica->exchange_row(0);
      announced.at(b).assign(row.begin() + static_cast<int64_t>(buckets[b].begin), row.begin() + static_cast<int64_t>(buckets[b].end));
    };
    cut[0]->start({.gradient = true, .ranges = {{0, 0, 32}, {0, 32, 32}}, .first_leaf = 0, .leaves = 4});
    EXPECT_TRUE(cut[0]->finish().finite);
    std::vector<uint32_t> expected(buckets.size());
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<uint32_t>(i);
    EXPECT_EQ(cut[0]->buckets, expected);
    for (size_t b = 0; b < buckets.size(); ++b) {
      const std::span<std::byte> row = cut[0]->replica->exchange_row(0);
      EXPECT_TRUE(std::equal(announced[b].begin(), announced[b].end(), row.begin() + static_cast<int64_t>(buckets[b].begin))) << b;
    }
    cut[0]->replica->drop();
    EXPECT_EQ(train_allreduce(whole, 8, 4, 128, 640), train_allreduce(cut, 8, 4, 128, 640));
  }
}

// U1: one plain step each, then the mean of the parameters, is one step by the mean gradient.
TEST(Identity, MeanOfParametersAfterOneStepIsAStepOfTheMeanGradient) {
  const std::string sgd = R"({"type": "sgd", "lr": 0.1})";
  Replicas by_values = make_replicas(4, welcome_to(kLenet, sgd, R"({"type": "periodic", "every": 1})"));
  Replicas by_gradient = make_replicas(4, welcome_to(kLenet, sgd, R"({"type": "allreduce", "shards": 4})"));
  for (int64_t r = 0; r < 5; ++r) {
    for (int i = 0; i < 4; ++i) by_values[i]->start(local_order(r, {{0, r * 128 + i * 32, 32}}));
    for (auto& node : by_values) node->finish();
    EXPECT_EQ(merge_values(by_values), 128);
    for (auto& node : by_values) node->apply(r, 128, (r + 1) * 128);
    train_allreduce(by_gradient, 1, 4, 128, 640, r);
  }
  EXPECT_EQ(by_values[0]->hash, by_values[3]->hash);
  EXPECT_LE(relative_difference(parameters_of(*by_values[0]), parameters_of(*by_gradient[0])), 1e-6);
}

// U8.
TEST(Identity, TheMeanIsWeightedByExamples) {
  const Welcome welcome = welcome_to(kNormed, R"({"type": "sgd", "lr": 0.1})", R"("periodic")");
  const TrainOrder orders[] = {local_order(0, {{0, 0, 32}, {0, 32, 32}, {0, 64, 16}}), local_order(0, {{0, 100, 8}}), local_order(0, {})};
  const double examples[] = {80, 8, 0};
  std::vector<float> expected;
  for (int i = 0; i < 2; ++i) {  // what each comes to by itself
    TestReplica alone(welcome);
    alone.train(orders[i]);
    EXPECT_EQ(alone.tail().examples, examples[i]);
    alone.apply(0, static_cast<int64_t>(examples[i]), 88, true);
    const std::vector<double> values = parameters_of(alone);
    expected.resize(values.size());
    for (size_t k = 0; k < values.size(); ++k) expected[k] += values[k] * static_cast<float>(examples[i] / 88);
  }
  Replicas replicas = make_replicas(3, welcome);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(replicas[i]->train(orders[i]).examples, examples[i]);
  EXPECT_EQ(merge_values(replicas), 88);
  for (auto& replica : replicas) replica->apply(0, 88, 88);
  EXPECT_EQ(replicas[0]->hash, replicas[1]->hash);
  EXPECT_EQ(replicas[0]->hash, replicas[2]->hash);
  EXPECT_LE(relative_difference(parameters_of(*replicas[2]), expected), 1e-6);
}

// U9, and that a joiner goes on with the same bits.
TEST(Identity, AJoinerHoldsWhatItsDonorHolds) {
  const Welcome welcome = welcome_to(kNormed, R"("adam")", R"({"type": "allreduce", "shards": 2})");
  Replicas nodes = make_replicas(1, welcome);
  train_allreduce(nodes, 7, 2, 64, 640);
  const SharedBytes image = nodes[0]->snapshot();
  EXPECT_EQ(nodes[0]->image_round, 6);
  nodes.push_back(std::make_unique<TestReplica>(welcome));
  EXPECT_EQ(nodes[1]->data, nodes[0]->data);
  EXPECT_EQ(nodes[1]->load(6, image), nodes[0]->hash);
  EXPECT_EQ(nodes[1]->round, 6);
  train_allreduce(nodes, 5, 2, 64, 640, 7);  // asserts that the hashes agree
}

// ---- periodic ----

// Adam's moments take part in the mean: afterwards every worker is the same in all that it will do.
TEST(Periodic, AveragesTheOptimizerToo) {
  Replicas replicas = make_replicas(2, welcome_to(kNormed, R"("adam")", R"({"type": "periodic", "every": 5, "average_optimizer": true})"));
  std::vector<float> losses;
  for (int64_t r = 0; r < 4; ++r) {
    for (int i = 0; i < 2; ++i) {
      std::vector<Range> ranges;
      for (int64_t step = 0; step < 5; ++step) ranges.push_back({static_cast<uint64_t>(r / 2), (r % 2) * 320 + i * 160 + step * 32, 32});
      replicas[i]->start(local_order(r, std::move(ranges), r * 320, 64));
    }
    for (auto& replica : replicas) {
      const Contribution& contribution = replica->finish();
      EXPECT_EQ(contribution.steps, 5);
      EXPECT_EQ(contribution.examples, 160);
      EXPECT_GT(contribution.figures.loss_sum, 0);
    }
    EXPECT_NE(std::memcmp(replicas[0]->row(), replicas[1]->row(), 1000), 0);
    EXPECT_EQ(merge_values(replicas), 320);
    for (auto& replica : replicas) replica->apply(r, 320, (r + 1) * 320);
    EXPECT_EQ(replicas[0]->hash, replicas[1]->hash);
  }
  EXPECT_EQ(replicas[0]->replica->steps(), 20);
  EXPECT_EQ(*replicas[0]->snapshot(), *replicas[1]->snapshot());  // slots and position included
}

TEST(Periodic, AloneKeepsItsValuesBitForBit) {
  const Welcome welcome = welcome_to(kLenet, kAdam, R"({"type": "periodic", "every": 5})");
  TestReplica replica(welcome);
  Trainer trainer(Job(Json::parse(welcome.job, "job"), "job"), {.threads = 1, .measure = false});
  for (int64_t r = 0; r < 4; ++r) {
    std::vector<Range> ranges;
    for (int64_t i = 0; i < 5; ++i) ranges.push_back({0, (r * 5 + i) * 32, 32});
    replica.train(local_order(r, std::move(ranges), r * 160));
    replica.apply(r, 160, (r + 1) * 160, true);
    for (int i = 0; i < 5; ++i) trainer.step();
  }
  EXPECT_EQ(parameters_of(replica), parameters_of(trainer.model().params()));
}

TEST(Periodic, AnOrderEndsAfterItsTime) {
  TestReplica replica(welcome_to(kTiny, R"("adam")", R"({"type": "periodic", "every_ms": 10})"));
  TrainOrder order = local_order(0, std::vector<Range>(20'000, Range{0, 0, 32}));
  order.stop_after_ms = 1;
  const Contribution& contribution = replica.train(order);
  EXPECT_GE(contribution.steps, 1);
  EXPECT_LT(contribution.steps, 20'000);
  EXPECT_EQ(static_cast<int64_t>(contribution.ranges.size()), contribution.steps);
}

// The cosine ends where the plan of all workers ends, not after as many examples as one of them would train.
TEST(Schedules, FollowThePlanOfAllWorkers) {
  TestReplica replica(
      welcome_to(kTiny, kAdam, R"("periodic")", R"(, "steps": 10)", R"({"type": "digits", "endless": false, "size": 640})"));
  Welcome global = welcome_to(kTiny, kAdam, R"("periodic")", R"(, "steps": 10)");
  const size_t at = global.job.find("\"batch\": 32");
  global.job.insert(at, "\"global_batch\": 128, ");
  TestReplica wide(global);
  const double end = replica.train(local_order(0, {{0, 0, 32}}, 320)).figures.learning_rate;
  const double quarter = wide.train(local_order(0, {{0, 0, 32}}, 320)).figures.learning_rate;
  EXPECT_NEAR(end, 0, 1e-9);
  EXPECT_NEAR(quarter, 0.002 * (1 + std::cos(0.25 * 3.14159265358979)) / 2, 1e-6);
}

// ---- healing ----

TEST(Healing, LocalWorkMovesOntoTheNewBase) {
  const Welcome welcome = welcome_to(kNormed, R"({"type": "sgd", "lr": 0.1})", R"({"type": "periodic", "every": 2})");
  Replicas replicas = make_replicas(2, welcome);
  TestReplica &late = *replicas[0], &donor = *replicas[1];
  const std::vector<double> old_base = parameters_of(late);
  late.train(local_order(0, {{0, 0, 32}, {0, 32, 32}}));
  const size_t elements = old_base.size();
  std::vector<float> local(late.row(), late.row() + elements);
  for (float& value : local) value /= 64;
  EXPECT_EQ(parameters_of(late), old_base) << "a snapshot is of the last result";

  donor.train(local_order(0, {{0, 64, 32}, {0, 96, 32}}));
  donor.apply(0, 64, 64, true);
  const std::vector<double> new_base = parameters_of(donor);
  EXPECT_EQ(late.load(0, donor.snapshot(), true), donor.hash);
  EXPECT_EQ(late.round, 0);
  EXPECT_EQ(parameters_of(late), new_base);
  std::vector<float> expected(elements), staged(late.row(), late.row() + elements);
  for (size_t i = 0; i < elements; ++i) {
    expected[i] = local[i] + new_base[i] - old_base[i];
    staged[i] /= 64;
  }
  EXPECT_LE(relative_difference(staged, expected), 1e-6);
  EXPECT_EQ(late.tail().examples, 64);
  // It is still a contribution to the next round.
  late.apply(1, 64, 128, true);
  EXPECT_LE(relative_difference(parameters_of(late), expected), 1e-6);
}

// A late worker, and the mean of parameters, states and slots, in float64 to its own precision.
TEST(Healing, AndMeansAreOfFloat64) {
  const Welcome welcome =
      welcome_to(kNormed, R"("adam")", R"({"type": "periodic", "every": 2, "average_optimizer": true})", R"(, "precision": "float64")");
  Replicas replicas = make_replicas(2, welcome);
  const std::vector<double> base = parameters_of<double>(*replicas[0]);
  replicas[0]->train(local_order(0, {{0, 0, 32}}));
  replicas[1]->train(local_order(0, {{0, 32, 16}}));
  const auto local = [&](TestReplica& node, double examples) {
    const auto* row = reinterpret_cast<const double*>(node.row());
    std::vector<double> values(row, row + base.size());
    for (double& value : values) value /= examples;
    return values;
  };
  const std::vector<double> first = local(*replicas[0], 32), second = local(*replicas[1], 16);
  std::vector<double> mean(base.size());
  for (size_t i = 0; i < mean.size(); ++i) mean[i] = (32 * first[i] + 16 * second[i]) / 48;

  TestReplica late(welcome);
  late.train(local_order(0, {{0, 64, 32}}));
  const std::vector<double> ahead = local(late, 32);
  EXPECT_EQ(merge_values(replicas), 48);
  for (auto& replica : replicas) replica->apply(0, 48, 48);
  EXPECT_EQ(replicas[0]->hash, replicas[1]->hash);
  EXPECT_LE(relative_difference(parameters_of<double>(*replicas[0]), mean), 1e-15);

  EXPECT_EQ(late.load(0, replicas[0]->snapshot(), true), replicas[0]->hash);
  std::vector<double> moved(base.size());
  for (size_t i = 0; i < moved.size(); ++i) moved[i] = ahead[i] + mean[i] - base[i];
  EXPECT_LE(relative_difference(local(late, 32), moved), 1e-14);
}

TEST(Healing, ADamagedImageChangesNothing) {
  const Welcome welcome = welcome_to(kTiny, R"("adam")", R"({"type": "allreduce"})");
  Replicas replicas = make_replicas(1, welcome);
  train_allreduce(replicas, 3, 1, 32, 640);
  const SharedBytes good = replicas[0]->snapshot();
  const uint64_t hash = replicas[0]->hash;
  for (const size_t at : {good->size() / 2, good->size() - 1}) {
    auto bad = std::make_shared<std::vector<std::byte>>(*good);
    (*bad)[at] ^= std::byte{1};
    EXPECT_EQ(replicas[0]->load(9, bad), hash);
    EXPECT_EQ(replicas[0]->round, 2);
  }
  EXPECT_EQ(replicas[0]->load(9, std::make_shared<std::vector<std::byte>>()), hash);
  EXPECT_EQ(*replicas[0]->snapshot(), *good);
}

TEST(Healing, InitialValuesAreThoseOfTheSeed) {
  Replicas replicas = make_replicas(2, welcome_to(kNormed, R"("adam")", R"("allreduce")"));
  const uint64_t start = replicas[1]->load(-1, nullptr);
  train_allreduce(replicas, 3, 2, 64, 640);
  EXPECT_NE(replicas[0]->hash, start);
  EXPECT_EQ(replicas[0]->load(-1, nullptr), start);
  const SharedBytes image = replicas[0]->snapshot();
  replicas[1]->load(-1, nullptr);
  EXPECT_EQ(*replicas[1]->snapshot(), *image);
}

TEST(Snapshot, ContinuesWithTheSameBits) {
  for (const char* more : {"", R"(, "precision": "float64")"}) {
    const Welcome welcome = welcome_to(kNormed, R"("adam")", R"({"type": "allreduce", "shards": 2})", more);
    Replicas one = make_replicas(2, welcome);
    train_allreduce(one, 9, 2, 64, 640);
    const SharedBytes image = one[0]->snapshot();
    const std::vector<uint64_t> went_on = train_allreduce(one, 8, 2, 64, 640, 9);
    Replicas other = make_replicas(1, welcome);
    other[0]->load(8, image);
    EXPECT_EQ(train_allreduce(other, 8, 2, 64, 640, 9), went_on) << more;
  }
}

// A long order goes on while others ask.
TEST(Snapshot, IsOfTheLastResultWhileTrainingGoesOn) {
  TestReplica replica(welcome_to(kLenet, kAdam, R"({"type": "periodic", "every": 5})"));
  const SharedBytes before = replica.snapshot();
  std::vector<Range> ranges;
  for (int64_t i = 0; i < 200; ++i) ranges.push_back({static_cast<uint64_t>(i / 20), i % 20 * 32, 32});
  replica.start(local_order(0, ranges));
  while (replica.replica->steps() < 2) std::this_thread::yield();
  EXPECT_EQ(*replica.snapshot(), *before);
  const std::string part = replica.evaluate("train", 0, 640);
  EXPECT_NE(part.find("evaluations"), std::string::npos) << part;
  EXPECT_EQ(replica.finish().steps, 200);
  const std::string after = replica.evaluate("train", 0, 640);
  EXPECT_EQ(after, part);
}

TEST(Evaluation, SlicesTogetherAreTheWhole) {
  Welcome welcome =
      welcome_to(kLenet, kAdam, R"("allreduce")", R"(, "metrics": ["classification", "calibration"])", data_of("train", 1000));
  Replicas replicas = make_replicas(3, welcome);
  train_allreduce(replicas, 6, 3, 96, 1000);
  Job job(Json::parse(welcome.job, "job"), "job");
  Trainer trainer(job, {.threads = 1, .measure = false});
  load_checkpoint(trainer, *replicas[0]->snapshot(), "image", true);
  const Json whole = trainer.evaluate("train");
  std::vector<Json> states;
  for (int i = 2; i >= 0; --i) states.push_back(Json::parse(replicas[i]->evaluate("train", i * 333, i == 2 ? -1 : (i + 1) * 333), "state"));
  Evaluator& evaluator = *trainer.evaluator("train");
  const Json merged =
      evaluation_report(*job.json().find("metrics"), evaluator.task(), evaluator.source().traits().description, states, "job");
  EXPECT_EQ(merged.find("examples")->as_int(), 1000);
  EXPECT_EQ(merged.find("accuracy")->as_number(), whole.find("accuracy")->as_number());
  EXPECT_NEAR(merged.find("loss")->as_number(), whole.find("loss")->as_number(), 1e-12);
  EXPECT_NE(replicas[0]->evaluate("validation", 0, -1).find("error"), std::string::npos);
}

// ---- what goes wrong ----

// Digits of which one example is not a number, or cannot be read.
class Poisoned final : public SourceOpener, public DataSource {
 public:
  enum class Harm { nan, unreadable, huge };  // huge: every example is
  Poisoned(int64_t bad, Harm harm) : bad_(bad), harm_(harm) {}
  SourcePtr open(const std::string&, const Config& description, const std::string& folder) override {
    inner_ = open_source(description, folder);
    return SourcePtr(SourcePtr(), this);
  }
  int64_t size() const override { return inner_->size(); }
  const std::vector<Field>& fields() const override { return inner_->fields(); }
  SourceTraits traits() const override { return {.description = "poisoned"}; }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    inner_->read(key, slots);
    if (harm_ == Harm::huge) reinterpret_cast<float*>(slots[0])[5] = 3e38f;
    if (key.index != bad_) return;
    if (harm_ == Harm::unreadable) throw Error(ErrorKind::data, {.where = "record 77", .what = "is damaged"});
    if (harm_ == Harm::nan) reinterpret_cast<float*>(slots[0])[5] = std::numeric_limits<float>::quiet_NaN();
  }

 private:
  SourcePtr inner_;
  int64_t bad_;
  Harm harm_;
};

constexpr int64_t kBad = 77;

// Where the bad example is in the first epoch.
int64_t position_of_bad() {
  for (int64_t p = 0; p < 640; ++p)
    if (shuffled_index(5, 0, p, 640) == kBad) return p;
  return -1;
}

TEST(NotFinite, AGradientIsLeftOutAndNamed) {
  for (const size_t bucket_bytes : {size_t{1} << 20, size_t{20'000}}) {
    Poisoned poisoned(kBad, Poisoned::Harm::nan);
    // No rectifiers: they take NaN for 0.
    const std::string layers =
        R"([{"type": "dense", "out": 64, "activation": "tanh"}, {"type": "dense", "out": 90, "activation": "tanh"}, {"type": "dense", "out": 10}])";
    TestReplica replica(welcome_to(layers, kAdam, R"({"type": "allreduce", "shards": 2})"), {bucket_bytes, &poisoned});
    ASSERT_FALSE(replica.failed) << replica.failure;
    const int64_t bad = position_of_bad();
    const SharedBytes before = replica.snapshot();
    const int64_t from = bad - bad % 32, good = from < 320 ? 400 : 100;
    replica.train({.gradient = true, .ranges = {{0, good, 32}, {0, from, 32}}, .leaves = 2});
    EXPECT_FALSE(replica.contribution.finite);
    EXPECT_EQ(replica.contribution.examples, 0);
    EXPECT_EQ(replica.contribution.ranges.size(), 2u);
    EXPECT_LT(replica.buckets.size(), replica.replica->buckets().size()) << "the last bucket must not go out";
    EXPECT_EQ(replica.tail().examples, 0);
    for (int64_t i = 0; i < replica.replica->layout().sums; ++i) ASSERT_EQ(replica.row()[i], 0);
    replica.replica->drop();
    EXPECT_EQ(*replica.snapshot(), *before);
    replica.train({.gradient = true, .ranges = {{0, good, 32}, {0, good + 32, 32}}, .leaves = 2});
    EXPECT_TRUE(replica.contribution.finite);
  }
}

// Each example's loss and gradient are finite, their sum is not.
TEST(NotFinite, AGradientMayOverflowWhereTheLossDoesNot) {
  Poisoned poisoned(-1, Poisoned::Harm::huge);
  TestReplica replica(welcome_to(R"([{"type": "dense", "out": 10}])", kAdam, R"("allreduce")"), {size_t{1} << 20, &poisoned});
  replica.train({.gradient = true, .ranges = {{0, 0, 32}}});
  EXPECT_FALSE(replica.contribution.finite);
  EXPECT_TRUE(replica.buckets.empty());
  EXPECT_TRUE(std::isfinite(replica.contribution.figures.loss_sum)) << "the test is of something else";
}

TEST(NotFinite, ALocalStepHandsInWhatWasGoodBefore) {
  Poisoned poisoned(kBad, Poisoned::Harm::nan);
  TestReplica replica(welcome_to(kTiny, R"("adam")", R"("periodic")"), {size_t{1} << 20, &poisoned});
  const int64_t bad = position_of_bad(), from = bad - bad % 32;
  const Range poison{0, from, 32}, first{0, (from + 64) % 640, 32}, second{0, (from + 128) % 640, 32};
  replica.train(local_order(0, {first, second, poison, first}));
  EXPECT_TRUE(replica.contribution.finite);
  EXPECT_EQ(replica.contribution.ranges, (std::vector<Range>{first, second}));
  replica.apply(0, 64, 64, true);
  const uint64_t hash = replica.hash;
  replica.train(local_order(1, {poison, first}, 64));
  EXPECT_FALSE(replica.contribution.finite);
  EXPECT_EQ(replica.contribution.ranges, (std::vector<Range>{poison}));
  EXPECT_EQ(replica.contribution.examples, 0);
  EXPECT_EQ(replica.apply(1, 0, 64), hash) << "no contribution: the parameters stay";
}

TEST(Failure, UnreadableDataEndTheReplicaAndSayWhere) {
  Poisoned poisoned(kBad, Poisoned::Harm::unreadable);
  Welcome welcome = welcome_to(kTiny, R"("adam")", R"("periodic")");
  TestReplica replica(welcome, {size_t{1} << 20, &poisoned});
  replica.train(local_order(0, {{0, 0, 320}, {0, 320, 320}}));
  EXPECT_TRUE(replica.failed);
  EXPECT_FALSE(replica.for_all);
  EXPECT_NE(replica.failure.find("record 77"), std::string::npos) << replica.failure;
}

TEST(Failure, AJobThatCannotWorkFailsForAll) {
  TestReplica replica(welcome_to(R"([{"type": "dense", "out": 7}])", R"({"type": "adam", "lrr": 1})", R"("allreduce")"));
  EXPECT_TRUE(replica.failed);
  EXPECT_TRUE(replica.for_all);
}

TEST(Pretrained, IsReadOnlyWhereTheWorkerMayRead) {
  namespace fs = std::filesystem;
  const fs::path base = fs::canonical(fs::temp_directory_path()) / ("pretrained." + std::to_string(getpid()));
  fs::create_directories(base / "root");
  fs::create_directories(base / "outside");
  Welcome other = welcome_to(kTiny, R"("adam")", R"("periodic")");
  other.job.replace(other.job.find(R"("seed": 5)"), 9, R"("seed": 6)");
  const SharedBytes model = TestReplica(other).snapshot();
  for (const char* folder : {"root", "outside"}) write_file((base / folder / "model.safetensors").string(), *model);
  fs::create_symlink(base / "outside" / "model.safetensors", base / "root" / "link.safetensors");

  RootedOpener opener((base / "root").string());
  const auto start_from = [&](const std::string& path) {
    return welcome_to(kTiny, R"("adam")", R"("periodic")", R"(, "pretrained": {"model": ")" + path + R"("})");
  };
  TestReplica inside(start_from("model.safetensors"), {.opener = &opener});
  EXPECT_FALSE(inside.failed) << inside.failure;
  const LoadedModel loaded = load_model(*inside.snapshot(), "its parameters"), expected = load_model(*model, "the model");
  const Params &got = loaded.model->params(), &wanted = expected.model->params();
  ASSERT_EQ(got.block_bytes(), wanted.block_bytes());
  EXPECT_EQ(std::memcmp(got.block(), wanted.block(), got.block_bytes()), 0);
  for (const std::string& path :
       {(base / "outside" / "model.safetensors").string(), std::string("../outside/model.safetensors"), std::string("link.safetensors")}) {
    TestReplica outside(start_from(path), {.opener = &opener});
    EXPECT_TRUE(outside.failed) << path;
    EXPECT_NE(outside.failure.find("leads out of the folder"), std::string::npos) << path << ": " << outside.failure;
  }
  fs::remove_all(base);
}

TEST(Drop, GivesUpAnOrderAndWhatItReported) {
  TestReplica replica(welcome_to(kLenet, kAdam, R"({"type": "periodic", "every": 5})"));
  const SharedBytes before = replica.snapshot();
  for (int i = 0; i < 20; ++i) {
    replica.start(local_order(0, std::vector<Range>(i % 2 ? 1 : 5000, Range{0, 0, 32})));
    if (i % 3 == 0) std::this_thread::yield();
    if (i % 4 == 1) replica.replica->snapshot(0, false);  // in between
    replica.replica->drop();
    EXPECT_EQ(*replica.snapshot(), *before);
    EXPECT_EQ(replica.contributions, 0);
  }
  EXPECT_EQ(replica.train(local_order(0, {{0, 0, 32}})).steps, 1);
  replica.start(local_order(0, std::vector<Range>(5000, Range{0, 0, 32})));  // and the destructor ends this one
}

TEST(Drop, LoadEndsAnOrder) {
  TestReplica replica(welcome_to(kLenet, kAdam, R"({"type": "allreduce", "shards": 2})"));
  const SharedBytes image = replica.snapshot();
  replica.start({.gradient = true, .ranges = {{0, 0, 320}, {0, 320, 320}}, .leaves = 2});
  replica.load(3, image);
  EXPECT_EQ(replica.round, 3);
  EXPECT_EQ(replica.contributions, 0);
  EXPECT_EQ(replica.train({.gradient = true, .ranges = {{0, 0, 32}, {0, 32, 32}}, .leaves = 2}).examples, 64);
}

// Digits that are slow enough for a thread of their own, and that tell what was read.
class Watched final : public SourceOpener, public DataSource {
 public:
  SourcePtr open(const std::string&, const Config& description, const std::string& folder) override {
    inner_ = open_source(description, folder);
    return SourcePtr(SourcePtr(), this);
  }
  int64_t size() const override { return inner_->size(); }
  const std::vector<Field>& fields() const override { return inner_->fields(); }
  SourceTraits traits() const override { return {.description = "watched"}; }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    inner_->read(key, slots);
    ++reads[static_cast<size_t>(key.index)];
  }
  int reads_at(int64_t position) const { return reads[static_cast<size_t>(shuffled_index(5, 0, position, 640))]; }

 private:
  SourcePtr inner_;
  mutable std::array<std::atomic<int>, 640> reads{};
};

TEST(Data, OfTheNextOrderAreReadAheadAndOnce) {
  for (const bool gradient : {true, false}) {
    Watched watched;
    TestReplica replica(welcome_to(kTiny, R"("adam")", R"({"type": "allreduce", "shards": 2})"), {size_t{1} << 20, &watched});
    const int before = watched.reads_at(100), before_both = watched.reads_at(200);  // by the fingerprint
    TrainOrder order{.round = 0, .gradient = gradient, .ranges = {{0, 0, 32}, {0, 32, 32}}, .next = {{0, 96, 32}, {0, 0, 0}}, .leaves = 2};
    EXPECT_EQ(replica.train(order).examples, 64);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    while (watched.reads_at(127) == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(watched.reads_at(100), before + 1);
    order = {.round = 1, .gradient = gradient, .ranges = {{0, 96, 32}, {0, 0, 0}}, .next = {{0, 192, 32}}, .leaves = 2};
    EXPECT_EQ(replica.train(order).examples, 32);
    EXPECT_EQ(watched.reads_at(100), before + 1) << "read once";
    // Something else comes than was foreseen.
    order = {.round = 2, .gradient = gradient, .ranges = {{0, 300, 32}, {0, 332, 32}}, .leaves = 2};
    EXPECT_EQ(replica.train(order).examples, 64);
    EXPECT_LE(watched.reads_at(200), before_both + 1);
    EXPECT_GE(watched.reads_at(310), 1);
  }
}

TEST(Data, AFingerprintTellsDataSetsApart) {
  const auto fingerprint_of = [](const std::string& train, const std::string& more = "") {
    return TestReplica(welcome_to(kTiny, R"("adam")", R"("allreduce")", more, train)).data;
  };
  const uint64_t one = fingerprint_of(R"({"type": "digits", "endless": false, "size": 640})");
  EXPECT_EQ(one, fingerprint_of(R"({"type": "digits", "endless": false, "size": 640})"));
  EXPECT_NE(one, fingerprint_of(R"({"type": "digits", "endless": false, "size": 641})"));
  EXPECT_NE(one,
            fingerprint_of(R"({"type": "take", "count": 640, "from": 1, "source": {"type": "digits", "endless": false, "size": 641}})"));
}

}  // namespace
}  // namespace perigee
