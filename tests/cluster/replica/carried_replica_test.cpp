// Networks that carry state from batch to batch, trained by the gradients of several replicas: each has some of the streams, and after each step
// all have what every row carries.
#include "src/model/steps/carried_rows.h"
#include "src/run/checkpoint.h"
#include "tests/cluster/replica/replica_jobs.h"
#include "tests/train/lanes.h"

namespace perigee {
namespace {

constexpr int64_t kRows = 6, kSteps = kLanes * kLane / (4 * kRows);  // streams; windows of 4 units of each

class CarriedReplicas : public testing::Test {
 protected:
  CarriedReplicas() { write_lanes(folder_); }

  Welcome welcome(const std::string& optimizer = R"({"type": "adam", "lr": 0.02})") const {
    Welcome welcome = welcome_to(R"([{"type": "embedding", "size": 6, "out": 4}, {"type": "lstm", "units": 5, "state": "carry"},
        {"type": "gru", "units": 3, "state": "carry"}, {"type": "dense", "out": 6, "over": "steps"}])",
                                 optimizer, R"({"type": "allreduce", "shards": 3})", "",
                                 R"({"type": "text", "file": "text.txt", "targets": "every", "context": 4, "streams": 6})");
    const std::string batch = "\"batch\": 32";
    welcome.job.replace(welcome.job.find(batch), batch.size(), "\"batch\": 6");
    welcome.folder = folder_.path();
    return welcome;
  }

  // Steps [first, end) of some of the streams, two of which are a shard, in the order in which a worker is given them.
  static std::vector<Range> ranges_of(const std::vector<int64_t>& shards, int64_t first, int64_t end) {
    std::vector<Range> ranges;
    for (int64_t step = first; step < end; ++step)
      for (const int64_t shard : shards) ranges.push_back({static_cast<uint64_t>(step / kSteps), step % kSteps * kRows + shard * 2, 2});
    return ranges;
  }
  // The carried values of all rows, one after the other.
  static std::vector<double> rows_of(const Trainer& trainer) {
    std::vector<double> values;
    for (size_t i = 0; i < trainer.carried()->specs().size(); ++i) {
      const std::span<std::byte> rows = trainer.carried()->now(i);
      const auto* of = reinterpret_cast<const float*>(rows.data());
      values.insert(values.end(), of, of + rows.size() / sizeof(float));
    }
    return values;
  }
  std::vector<double> rows_of(const Welcome& given, TestReplica& node) const {
    Trainer trainer(Job(Json::parse(given.job, "job"), "job", folder_.path()), {.threads = 1});
    load_checkpoint(trainer, *node.snapshot(), "snapshot");
    return rows_of(trainer);
  }

  TemporaryFolder folder_;
};

TEST_F(CarriedReplicas, HaveTheSameBitsHoweverManyThereAre) {
  Replicas one = make_replicas(1, welcome());
  const std::vector<uint64_t> expected = train_allreduce(one, 8, 3, kRows, kRows * kSteps);
  for (const int count : {2, 3}) {
    Replicas several = make_replicas(count, welcome());
    EXPECT_EQ(train_allreduce(several, 8, 3, kRows, kRows * kSteps), expected) << count;
    for (auto& node : several) EXPECT_EQ(parameters_of(*node), parameters_of(*one[0]));
  }
}

// As one process trains them, but for the order of the sums.
TEST_F(CarriedReplicas, TrainAsOneProcessDoes) {
  Welcome given = welcome(R"({"type": "sgd", "lr": 0.5})");
  Replicas two = make_replicas(2, given);
  train_allreduce(two, 7, 3, kRows, kRows * kSteps);
  Json alone = Json::parse(given.job, "job");
  alone.erase("averaging");
  Trainer trainer(Job(alone, "job", folder_.path()), {.threads = 1});
  losses(trainer, 7);
  EXPECT_LT(relative_difference(parameters_of(*two[0]), parameters_of(trainer.model().params())), 1e-5);
}

// A replica that comes in the middle of the streams takes what rows carry from another one, and any lanes.
TEST_F(CarriedReplicas, GoOnFromAnImageInTheMiddleOfTheirStreams) {
  Replicas whole = make_replicas(1, welcome()), first = make_replicas(3, welcome());
  const std::vector<uint64_t> expected = train_allreduce(whole, 8, 3, kRows, kRows * kSteps);
  train_allreduce(first, 4, 3, kRows, kRows * kSteps);
  const SharedBytes image = first[1]->snapshot();
  Replicas again = make_replicas(2, welcome());
  for (auto& node : again) EXPECT_EQ(node->load(3, image), expected[3]);
  EXPECT_EQ(train_allreduce(again, 4, 3, kRows, kRows * kSteps, 4), (std::vector<uint64_t>(expected.begin() + 4, expected.end())));
}

// With parameters that stay, what rows carry depends on what was read alone: it is that of one process, whoever read which streams.
TEST_F(CarriedReplicas, EachGoesOnWithItsStreamsBetweenAverages) {
  Welcome given = welcome(R"({"type": "sgd", "lr": 1e-30})");
  const std::string gradients = R"({"type": "allreduce", "shards": 3})";
  given.job.replace(given.job.find(gradients), gradients.size(), R"("periodic")");
  Json alone = Json::parse(given.job, "job");
  alone.erase("averaging");
  Trainer reference(Job(alone, "job", folder_.path()), {.threads = 1});
  losses(reference, 4);

  Replicas two = make_replicas(2, given);
  TestReplica &first = *two[0], &late = *two[1];
  const auto merge = [&](int64_t round, int64_t after) {
    const int64_t examples = merge_values(two);
    for (auto& node : two) node->apply(round, examples, after);
    EXPECT_EQ(first.hash, late.hash) << round;
    EXPECT_FALSE(first.failed || late.failed) << first.failure << late.failure;
  };
  // A round that one of them misses, whose work is all that there is in the next.
  late.train(local_order(0, ranges_of({2}, 0, 2)));
  first.train(local_order(0, ranges_of({0, 1}, 0, 2)));
  first.apply(0, 8, 8, true);
  late.load(0, first.snapshot(), true);
  first.train(local_order(1, {}));
  merge(1, 12);
  first.train(local_order(2, ranges_of({0, 1}, 2, 4)));
  late.train(local_order(2, ranges_of({2}, 2, 4)));
  merge(2, 24);
  const std::vector<double> expected = rows_of(reference);
  EXPECT_LT(relative_difference(expected, rows_of(given, first)), 1e-6);
  EXPECT_LT(relative_difference(expected, rows_of(given, late)), 1e-6);

  // Local work that is dropped leaves no trace, and a shard goes on in other hands.
  first.train(local_order(3, ranges_of({1}, 4, 6)));
  first.replica->drop();
  losses(reference, 2);
  late.train(local_order(3, ranges_of({0, 1}, 4, 6)));
  first.train(local_order(3, ranges_of({2}, 4, 6)));
  merge(3, 36);
  EXPECT_LT(relative_difference(rows_of(reference), rows_of(given, first)), 1e-6);
}

}  // namespace
}  // namespace perigee
