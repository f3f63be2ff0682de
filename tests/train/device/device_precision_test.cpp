// Precisions on a device beside the reference: what is kept in 16 bits, scales that overflow and grow, activations within products.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/graph/op.h"
#include "tests/train/device/device_site.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

// A device's copies of the parameters (those in 16 bits) follow when the parameters are set from outside.
TEST(DeviceParameters, MayBeSetBetweenSteps) {
  for (const char* precision : {"float32", "bf16", "fp16"}) {
    const std::string more = R"(, "precision": ")" + std::string(precision) + R"(")";
    Trainer device(lenet_job(more), kDevice), reference(lenet_job(more), kReference);
    for (int step = 0; step < 4; ++step) {
      if (step == 2)
        for (Trainer* trainer : {&device, &reference}) {
          auto* const values = reinterpret_cast<float*>(trainer->model().params().block());
          for (int64_t i = 0; i < trainer->model().params().block_elements(); ++i) values[i] *= 0.75f;
        }
      device.step(), reference.step();
    }
    EXPECT_EQ(bits_of(device), bits_of(reference)) << precision;
  }
}

// Steps whose gradients overflow: they change nothing but the scale, and the rule does not count them, though the host writes what the next
// step needs before it knows.
class Overflows : public testing::TestWithParam<const char*> {};

TEST_P(Overflows, MoveTheScaleAsOnTheHost) {
  Trainer device(noisy_job(R"(, "precision": "fp16")" + std::string(GetParam())), kDevice);
  Trainer reference(noisy_job(R"(, "precision": "fp16")" + std::string(GetParam())), kReference);
  const auto at = [&](float scale) {
    LossScale start = *device.loss_scale();
    start.scale = scale;
    device.set_loss_scale(start), reference.set_loss_scale(start);
  };
  int skipped = 0;
  for (int step = 0; step < 20; ++step) {
    if (step % 7 == 2) at(std::ldexp(1.0f, 26));
    const StepReport a = device.step(), b = reference.step();
    skipped += b.skipped;
    ASSERT_EQ(a.skipped, b.skipped) << step;
    ASSERT_EQ(a.loss_scale, b.loss_scale) << step;
    ASSERT_EQ(a.skipped_steps, b.skipped_steps) << step;
    ASSERT_EQ(a.gradient_norm, b.gradient_norm) << step;
    ASSERT_NEAR(a.loss, b.loss, 1e-12 * std::abs(b.loss)) << step;
    ASSERT_TRUE(bits_of(device) == bits_of(reference)) << step;
  }
  EXPECT_GT(skipped, 6);
  EXPECT_LT(skipped, 19);
}

// The same while the next step is on the device already.
TEST_P(Overflows, AreNoMatterToTheStepBehind) {
  Trainer device(noisy_job(R"(, "precision": "fp16")" + std::string(GetParam())), kDevice);
  Trainer reference(noisy_job(R"(, "precision": "fp16")" + std::string(GetParam())), kReference);
  LossScale start = *device.loss_scale();
  start.scale = std::ldexp(1.0f, 26);
  start.good = 1995;  // and grows soon after
  device.set_loss_scale(start), reference.set_loss_scale(start);
  const std::atomic<bool> stop{false};
  ASSERT_TRUE(device.run(stop));
  ASSERT_TRUE(reference.run(stop));
  EXPECT_GT(reference.loss_scale()->skipped, 3);
  EXPECT_LT(reference.loss_scale()->skipped, 20);
  EXPECT_EQ(device.loss_scale()->skipped, reference.loss_scale()->skipped);
  EXPECT_EQ(device.loss_scale()->scale, reference.loss_scale()->scale);
  EXPECT_EQ(bits_of(device), bits_of(reference));
}

INSTANTIATE_TEST_SUITE_P(Norms, Overflows, testing::Values("", R"(, "clip": {"type": "norm", "threshold": 0.5})"),
                         [](const auto& info) { return std::string(info.index == 0 ? "none" : "clipped"); });

TEST(Device, AGradientThatOverflowsInF16IsComputedAgain) {
  Trainer device(lenet_job(R"(, "precision": "fp16")"), kDevice), reference(lenet_job(R"(, "precision": "fp16")"), kReference);
  LossScale start = *device.loss_scale();
  start.scale = std::ldexp(1.0f, 40);
  std::vector<std::vector<std::byte>> sums;
  for (Trainer* trainer : {&device, &reference}) {
    trainer->set_loss_scale(start);
    std::vector<std::byte>& sum = sums.emplace_back(trainer->model().params().block_bytes());
    EXPECT_TRUE(trainer->sum_gradient(trainer->next_batch(), {.to = sum.data()}).finite);
    trainer->update(sum.data(), 16);
    EXPECT_EQ(trainer->loss_scale()->skipped, 0);
  }
  EXPECT_LT(device.loss_scale()->scale, start.scale);
  EXPECT_EQ(device.loss_scale()->scale, reference.loss_scale()->scale);
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(bits_of(device), bits_of(reference));
}

TEST(Device, WhatIsNotFiniteAtAnyScaleEndsTheRun) {
  Trainer device(noisy_job(R"(, "precision": "fp16", "loss_scale": 16777216)"), kDevice);
  device.model();
  const Bits before = bits_of(device);
  const std::atomic<bool> stop{false};
  LossScale start = *device.loss_scale();
  start.bad = 60;
  device.set_loss_scale(start);
  expect_parts(error_of([&] { device.run(stop); }), {"not finite", "64", "dynamic"});
  EXPECT_EQ(bits_of(device), before);
  EXPECT_EQ(device.position().step, 3);
}

// On a device gelu is computed in the products: the same numbers but for their last bits.
TEST(Device, GeluInTheProductsTrainsAlike) {
  for (const auto& [more, tolerance] :
       {std::pair{"", 1e-5}, std::pair{R"(, "precision": "float64")", 1e-12}, std::pair{R"(, "precision": "bf16")", 1e-2}}) {
    Trainer device(gelu_job(more), kDevice), reference(gelu_job(more), kReference);
    const Graph graph = device.model().training_graph(16, Backend::cuda);
    const auto count = [&](std::string_view op) {
      return std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) { return node.op->name == op; });
    };
    EXPECT_EQ(count("linear"), 3);
    EXPECT_EQ(count("linear_grad_input"), 2);
    EXPECT_EQ(count("tanh") + count("where"), 0);
    for (int step = 0; step < 6; ++step) {
      const double loss = reference.step().loss;
      EXPECT_NEAR(device.step().loss, loss, tolerance * loss) << step << more;
    }
  }
}

}  // namespace
}  // namespace perigee
