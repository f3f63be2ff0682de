// How the gradients of several threads become one update.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "src/train/trainer.h"

namespace perigee {
namespace {

// Parameters after five steps of a small network. `clip` only when given.
std::vector<float> trained_by(int threads, const char* clip) {
  Json job = Json::parse(R"({"perigee": 1, "name": "threads",
      "network": {"type": "sequential", "layers": [{"type": "dense", "out": 37, "activation": "relu"}, {"type": "dense", "out": 10}]},
      "loss": "cross_entropy", "optimizer": {"type": "adam", "lr": 0.01}, "seed": 5, "epochs": 1,
      "data": {"train": {"type": "digits", "size": 200}, "batch": 21}})",
                         "test");
  if (clip) job.set("clip", Json::parse(clip, "test"));
  Trainer trainer(Job(job, "test"), {.threads = threads, .sub_batch = 4});
  for (int i = 0; i < 5; ++i) trainer.step();
  const std::span<const float> values = trainer.model().params().values<float>();
  return {values.begin(), values.end()};
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += std::pow(double(a[i]) - b[i], 2);
    size += std::pow(double(a[i]), 2);
  }
  return std::sqrt(sum / size);
}

TEST(Threads, SumTheSameGradient) {
  const std::vector<float> alone = trained_by(1, nullptr);
  for (int threads : {2, 3, 5, 8}) {
    const std::vector<float> many = trained_by(threads, nullptr);
    ASSERT_EQ(many.size(), alone.size());
    EXPECT_LT(difference(alone, many), 2e-3) << threads << " threads";
  }
}

// With a limit that is never reached, gradients are summed before the norm is known instead of chunk by chunk: the same tree.
TEST(Threads, SumInOneTreeWhetherTheWholeIsWantedOrNot) {
  for (int threads : {1, 3, 6}) {
    const std::vector<float> by_chunks = trained_by(threads, nullptr),
                             at_once = trained_by(threads, R"({"type": "norm", "threshold": 1e20})");
    ASSERT_EQ(by_chunks.size(), at_once.size());
    EXPECT_EQ(std::memcmp(by_chunks.data(), at_once.data(), by_chunks.size() * sizeof(float)), 0) << threads << " threads";
  }
}

}  // namespace
}  // namespace perigee
