// "accumulate": several batches make one step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/run/checkpoint.h"
#include "tests/io/temporary.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

Job with(Job job, const std::string& key, const std::string& value) {
  job.set(key, value);
  return job;
}

// A thread takes its slice of any batch in sub-batches: the step is that of the large batch.
TEST(Accumulate, AStepIsThatOfTheLargeBatchToTheBit) {
  for (const int threads : {1, 2}) {
    Trainer large(with(lenet_job(), "data.batch", "48"), {.threads = threads, .measure = false});
    Trainer small(lenet_job(R"(, "accumulate": 3)"), {.threads = threads, .measure = false});
    EXPECT_EQ(small.batch(), 48);
    EXPECT_EQ(small.batch_at_once(), 16);
    EXPECT_FALSE(small.steps_in_parts());
    while (!large.finished()) {
      const StepReport one = large.step(), other = small.step();
      EXPECT_EQ(one.examples, other.examples) << "the tail of an epoch is one step";
      EXPECT_EQ(one.loss, other.loss);
    }
    EXPECT_TRUE(small.finished());
    EXPECT_EQ(bits_of(large), bits_of(small));
  }
}

Job normed_job(const std::string& more = "") {
  Json json = job_of(R"([{"type": "conv2d", "out": 4, "kernel": 5, "stride": 2}, "batchnorm", {"type": "dense", "out": 10}])", more).json();
  json.set("optimizer", Json::parse(R"({"type": "sgd", "lr": 1})", "optimizer"));
  return Job(json, "job");
}

// As PyTorch has it: for part in parts: cross_entropy(net(part), y, reduction="sum").backward(); then the gradient / 48. Here against the
// gradients of the batches, each alone, whose statistics batch norm takes.
TEST(Accumulate, BatchNormSeesEachBatchAlone) {
  Trainer whole(normed_job(R"(, "accumulate": 3)"), {.threads = 2}), parts(normed_job(), {.threads = 2});
  ASSERT_TRUE(whole.steps_in_parts());
  const Params& params = std::as_const(parts).model().params();
  std::vector<float> expected(params.values<float>().begin(), params.values<float>().end());
  Storage sum(params.block_bytes());
  const std::byte* const add = sum.data();
  double loss = 0;
  for (int i = 0; i < 3; ++i) {
    const Batch& batch = parts.next_batch();
    GradientTarget target{.to = sum.data()};
    if (i > 0) target.add = {&add, 1};
    loss += parts.sum_gradient(batch, target).loss_sum;
    parts.commit_states();
  }
  const auto* gradient = reinterpret_cast<const float*>(sum.data());
  for (size_t i = 0; i < expected.size(); ++i) expected[i] -= gradient[i] / 48;
  const StepReport report = whole.step();
  EXPECT_EQ(report.examples, 48);
  EXPECT_NEAR(report.loss, loss / 48, 1e-6);
  EXPECT_EQ(bits_of(whole).states, bits_of(parts).states) << "running statistics move three times";
  const std::span<const float> got = std::as_const(whole).model().params().values<float>();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << i;
  EXPECT_EQ(std::as_const(whole).position().examples, 48);
}

// The last step of an epoch has 4 examples of 48: each weighs a fourth, as in a batch of them alone.
TEST(Accumulate, ExamplesOfAShortStepWeighTheSame) {
  Trainer whole(normed_job(R"(, "accumulate": 3)"), {.threads = 1}), alone(with(normed_job(), "data.batch", "48"), {.threads = 1});
  for (int step = 0; step < 2; ++step) whole.step(), alone.step();
  std::copy_n(whole.model().params().block(), whole.model().params().block_bytes(), alone.model().params().block());
  std::ranges::copy(whole.states(), alone.states().begin());
  EXPECT_EQ(whole.step().examples, 4);
  EXPECT_EQ(alone.step().examples, 4);
  const std::span<const float> got = std::as_const(whole).model().params().values<float>();
  const std::span<const float> expected = std::as_const(alone).model().params().values<float>();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << i;
}

TEST(Accumulate, NormsAreThoseOfTheWholeStep) {
  const std::string clip = R"(, "clip": {"type": "norm", "threshold": 0.01})";
  Trainer parts(normed_job(clip + R"(, "accumulate": 2)"), {.threads = 2}), plain(normed_job(R"(, "accumulate": 2)"), {.threads = 2});
  const std::vector<std::byte> start = bits_of(parts).parameters;
  const double norm = parts.step().gradient_norm;
  EXPECT_EQ(plain.step().gradient_norm, -1);
  double moved = 0, free = 0;
  const auto* before = reinterpret_cast<const float*>(start.data());
  const auto square = [](double a, double b) { return (a - b) * (a - b); };
  for (size_t i = 0; i < start.size() / sizeof(float); ++i) {
    moved += square(std::as_const(parts).model().params().values<float>()[i], before[i]);
    free += square(std::as_const(plain).model().params().values<float>()[i], before[i]);
  }
  EXPECT_NEAR(std::sqrt(moved), 0.01, 1e-5);
  EXPECT_NEAR(std::sqrt(free), norm, 1e-4 * norm);
}

TEST(Accumulate, AResumedRunEndsWithTheSameBits) {
  const TemporaryFolder folder;
  const Job job = noisy_job(R"(, "accumulate": 2)");
  Trainer whole(job, {.threads = 2}), first(job, {.threads = 2}), second(job, {.threads = 2});
  while (!whole.finished()) whole.step();
  EXPECT_EQ(whole.position().step, 12) << "three epochs of 32, 32, 32 and 4 examples";
  for (int i = 0; i < 6; ++i) first.step();
  save_checkpoint(first, folder / "cut.safetensors");
  load_checkpoint(second, folder / "cut.safetensors");
  while (!second.finished()) second.step();
  EXPECT_EQ(bits_of(second), bits_of(whole));
}

TEST(Accumulate, AStepThatIsNotFiniteOrIsCancelledHasChangedNothing) {
  Trainer trainer(normed_job(R"(, "accumulate": 2)"), {.threads = 1});
  trainer.step();
  const Bits before = bits_of(trainer);
  const std::atomic<bool> cancel{true};
  EXPECT_EQ(trainer.step(&cancel).step, 0);
  EXPECT_EQ(bits_of(trainer), before);
  // The second of two batches is broken: the first has moved the running statistics already.
  Batch broken = trainer.next_batch();
  broken.fields[0] = broken.fields[0].clone();
  std::fill_n(static_cast<float*>(broken.fields[0].view().data) + broken.fields[0].shape().elements() - 784, 784,
              std::numeric_limits<float>::quiet_NaN());
  EXPECT_THROW(trainer.step(broken), Error);
  EXPECT_EQ(bits_of(trainer), before);
}

TEST(Accumulate, ABatchOfAnotherSizeIsOneOfItsBatches) {
  Trainer trainer(normed_job(R"(, "accumulate": 2)"), {.threads = 1});
  trainer.change_batch(10);
  EXPECT_EQ(trainer.batch(), 20);
  EXPECT_EQ(trainer.step().examples, 20);
}

TEST(Accumulate, StepsCountUpdates) {
  Trainer trainer(tiny_job(R"(, "accumulate": 3, "steps": 5)"), {.threads = 1});
  EXPECT_EQ(trainer.planned_examples(), 5 * 48);
  while (!trainer.finished()) trainer.step();
  EXPECT_EQ(trainer.position().step, 5);
}

}  // namespace
}  // namespace perigee
