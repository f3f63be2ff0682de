// Replicas whose examples count differently, by lengths and weights.
#include <random>

#include "tests/cluster/replica/replica_jobs.h"

namespace perigee {
namespace {

// 240 sequences of 1 to 12 steps, padded with `padding` steps, with a class for each step and a weight for each sequence.
Welcome sequences_for(const std::string& averaging, int padding, const std::string& more = "") {
  Json x = Json::array(), y = Json::array(), n = Json::array(), w = Json::array();
  std::mt19937_64 random(9);
  for (int i = 0; i < 240; ++i) {
    const int length = 1 + static_cast<int>(random() % 12);
    Json row = Json::array(), labels = Json::array();
    for (int t = 0; t < 12 + padding; ++t) {
      const double value = t < length ? static_cast<double>(random() % 1000) / 500 - 1 : 77.5;
      row.push(value), labels.push(t < length ? static_cast<int64_t>(value > 0) + static_cast<int64_t>(value > 0.5) : int64_t{-1});
    }
    x.push(Json(Json::Array{row})), y.push(labels), n.push(length), w.push(static_cast<double>(1 + random() % 3) / 2);
  }
  Json train(Json::Object{{"type", "arrays"}, {"x", x}, {"y", y}, {"n", n}, {"w", w}});
  Welcome welcome = welcome_to(R"([{"type": "conv1d", "out": 5, "kernel": 3, "padding": "same", "activation": "tanh"},
      {"type": "conv1d", "out": 3, "kernel": 1}])",
                               R"({"type": "adamw", "lr": 0.01})", averaging, more, train.dump());
  Json job = Json::parse(welcome.job, "job");
  job.find("data")->set("lengths", Json(Json::Object{{"x", "n"}}));
  job.find("data")->set("weights", "w");
  welcome.job = job.dump();
  return welcome;
}

TEST(Allreduce, WeightedSequencesGiveTheSameBitsForAnyNumberOfWorkers) {
  const Welcome welcome = sequences_for(R"({"type": "allreduce", "shards": 4})", 0);
  std::vector<std::vector<uint64_t>> hashes;
  std::vector<double> parameters;
  for (const int count : {1, 2, 4}) {
    Replicas nodes = make_replicas(count, welcome);
    ASSERT_FALSE(nodes[0]->failed) << nodes[0]->failure;
    hashes.push_back(train_allreduce(nodes, 20, 4, 60, 240));
    parameters = parameters_of(*nodes[0]);
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[0], hashes[2]);
  // One process with the whole batch, and three workers whose leaves are of other lengths.
  Job job(Json::parse(welcome.job, "job"), "job");
  job.set("data.batch", "60");
  Trainer alone(job, {.threads = 1, .measure = false});
  for (int i = 0; i < 20; ++i) alone.step();
  EXPECT_LT(relative_difference(parameters, parameters_of(alone.model().params())), 1e-4);
  Replicas three = make_replicas(3, sequences_for(R"({"type": "allreduce", "shards": 3})", 9));
  train_allreduce(three, 20, 3, 60, 240);
  EXPECT_LT(relative_difference(parameters, parameters_of(*three[0])), 1e-4);
}

// After one step from the same values the merged parameters are the mean of the workers', by the weights of what they counted.
TEST(Periodic, AWorkersPartIsTheWeightOfItsExamples) {
  const Welcome welcome = sequences_for(R"({"type": "periodic", "every": 1})", 3);
  Replicas nodes = make_replicas(2, welcome);
  ASSERT_FALSE(nodes[0]->failed) << nodes[0]->failure;
  const Job job(Json::parse(welcome.job, "job"), "job");
  std::vector<std::vector<double>> own;
  std::vector<double> weights;
  for (size_t i = 0; i < 2; ++i) {
    const Range range{0, static_cast<int64_t>(i) * 100, i == 0 ? 32 : 8};
    nodes[i]->train(local_order(0, {range}));
    Trainer alone(job, {.threads = 1, .measure = false});
    alone.loader().clear_list();
    alone.loader().list({0, range.begin, range.count});
    const StepReport report = alone.step();
    own.push_back(parameters_of(alone.model().params()));
    weights.push_back(report.weight);
  }
  EXPECT_NE(weights[0] / weights[1], 4) << "else examples would do";
  EXPECT_EQ(merge_values(nodes), 40);
  for (auto& node : nodes) node->apply(0, 40, 40);
  std::vector<double> mean(own[0].size());
  for (size_t k = 0; k < mean.size(); ++k) mean[k] = (weights[0] * own[0][k] + weights[1] * own[1][k]) / (weights[0] + weights[1]);
  EXPECT_LT(relative_difference(mean, parameters_of(*nodes[0])), 1e-6);
}

}  // namespace
}  // namespace perigee
