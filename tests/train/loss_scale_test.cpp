// Training in f16 with a loss scale on the host: PyTorch's numbers and its sequence of scales, and what a scale may never change.
#include "src/train/loss_scale.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/core/error.h"
#include "src/run/checkpoint.h"
#include "tests/core/refusal.h"
#include "tests/io/temporary.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

const std::string kHalf = R"(, "precision": "fp16")";

LossScale scale_of(float value, bool dynamic = true) {
  LossScale scale;
  scale.scale = value;
  scale.dynamic = dynamic;
  return scale;
}

std::vector<float> gradient_of(Trainer& trainer, const Batch& batch, GradientReport* report = nullptr) {
  std::vector<float> to(static_cast<size_t>(trainer.model().params().block_elements()));
  const GradientReport got = trainer.sum_gradient(batch, {.to = reinterpret_cast<std::byte*>(to.data())});
  if (report) *report = got;
  return to;
}

TEST(LossScale, DoublesAfterSoManyFiniteGradientsAndHalvesAtOnce) {
  LossScale scale;
  EXPECT_EQ(scale.scale, 65536);
  for (int i = 0; i < 1999; ++i) scale.finite();
  EXPECT_EQ(scale.scale, 65536);
  scale.overflowed();
  EXPECT_EQ(scale.scale, 32768);
  for (int i = 0; i < 1999; ++i) scale.finite();
  EXPECT_EQ(scale.scale, 32768) << "counting begins anew";
  scale.finite();
  EXPECT_EQ(scale.scale, 65536);
  for (int i = 0; i < 64; ++i) {
    EXPECT_FALSE(scale.hopeless());
    scale.overflowed();
  }
  EXPECT_TRUE(scale.hopeless());
  scale = scale_of(0x1p127f);
  for (int i = 0; i < 2000; ++i) scale.finite();
  EXPECT_EQ(scale.scale, 0x1p127f) << "never infinite";
}

TEST(LossScale, OneThatIsGivenStays) {
  Trainer trainer(tiny_job(kHalf + R"(, "loss_scale": 1024)"), {.threads = 1});
  ASSERT_NE(trainer.loss_scale(), nullptr);
  LossScale scale = *trainer.loss_scale();
  EXPECT_EQ(scale.scale, 1024);
  for (int i = 0; i < 2000; ++i) scale.finite();
  scale.overflowed();
  EXPECT_EQ(scale.scale, 1024);
  EXPECT_EQ(trainer.step().loss_scale, 1024);
}

TEST(LossScale, IsOfFp16Alone) {
  EXPECT_EQ(Trainer(tiny_job(R"(, "precision": "bf16")"), {.threads = 1}).loss_scale(), nullptr);
  EXPECT_EQ(Trainer(tiny_job(kHalf), {.threads = 1}).loss_scale()->scale, 65536);
  EXPECT_EQ(Trainer(tiny_job(R"(, "precision": "float16", "loss_scale": "dynamic")"), {.threads = 1}).loss_scale()->scale, 65536);
  for (const char* precision : {"float32", "bf16", "tf32"}) {
    const std::string error =
        refusal([&] { Trainer(tiny_job(R"(, "loss_scale": 2, "precision": ")" + std::string(precision) + "\""), {.threads = 1}); });
    EXPECT_NE(error.find("fp16"), std::string::npos) << error;
  }
  for (const char* bad : {"0", "-1", "1e30", "\"static\""}) {
    const std::string error = refusal([&] { Trainer(tiny_job(kHalf + R"(, "loss_scale": )" + bad), {.threads = 1}); });
    EXPECT_NE(error.find("loss_scale"), std::string::npos) << error;
  }
}

// Powers of two come out again: as long as nothing overflows or becomes too small, no bit depends on them, nor on how the batch is cut.
TEST(LossScale, PowersOfTwoChangeNoBit) {
  for (const char* more : {"", R"(, "clip": {"type": "norm", "threshold": 0.2})", R"(, "clip": {"type": "value", "threshold": 0.01})"}) {
    Trainer a(lenet_job(kHalf + more + R"(, "loss_scale": 1024)"), {.threads = 1, .backend = Backend::ref, .sub_batch = 1000});
    Trainer b(lenet_job(kHalf + more + R"(, "loss_scale": 4096)"), {.threads = 1, .backend = Backend::ref, .sub_batch = 1000});
    for (int i = 0; i < 4; ++i) {
      const StepReport x = a.step(), y = b.step();
      EXPECT_EQ(x.loss, y.loss);
      EXPECT_NEAR(x.gradient_norm, y.gradient_norm, 1e-3 * std::abs(x.gradient_norm));
    }
    const Bits x = bits_of(a), y = bits_of(b);
    // Only what was rounded to a denormal of f16 with the smaller scale differs.
    const auto* p = reinterpret_cast<const float*>(x.parameters.data());
    const auto* q = reinterpret_cast<const float*>(y.parameters.data());
    size_t same = 0;
    const size_t n = x.parameters.size() / sizeof(float);
    for (size_t i = 0; i < n; ++i) same += p[i] == q[i];
    EXPECT_GT(same, n / 2) << more;
  }
}

// Gradients that underflow without a scale survive with one.
TEST(LossScale, KeepsGradientsThatF16HasNoNumbersFor) {
  const auto zeros = [](const std::string& scale) {
    Trainer trainer(lenet_job(kHalf + R"(, "loss_scale": )" + scale), {.threads = 1, .backend = Backend::ref});
    const std::vector<float> gradient = gradient_of(trainer, trainer.next_batch());
    return std::count(gradient.begin(), gradient.end(), 0.0f);
  };
  EXPECT_GT(zeros("0.0001"), zeros("1024") + 100);
}

TEST(LossScale, SkipsWhatOverflowsWithEverythingAsItWas) {
  for (const int threads : {1, 3}) {
    Trainer trainer(noisy_job(kHalf), {.threads = threads, .backend = Backend::ref});
    trainer.step();
    trainer.set_loss_scale(scale_of(0x1p40f));
    const Bits before = bits_of(trainer);
    const StepReport skipped = trainer.step();
    EXPECT_TRUE(skipped.skipped);
    EXPECT_EQ(skipped.loss_scale, 0x1p39);
    EXPECT_EQ(skipped.skipped_steps, 1);
    EXPECT_EQ(skipped.gradient_norm, -1);
    EXPECT_TRUE(std::isfinite(skipped.loss));
    EXPECT_EQ(bits_of(trainer), before) << "states of the batch norm too";
    EXPECT_EQ(trainer.position().step, 2);
    EXPECT_EQ(trainer.position().examples, 32);
    trainer.set_loss_scale(scale_of(1024));
    EXPECT_FALSE(trainer.step().skipped);
    EXPECT_NE(bits_of(trainer), before);
  }
}

// A skipped step does not count as one of Adam's.
TEST(LossScale, TheRuleCountsUpdatesNotSteps) {
  const std::string fixed = kHalf + R"(, "data": {"train": {"type": "digits", "size": 16, "endless": false}, "batch": 16, "shuffle": false},
      "optimizer": {"type": "adam", "lr": 0.01})";
  const auto job = [&] {
    return Job(Json::parse(R"({"loss": "cross_entropy", "seed": 11, "epochs": 9, "network": {"type": "sequential", "layers":
      [{"type": "avgpool", "kernel": 7}, {"type": "dense", "out": 10}]})" +
                               fixed + "}",
                           "job"),
               "job");
  };
  Trainer skips(job(), {.threads = 1}), straight(job(), {.threads = 1});
  LossScale large = scale_of(0x1p40f);
  straight.step(), skips.step();
  skips.set_loss_scale(large);
  int skipped = 0;
  while (skips.step().skipped) ++skipped;
  EXPECT_GT(skipped, 0);
  straight.set_loss_scale(scale_of(skips.loss_scale()->scale));
  straight.step();
  EXPECT_EQ(bits_of(skips), bits_of(straight));
}

TEST(LossScale, AGradientThatIsWantedIsComputedAgain) {
  for (const int threads : {1, 2}) {
    Trainer large(lenet_job(kHalf), {.threads = threads, .backend = Backend::ref}),
        small(lenet_job(kHalf), {.threads = threads, .backend = Backend::ref});
    large.set_loss_scale(scale_of(0x1p40f));
    GradientReport report;
    const std::vector<float> a = gradient_of(large, large.next_batch(), &report);
    EXPECT_TRUE(report.finite);
    EXPECT_LT(large.loss_scale()->scale, 0x1p40f);
    EXPECT_EQ(large.loss_scale()->skipped, 0);
    small.set_loss_scale(scale_of(large.loss_scale()->scale));
    EXPECT_EQ(gradient_of(small, small.next_batch()), a);
    // A sum of what was there and the gradient, in place: what overflowed on the way has left nothing.
    large.set_loss_scale(scale_of(0x1p40f));
    std::vector<float> sum(a.size(), 1.0f), again = gradient_of(small, small.next_batch());
    std::byte* const to = reinterpret_cast<std::byte*>(sum.data());
    const std::byte* const add[] = {to};
    large.sum_gradient(large.next_batch(), {.to = to, .add = add});
    EXPECT_EQ(large.loss_scale()->scale, small.loss_scale()->scale);
    for (const ParamWindow& window : large.model().params().windows())
      for (int64_t i = window.offset; i < window.offset + window.elements; ++i)
        ASSERT_EQ(sum[static_cast<size_t>(i)], 1.0f + again[static_cast<size_t>(i)]);
    EXPECT_TRUE(large.sum_gradient({}, {.to = to}).finite);
  }
}

// The gradient of f32, but for the rounding: it comes out without the scale.
TEST(LossScale, TheSumOfTheGradientIsUnscaled) {
  Trainer half(lenet_job(kHalf), {.threads = 1, .backend = Backend::ref}), full(lenet_job(), {.threads = 1, .backend = Backend::ref});
  const std::vector<float> a = gradient_of(half, half.next_batch()), b = gradient_of(full, full.next_batch());
  double square = 0, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) square += b[i] * b[i], difference += (a[i] - b[i]) * (a[i] - b[i]);
  EXPECT_LE(std::sqrt(difference), 0.05 * std::sqrt(square));
}

TEST(LossScale, WhatIsNotFiniteAtAnyScaleEndsTheRun) {
  Trainer trainer(tiny_job(kHalf + R"(, "loss_scale": 16777216)"), {.threads = 1});
  const Bits before = bits_of(trainer);
  std::string error;
  int steps = 0;
  for (; steps < 100 && error.empty(); ++steps) {
    const std::string got = refusal([&] { EXPECT_TRUE(trainer.step().skipped); });
    if (got != "accepted") error = got;
  }
  EXPECT_EQ(steps, LossScale::kMostBad);
  for (const char* part : {"not finite", "64", "16777216", "dynamic"}) EXPECT_NE(error.find(part), std::string::npos) << error;
  EXPECT_EQ(bits_of(trainer), before);
}

TEST(LossScale, ACheckpointHasItAndAResumedRunTheSameBits) {
  const TemporaryFolder folder;
  const auto run = [](Trainer& trainer, int steps) {
    for (int i = 0; i < steps; ++i) trainer.step();
  };
  Trainer whole(noisy_job(kHalf), {.threads = 1, .backend = Backend::ref}),
      first(noisy_job(kHalf), {.threads = 1, .backend = Backend::ref});
  whole.set_loss_scale(scale_of(0x1p36f)), first.set_loss_scale(scale_of(0x1p36f));
  run(whole, 10);
  run(first, 5);
  EXPECT_EQ(first.loss_scale()->skipped, 5);
  save_checkpoint(first, folder / "a.safetensors");
  Trainer second(noisy_job(kHalf), {.threads = 1, .backend = Backend::ref});
  load_checkpoint(second, folder / "a.safetensors");
  EXPECT_EQ(second.loss_scale()->scale, 0x1p31f);
  EXPECT_EQ(second.loss_scale()->bad, 5);
  run(second, 5);
  EXPECT_EQ(second.loss_scale()->skipped, whole.loss_scale()->skipped);
  EXPECT_EQ(bits_of(second), bits_of(whole));
}

}  // namespace
}  // namespace perigee
