// Networks that carry state from batch to batch, trained by the gradients of several replicas: each has some of the streams, and after each step
// all have what every row carries.
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

}  // namespace
}  // namespace perigee
