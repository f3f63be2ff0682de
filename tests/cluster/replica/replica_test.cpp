// The cluster's demands on a replica: the same bits however the leaves are dealt out, weighted means, healing, and that a result
// once held is given out unchanged whatever local work goes on.
#include "src/model/evaluator.h"
#include "tests/cluster/replica/replica_jobs.h"

namespace perigee {
namespace {

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

}  // namespace
}  // namespace perigee
