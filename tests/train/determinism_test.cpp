// Training's promises about its numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/data/array_source.h"
#include "src/data/sources/host.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

std::vector<double> losses(Trainer& trainer, int count) {
  std::vector<double> all;
  for (int i = 0; i < count; ++i) all.push_back(trainer.step().loss);
  return all;
}

std::vector<double> losses(const Job& job, const TrainerOptions& options, int count = 14) {
  Trainer trainer(job, options);
  return losses(trainer, count);
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(a[i]))) << what << ", step " << i + 1;
}

using JobMaker = Job (*)(const std::string&);

class Determinism : public testing::TestWithParam<JobMaker> {};

TEST_P(Determinism, SameSeedAndThreadsGiveTheSameBits) {
  for (const int threads : {1, 2, 3}) {
    Trainer a(GetParam()(""), {.threads = threads}), b(GetParam()(""), {.threads = threads});
    EXPECT_EQ(losses(a, 14), losses(b, 14));
    EXPECT_EQ(bits_of(a), bits_of(b));
  }
}

TEST_P(Determinism, AnotherSeedGivesOtherNumbers) {
  Job other = GetParam()("");
  other.set("seed", "12");
  EXPECT_NE(losses(GetParam()(""), {.threads = 1}, 3), losses(other, {.threads = 1}, 3));
}

// Draws belong to the example and statistics to the whole batch, so threads and sub-batches only change the order of sums.
TEST_P(Determinism, ThreadsGiveNearlyTheSame) {
  const std::vector<double> alone = losses(GetParam()(""), {.threads = 1});
  for (const int threads : {2, 3, 4})
    expect_near(losses(GetParam()(""), {.threads = threads}), alone, 2e-3, std::to_string(threads) + " threads");
}

TEST_P(Determinism, SubBatchesGiveNearlyTheSame) {
  const std::vector<double> whole = losses(GetParam()(""), {.threads = 1, .sub_batch = 16});
  for (const int64_t size : {1, 3, 8})
    expect_near(losses(GetParam()(""), {.threads = 1, .sub_batch = size}), whole, 2e-3, "sub-batches of " + std::to_string(size));
}

TEST_P(Determinism, TheReferenceGivesNearlyTheSame) {
  expect_near(losses(GetParam()(""), {.threads = 1}), losses(GetParam()(""), {.threads = 1, .backend = Backend::ref}), 2e-3,
              "reference kernels");
}

INSTANTIATE_TEST_SUITE_P(Networks, Determinism, testing::Values(&lenet_job, &noisy_job),
                         [](const auto& info) { return info.param == &lenet_job ? "lenet" : "noisy"; });

// An epoch may end with fewer examples than there are threads, and statistics are still of the whole batch.
TEST(Threads, MayBeMoreThanExamples) {
  Job job = noisy_job();
  job.set("data.train.size", "49");  // the last of four batches has one
  const std::vector<double> alone = losses(job, {.threads = 1}, 8);
  for (const int threads : {2, 3}) expect_near(losses(job, {.threads = threads}, 8), alone, 2e-3, std::to_string(threads) + " threads");
}

// --- Losses that are not finite ---------------------------------------------------------------------------------------------------

// 64 examples of two numbers; one of them may be poisoned.
struct Points {
  std::vector<float> x;
  std::vector<int64_t> y;
  std::map<std::string, SourcePtr> sources;

  explicit Points(float poison, size_t at) {
    for (int i = 0; i < 64; ++i) {
      x.insert(x.end(), {static_cast<float>(i % 8) / 4 - 1, static_cast<float>(i / 8) / 4 - 1});
      y.push_back(i % 2);
    }
    x[at] = poison;
    std::vector<Column> columns(2);
    columns[0] = {.field = {.name = "x", .shape = {2}}, .stored = Dtype::f32, .data = reinterpret_cast<const std::byte*>(x.data())};
    columns[1] = {.field = {.name = "y", .dtype = Dtype::i64, .classes = 2},
                  .stored = Dtype::i64,
                  .data = reinterpret_cast<const std::byte*>(y.data())};
    sources["points"] = std::make_shared<ArraySource>("points", 64, std::move(columns), std::vector<std::shared_ptr<const void>>{});
  }
};

Job points_job(const std::string& layers, const std::string& optimizer) {
  return Job(Json::parse(R"({"loss": "cross_entropy", "seed": 1, "optimizer": )" + optimizer +
                             R"(, "network": {"type": "sequential", "layers": )" + layers +
                             R"(}, "data": {"train": {"type": "host", "name": "points"}, "batch": 8, "shuffle": false}})",
                         "job"),
             "job.json");
}

TEST(NotFinite, NamesStepAndLayerAndKeepsTheParameters) {
  for (const int threads : {1, 2}) {
    const Points points(std::numeric_limits<float>::quiet_NaN(), 2 * 19 + 1);  // example 19 is in the third batch
    const HostScope scope(points.sources);
    Trainer trainer(
        points_job(R"([{"type": "dense", "out": 4, "name": "first"}, {"type": "dense", "out": 2, "name": "second"}])", R"("adam")"),
        {.threads = threads});
    trainer.step();
    trainer.step();
    const Bits before = bits_of(trainer);
    try {
      trainer.step();
      FAIL() << "the loss is NaN";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::model);
      const std::string text = error.what();
      EXPECT_NE(text.find("step 3"), std::string::npos) << text;
      EXPECT_NE(text.find("'first'"), std::string::npos) << text;
      EXPECT_EQ(text.find("'second'"), std::string::npos) << text;
      EXPECT_EQ(text.find("step 4"), std::string::npos) << text;
    }
    EXPECT_EQ(bits_of(trainer), before);
    EXPECT_EQ(trainer.position().step, 2);
  }
}

TEST(NotFinite, ADivergingRunEndsAtTheLayerWhereNumbersOverflow) {
  const Points points(0, 0);
  const HostScope scope(points.sources);
  Trainer trainer(points_job(R"([{"type": "dense", "out": 4, "name": "first"}, {"type": "dense", "out": 2, "name": "second"}])",
                             R"({"type": "sgd", "lr": 1e9})"),
                  {.threads = 1});
  std::string text;
  for (int i = 0; i < 20 && text.empty(); ++i) {
    try {
      trainer.step();
    } catch (const Error& error) {
      text = error.what();
    }
  }
  EXPECT_NE(text.find("layer"), std::string::npos) << text;
  EXPECT_NE(text.find("learning rate"), std::string::npos) << text;
  for (const float value : trainer.model().params().values<float>()) EXPECT_FALSE(std::isnan(value));
}

}  // namespace
}  // namespace perigee
