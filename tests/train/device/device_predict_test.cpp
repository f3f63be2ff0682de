// Predictions of a model in training, on the device where it trains: what the host computes with the same parameters, and nothing of it is
// seen by the steps around it.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "src/io/npy.h"
#include "src/model/device/device_model.h"
#include "src/model/inference.h"
#include "src/model/prediction.h"
#include "tests/train/device/device_site.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

// Pixels of so many images of 28 x 28.
std::vector<float> images(int64_t count) {
  std::vector<float> pixels(static_cast<size_t>(count) * 784);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = 0.5f + 0.5f * std::sin(static_cast<float>(i) * 0.37f);
  return pixels;
}

std::vector<float> predicted(Inference& inference, const std::vector<float>& pixels) {
  const auto count = static_cast<int64_t>(pixels.size() / 784);
  std::vector<float> output(static_cast<size_t>(count) * 10);
  const void* const inputs[] = {pixels.data()};
  inference.run_all(inputs, count, reinterpret_cast<std::byte*>(output.data()));
  return output;
}

std::vector<float> on_the_host(Trainer& trainer, const std::vector<float>& pixels) {
  Model& model = trainer.model();
  ThreadTeam team(2);
  Inference inference(model, team, false);
  return predicted(inference, pixels);
}

void expect_near(const std::vector<float>& got, const std::vector<float>& expected, double most) {
  ASSERT_EQ(got.size(), expected.size());
  double sum = 0, apart = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    sum += static_cast<double>(got[i]);
    apart = std::max(apart, std::abs(static_cast<double>(got[i]) - static_cast<double>(expected[i])));
  }
  EXPECT_LE(apart, most);
  EXPECT_NEAR(sum, static_cast<double>(got.size()) / 10, 1e-2);  // probabilities
}

TEST(DevicePredictions, AreThoseOfTheHost) {
  const std::vector<float> pixels = images(70);
  for (const auto& [precision, most] :
       {std::pair("float32", 2e-6), std::pair("tf32", 2e-6), std::pair("bf16", 0.02), std::pair("fp16", 0.003)}) {
    Trainer device(noisy_job(R"(, "precision": ")" + std::string(precision) + R"(")"), kDevice);
    for (int i = 0; i < 4; ++i) device.step();
    const std::vector<float> got = predicted(device.inference(), pixels);
    expect_near(got, on_the_host(device, pixels), most);
    for (int i = 0; i < 3; ++i) device.step();
    const std::vector<float> later = predicted(device.inference(), pixels);
    EXPECT_NE(later, got) << precision;
    expect_near(later, on_the_host(device, pixels), most);
  }
}

// Numbers that the host writes are used from then on.
TEST(DevicePredictions, FollowTheHost) {
  const std::vector<float> pixels = images(3);
  Trainer device(lenet_job(), kDevice);
  const std::vector<float> before = predicted(device.inference(), pixels);
  Params& params = device.model().params();
  auto* const values = reinterpret_cast<float*>(params.block());
  for (int64_t i = 0; i < params.block_elements(); ++i) values[i] *= 2;
  const std::vector<float> after = predicted(device.inference(), pixels);
  EXPECT_NE(after, before);
  expect_near(after, on_the_host(device, pixels), 2e-6);
}

// Every layer of the network, from the device's own plans and buffers.
TEST(DevicePredictions, GiveInnerLayersAsTheHostDoes) {
  Trainer device(lenet_job(), kDevice);
  device.step();
  std::vector<std::string> layers;
  for (const LayerReport& layer : std::as_const(device).model().layers()) layers.push_back(layer.name);
  ASSERT_GT(layers.size(), 3u);
  const Bytes array = npy_bytes(Tensor::from<float>({70, 1, 28, 28}, images(70)));
  const Records records = device.record_reader().open(array, RecordFormat::npy, "images");
  const Predictions got = device.record_predictor({.layers = layers}).all(records);
  ThreadTeam team(2);
  const Predictions expected = RecordPredictor(device.model(), {}, team, {}, {.layers = layers}).all(records);
  ASSERT_EQ(got.values.size(), layers.size() + 1);
  for (size_t i = 0; i < got.values.size(); ++i) {
    ASSERT_EQ(got.values[i].shape(), expected.values[i].shape());
    double apart = 0;
    for (int64_t e = 0; e < got.values[i].elements(); ++e)
      apart = std::max(apart, std::abs(static_cast<double>(got.values[i].data<float>()[e] - expected.values[i].data<float>()[e])));
    EXPECT_LT(apart, 1e-4) << got.outputs[i].name;
  }
}

// A request between two steps gets the device's numbers of that time, and the run ends with the bits of an undisturbed one.
class Asks final : public Hook {
 public:
  void on_step(Trainer& trainer, const StepReport& report) override {
    const std::vector<float> pixels = images(1 + report.step * 37 % 90);
    last = predicted(trainer.inference(), pixels);
    asked += static_cast<int64_t>(last.size()) / 10;
  }
  std::vector<float> last;
  int64_t asked = 0;
};

TEST(DevicePredictions, AreNothingToTheSteps) {
  const std::atomic<bool> stop{false};
  Trainer quiet(noisy_job(), kDevice), asked(noisy_job(), kDevice);
  Asks asks;
  asked.add_hook(&asks);
  ASSERT_TRUE(quiet.run(stop));
  ASSERT_TRUE(asked.run(stop));
  EXPECT_GT(asks.asked, 500);
  EXPECT_TRUE(bits_of(quiet) == bits_of(asked));
  const std::vector<float> pixels = images(static_cast<int64_t>(asks.last.size()) / 10);
  expect_near(asks.last, on_the_host(asked, pixels), 2e-6);
}

// Any number of examples is batches of 256 and of powers of two below: once each of them has run in both buffers nothing is taken, compiled or
// launched any more, and no parameter goes over.
TEST(DevicePredictions, TakeNothingMore) {
  Trainer device(lenet_job(), kDevice);
  Gpu& gpu = device.device_model()->gpu();
  for (int i = 0; i < 3; ++i) device.step();
  for (int twice = 0; twice < 2; ++twice)
    for (int64_t count = 1; count <= 256; count *= 2) predicted(device.inference(), images(count));
  device.step();
  predicted(device.inference(), images(1));
  const shim::Counters before = counters();
  const size_t held = gpu.held(), up = gpu.traffic().up, down = gpu.traffic().down;
  for (const int64_t count : {3, 200, 77, 256, 511, 1000}) predicted(device.inference(), images(count));
  EXPECT_EQ(counters().allocations - before.allocations, 0);
  EXPECT_EQ(counters().launches - before.launches, 0);
  EXPECT_EQ(counters().waits - before.waits, 0);
  EXPECT_EQ(counters().graph_launches - before.graph_launches, 2 + 3 + 4 + 1 + 9 + 7);
  EXPECT_EQ(gpu.held(), held);
  EXPECT_EQ(gpu.traffic().up, up);
  EXPECT_EQ(gpu.traffic().down, down);
}

TEST(DevicePredictions, TakeSmallerBatchesWhereMemoryIsShort) {
  const std::vector<float> pixels = images(300);
  Trainer roomy(lenet_job(), kDevice);
  const size_t taken = roomy.memory_bytes();
  const std::vector<float> expected = predicted(roomy.inference(), pixels);
  EXPECT_EQ(roomy.inference().max_batch(), 256);
  Job job = lenet_job();
  job.set("memory_limit", std::to_string(taken + 600'000));
  Trainer tight(job, kDevice);
  EXPECT_EQ(predicted(tight.inference(), pixels), expected);
  EXPECT_LT(tight.inference().max_batch(), 256);
}

// Examples that depend on each other stay together: each has the mean of all taken away.
TEST(DevicePredictions, KeepABatchTogetherWhereItsExamplesMeet) {
  Trainer device(job_of(R"([{"type": "flatten"},
      {"type": "lambda", "inputs": ["x"], "outputs": ["y"], "program": [
        {"op": "reduce_mean", "in": ["x"], "out": "m", "attrs": {"axes": [0], "keep": true}}, {"op": "sub", "in": ["x", "m"], "out": "y"}]},
      {"type": "dense", "out": 10}])"),
                 kDevice);
  const std::vector<float> pixels = images(300), few(pixels.begin(), pixels.begin() + 256 * 784);
  const std::vector<float> got = predicted(device.inference(), pixels), of_few = predicted(device.inference(), few);
  expect_near(got, on_the_host(device, pixels), 2e-6);
  EXPECT_GT(std::abs(got[0] - of_few[0]), 2e-5f);
}

// A call that failed leaves nothing behind for the next one, also where its first batch was on its way.
TEST(DevicePredictions, GoOnAfterAFailure) {
  const std::vector<float> pixels = images(6), others(7 * 784, 0.25f);
  int failed = 0;
  for (int allocation = 1; allocation <= 6; ++allocation) {
    Trainer device(lenet_job(), kDevice);
    {
      const Fault fault("malloc", allocation);
      const std::string text = error_of([&] { predicted(device.inference(), others); });
      failed += text != "no error";
      if (text != "no error") expect_parts(text, {"cuda:0", "memory"});
    }
    expect_near(predicted(device.inference(), pixels), on_the_host(device, pixels), 2e-6);
  }
  EXPECT_GE(failed, 2);
}

}  // namespace
}  // namespace perigee
