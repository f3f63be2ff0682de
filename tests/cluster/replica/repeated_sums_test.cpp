// Rounds whose workers add up several rows, one after the other: line searches and objectives. The workers' numbers are those of one process, bit
// by bit the same for any number of them, whoever joins, leaves or begins anew in between.
#include <limits>

#include "cluster/exchange/exact_sum.h"
#include "src/train/trainer.h"
#include "tests/cluster/replica/replica_jobs.h"

namespace perigee {
namespace {

constexpr int kLeaves = 4;
constexpr int64_t kExamples = 64;

std::string table() {
  std::string x, y;
  for (int i = 0; i < kExamples; ++i) {
    const int label = (i * 7 + i / 5) % 3;
    x += i ? ",[" : "[";
    for (int f = 0; f < 5; ++f) x += (f ? "," : "") + Json(std::cos(1.3 * i + 2.1 * f) + (f == label ? 0.8 : 0)).dump();
    x += "]";
    y += (i ? "," : "") + std::to_string(label);
  }
  return R"({"type": "arrays", "x": [)" + x + R"(], "y": [)" + y + R"(], "classes": 3})";
}

std::string job_of(const std::string& optimizer, const std::string& more, const std::string& precision = "float64") {
  return R"({"loss": "cross_entropy", "seed": 5, "epochs": 100, "device": "ref", "precision": ")" + precision +
         R"(", "network": {"type": "sequential", "layers": [{"type": "dense", "out": 6, "activation": "tanh"}, {"type": "dense", "out": 3}]},
      "regularization": {"l2": 0.001}, "averaging": {"type": "allreduce", "shards": 4}, "optimizer": )" +
         optimizer + R"(, "data": {"train": )" + table() + R"(, "batch": 64, "shuffle": false})" + more + "}";
}

Welcome welcome_of(const std::string& job) {
  Welcome welcome;
  welcome.job = job;
  welcome.folder = ".";
  welcome.threads = 1;
  return welcome;
}

constexpr const char* kLines[] = {R"({"type": "lbfgs", "history": 4})", R"({"type": "cg"})",
                                  R"({"type": "lbfgs", "history": 3, "line_search": "backtracking"})"};

FixedPlan plan_of(int64_t global = kExamples) {
  return {.examples_per_epoch = kExamples, .planned = 100 * kExamples, .global = global, .leaves = kLeaves};
}

void begin_round(Replicas& nodes, int64_t r, int64_t global = kExamples) {
  const FixedPlan::Round round = plan_of(global).at(r);
  const int count = static_cast<int>(nodes.size());
  for (int i = 0; i < count; ++i) {
    TrainOrder order = gradient_order(round, r, i, count, kLeaves);
    order.examples_per_step = round.examples;
    nodes[static_cast<size_t>(i)]->start(order);
  }
  for (auto& node : nodes) ASSERT_TRUE(node->finish().finite) << node->failure;
}

// Adds up until nobody wants more; how many sums that were.
int add_up(Replicas& nodes, int64_t r, int64_t examples = kExamples) {
  for (int pass = 1; pass < nodes[0]->replica->layout().passes; ++pass) {
    exchange(nodes, kLeaves);
    EXPECT_EQ(nodes[0]->tail().examples, examples);
    bool over = false;
    for (auto& node : nodes) {
      const bool more = node->repeat({.round = r, .examples = examples, .pass = pass});
      if (&node == &nodes[0]) over = !more;
      EXPECT_EQ(more, !over) << "the workers do not agree";
    }
    if (over) return pass;
  }
  ADD_FAILURE() << "it never ends";
  return 0;
}

void apply_round(Replicas& nodes, int64_t r, int64_t global = kExamples) {
  const FixedPlan::Round round = plan_of(global).at(r);
  for (auto& node : nodes) node->apply(r, round.examples, round.examples_before + round.examples);
  for (auto& node : nodes) EXPECT_EQ(node->hash, nodes[0]->hash) << "round " << r;
}

struct Trained {
  std::vector<uint64_t> hashes;
  std::vector<int> sums;
  std::vector<double> losses;
};

Trained train_rounds(Replicas& nodes, int64_t first, int64_t end, int64_t global = kExamples) {
  Trained trained;
  for (int64_t r = first; r < end; ++r) {
    begin_round(nodes, r, global);
    double loss = 0;
    for (auto& node : nodes) loss += node->contribution.figures.loss_sum;
    trained.losses.push_back(loss / static_cast<double>(global));
    trained.sums.push_back(add_up(nodes, r, global));
    apply_round(nodes, r, global);
    trained.hashes.push_back(nodes[0]->hash);
  }
  return trained;
}

TEST(RepeatedSums, LineSearchesAreThoseOfOneProcessForAnyNumberOfWorkers) {
  for (const char* rule : kLines)
    for (const int64_t global : {kExamples, kExamples / 2}) {
      const std::string job = job_of(rule, "");
      Json alone = Json::parse(job, "job");
      alone.erase("averaging");
      Json data = *alone.find("data");
      data.set("batch", global);
      alone.set("data", data);
      Trainer one(Job(alone, "job"), {.threads = 1, .measure = false});
      Replicas single = make_replicas(1, welcome_of(job));
      const Trained expected = train_rounds(single, 0, 8, global);
      EXPECT_GT(expected.sums[0], 1) << rule;
      for (int64_t r = 0; r < 8; ++r) {
        const StepReport report = one.step();
        EXPECT_EQ(report.evaluations, expected.sums[static_cast<size_t>(r)]) << rule << ", round " << r;
        EXPECT_NEAR(report.loss, expected.losses[static_cast<size_t>(r)], 1e-9) << rule << ", round " << r;
      }
      EXPECT_LT(relative_difference(parameters_of<double>(one.model().params()), parameters_of<double>(*single[0])), 1e-8) << rule;
      for (const int count : {2, 4}) {
        Replicas nodes = make_replicas(count, welcome_of(job));
        const Trained got = train_rounds(nodes, 0, 8, global);
        EXPECT_EQ(got.hashes, expected.hashes) << rule << ", " << count << " workers";
        EXPECT_EQ(got.sums, expected.sums) << rule << ", " << count << " workers";
      }
    }
}

TEST(RepeatedSums, SearchesInSinglePrecisionHaveTheSameBits) {
  const std::string job = job_of(kLines[0], "", "float32");
  Replicas single = make_replicas(1, welcome_of(job)), several = make_replicas(4, welcome_of(job));
  const Trained one = train_rounds(single, 0, 10), four = train_rounds(several, 0, 10);
  EXPECT_EQ(one.hashes, four.hashes);
  EXPECT_LT(one.losses.back(), 0.8 * one.losses.front());
}

// A worker that has just come does not know the value where the last search ended; the others go back to it.
TEST(RepeatedSums, WhoJoinsBeginsTheSearchWithTheOthers) {
  const std::string job = job_of(kLines[0], "");
  Replicas nodes = make_replicas(1, welcome_of(job));
  const Trained before = train_rounds(nodes, 0, 3);
  nodes.push_back(std::make_unique<TestReplica>(welcome_of(job)));
  nodes[1]->load(2, nodes[0]->snapshot());
  EXPECT_EQ(nodes[1]->hash, before.hashes.back());
  const Trained after = train_rounds(nodes, 3, 6);
  Replicas undisturbed = make_replicas(2, welcome_of(job));
  const Trained all = train_rounds(undisturbed, 0, 6);
  EXPECT_EQ(after.hashes, std::vector<uint64_t>(all.hashes.begin() + 3, all.hashes.end()));
  EXPECT_EQ(after.sums[0], all.sums[3] + 2);  // the sum that was of no use, and the value at the beginning
  EXPECT_EQ(after.sums[1], all.sums[4]);
}

TEST(RepeatedSums, ASearchThatIsGivenUpLeavesNothing) {
  for (const char* rule : {kLines[0], kLines[1]}) {
    const std::string job = job_of(rule, "");
    Replicas nodes = make_replicas(2, welcome_of(job)), undisturbed = make_replicas(2, welcome_of(job));
    const Trained all = train_rounds(undisturbed, 0, 5);
    train_rounds(nodes, 0, 2);
    const SharedBytes held = nodes[0]->snapshot();
    for (const int passes : {0, 1, 2}) {  // one has come further than the other
      begin_round(nodes, 2);
      for (int pass = 1; pass <= passes; ++pass) {
        exchange(nodes, kLeaves);
        for (size_t i = 0; i < nodes.size(); ++i)
          if (i == 0 || pass < passes) nodes[i]->repeat({.round = 2, .examples = kExamples, .pass = pass});
      }
      EXPECT_EQ(*nodes[0]->snapshot(), *held) << rule << " in the midst of a search";
      for (auto& node : nodes) node->replica->drop();
    }
    EXPECT_EQ(*nodes[0]->snapshot(), *held) << rule;
    const Trained after = train_rounds(nodes, 2, 5);
    EXPECT_EQ(after.hashes, std::vector<uint64_t>(all.hashes.begin() + 2, all.hashes.end())) << rule;
  }
}

// With more workers than leaves some only take part in the sums.
TEST(RepeatedSums, AWorkerWithoutExamplesTakesTheSameSteps) {
  const std::string job = job_of(kLines[0], "");
  Replicas single = make_replicas(1, welcome_of(job)), many = make_replicas(6, welcome_of(job));
  EXPECT_EQ(train_rounds(single, 0, 4).hashes, train_rounds(many, 0, 4).hashes);
}

constexpr const char* kObjectives = R"(, "freeze": [], "objectives": [
    {"name": "head", "loss": "cross_entropy", "updates": "dense2.*", "optimizer": {"type": "adam", "lr": 0.05}},
    {"name": "body", "loss": "cross_entropy", "updates": "dense1.*", "every": 2, "optimizer": {"type": "sgd", "lr": 0.3, "momentum": 0.9},
     "clip": {"type": "norm", "threshold": 0.05}}])";

std::string objectives_job() {
  Json job = Json::parse(job_of("\"sgd\"", kObjectives), "job");
  job.erase("loss");
  return job.dump();
}

TEST(RepeatedSums, ObjectivesTakeTurnsAsInOneProcess) {
  Json alone = Json::parse(objectives_job(), "job");
  alone.erase("averaging");
  Trainer one(Job(alone, "job"), {.threads = 1, .measure = false});
  Replicas single = make_replicas(1, welcome_of(objectives_job()));
  const Trained expected = train_rounds(single, 0, 6);
  for (int64_t r = 0; r < 6; ++r) EXPECT_NEAR(one.step().loss, expected.losses[static_cast<size_t>(r)], 1e-12) << "round " << r;
  EXPECT_EQ(expected.sums, (std::vector<int>{2, 1, 2, 1, 2, 1}));
  EXPECT_LT(relative_difference(parameters_of<double>(one.model().params()), parameters_of<double>(*single[0])), 1e-12);
  for (const int count : {2, 4}) {
    Replicas nodes = make_replicas(count, welcome_of(objectives_job()));
    EXPECT_EQ(train_rounds(nodes, 0, 6).hashes, expected.hashes) << count << " workers";
  }
}

// The weight of a loss is a function of the step, whichever worker makes which part of it.
TEST(RepeatedSums, WeightsOfLossesThatAreSchedulesAreThoseOfOneProcess) {
  Json job = Json::parse(job_of("\"sgd\"", ""), "job");
  job.set("optimizer", Json::parse(R"({"type": "sgd", "lr": 0.3})", "rule"));
  job.set("network", Json::parse(R"([{"type": "dense", "out": 6, "activation": "sigmoid", "contractive":
      {"type": "ramp", "schedule": 0.5, "length": 5, "by": "step"}}, {"type": "dense", "out": 3}])",
                                 "network"));
  Json alone = job;
  alone.erase("averaging");
  Trainer one(Job(alone, "job"), {.threads = 1, .measure = false});
  Replicas single = make_replicas(1, welcome_of(job.dump()));
  const auto train = [](Replicas& nodes) {
    std::vector<uint64_t> hashes;
    std::vector<double> losses;
    for (int64_t r = 0; r < 8; ++r) {
      begin_round(nodes, r);
      double loss = 0;
      for (auto& node : nodes) loss += node->contribution.figures.loss_sum;
      losses.push_back(loss / kExamples);
      exchange(nodes, kLeaves);
      apply_round(nodes, r);
      hashes.push_back(nodes[0]->hash);
    }
    return std::pair(hashes, losses);
  };
  const auto [hashes, losses] = train(single);
  for (int64_t r = 0; r < 8; ++r) EXPECT_NEAR(one.step().loss, losses[static_cast<size_t>(r)], 1e-12) << "round " << r;
  EXPECT_LT(relative_difference(parameters_of<double>(one.model().params()), parameters_of<double>(*single[0])), 1e-12);
  for (const int count : {2, 4}) {
    Replicas nodes = make_replicas(count, welcome_of(job.dump()));
    EXPECT_EQ(train(nodes).first, hashes) << count << " workers";
  }
}

TEST(RepeatedSums, ObjectivesThatAreGivenUpLeaveNothing) {
  Replicas nodes = make_replicas(2, welcome_of(objectives_job())), undisturbed = make_replicas(2, welcome_of(objectives_job()));
  const Trained all = train_rounds(undisturbed, 0, 5);
  train_rounds(nodes, 0, 2);
  const SharedBytes held = nodes[0]->snapshot();
  begin_round(nodes, 2);
  exchange(nodes, kLeaves);
  EXPECT_TRUE(nodes[0]->repeat({.round = 2, .examples = kExamples, .pass = 1}));
  EXPECT_EQ(*nodes[0]->snapshot(), *held) << "between two objectives";
  for (auto& node : nodes) node->replica->drop();
  EXPECT_EQ(*nodes[0]->snapshot(), *held);
  EXPECT_EQ(train_rounds(nodes, 2, 5).hashes, std::vector<uint64_t>(all.hashes.begin() + 2, all.hashes.end()));
}

TEST(ExactSum, IsExactInAnyOrder) {
  const double values[] = {1.5, -3.25, 1e9 + 1.0 / 1024, 1e-9, -1e9, 123456.789, -0.1, 0, 7e-15};
  long double sum = 0;
  std::array<float, kExactDigits> digits{};
  for (const double value : values) {
    sum += value;
    const auto own = exact_digits(value);
    for (size_t i = 0; i < own.size(); ++i) digits[i] += static_cast<float>(own[i]);
    std::array<double, kExactDigits> alone = own;
    EXPECT_NEAR(exact_value(alone), value, 1e-18);
  }
  std::array<double, kExactDigits> sums;
  std::copy(digits.begin(), digits.end(), sums.begin());
  EXPECT_NEAR(exact_value(sums), static_cast<double>(sum), 4e-11);  // a few units in the last place
  EXPECT_TRUE(std::isnan(exact_value(exact_digits(std::numeric_limits<double>::infinity()))));
  EXPECT_TRUE(std::isnan(exact_value(exact_digits(-1e19))));
}

}  // namespace
}  // namespace perigee
