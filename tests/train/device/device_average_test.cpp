// "ema", "swa" and "accumulate" on a device: sums of gradients and the average of the weights stay there, and have the reference's bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "src/model/device/device_model.h"
#include "src/run/checkpoint.h"
#include "tests/train/device/device_site.h"
#include "tests/train/device/team_site.h"

namespace perigee {
namespace {

std::vector<std::byte> average_of(const Trainer& trainer) {
  const WeightAverage& average = *trainer.average();
  std::vector<std::byte> all(average.parameters().begin(), average.parameters().end());
  all.insert(all.end(), average.states().begin(), average.states().end());
  return all;
}

void expect_same_average(const Trainer& device, const Trainer& reference) {
  EXPECT_EQ(device.averaged(), reference.averaged());
  EXPECT_EQ(device.average()->count(), reference.average()->count());
  EXPECT_EQ(average_of(device), average_of(reference));
}

struct AverageCase {
  const char* name;
  Job (*make)(const std::string&);
  const char* more;
};

const AverageCase kAverageCases[] = {
    {"ema", &noisy_job, R"(, "ema": {"decay": 0.8})"},
    {"ema_of_every_second", &noisy_job, R"(, "ema": {"decay": 0.8, "from_step": 3, "every": 2})"},
    {"swa", &noisy_job, R"(, "swa": {"from_epoch": 1})"},
    {"without_states", &lenet_job, R"(, "ema": {})"},
    {"float64", &noisy_job, R"(, "precision": "float64", "ema": {"decay": 0.8})"},
    {"bf16", &noisy_job, R"(, "precision": "bf16", "ema": {"decay": 0.8})"},
    {"fp16", &noisy_job, R"(, "precision": "fp16", "ema": {"decay": 0.8})"},
    {"fp16_skipping", &noisy_job, R"(, "precision": "fp16", "loss_scale": 16777216, "ema": {"decay": 0.8})"},
    {"accumulated", &noisy_job, R"(, "accumulate": 3, "ema": {"decay": 0.8})"},
};

class DeviceAverages : public testing::TestWithParam<AverageCase> {};

TEST_P(DeviceAverages, HaveTheBitsOfTheReference) {
  Trainer device(GetParam().make(GetParam().more), kDevice), reference(GetParam().make(GetParam().more), kReference);
  try {
    for (int step = 1; step <= 15; ++step) ASSERT_EQ(device.step().skipped, reference.step().skipped) << step;
  } catch (const Error&) {
    ASSERT_STREQ(GetParam().name, "fp16_skipping");
    EXPECT_THROW(reference.step(), Error);
    EXPECT_FALSE(device.averaged()) << "steps that were skipped do not count";
    return;
  }
  expect_same_average(device, reference);
  EXPECT_EQ(bits_of(device), bits_of(reference));
}

// As runs go: a step ahead, evaluations in between, which are of the average.
TEST_P(DeviceAverages, HaveThemInRunsToo) {
  if (std::string(GetParam().name) == "fp16_skipping") return;
  Job job = GetParam().make(GetParam().more);
  job.set("data.test", R"({"type": "digits", "size": 60})");
  class Judge : public Hook {
   public:
    void on_epoch(Trainer& trainer, uint64_t) override { losses.push_back(trainer.evaluate("test").find("loss")->as_number()); }
    std::vector<double> losses;
  };
  Trainer device(job, kDevice), reference(job, kReference);
  Judge a, b;
  const std::atomic<bool> stop{false};
  device.add_hook(&a), reference.add_hook(&b);
  ASSERT_TRUE(device.run(stop));
  ASSERT_TRUE(reference.run(stop));
  expect_same_average(device, reference);
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) EXPECT_NEAR(a.losses[i], b.losses[i], 1e-4 * b.losses[i]);
}

INSTANTIATE_TEST_SUITE_P(Jobs, DeviceAverages, testing::ValuesIn(kAverageCases),
                         [](const auto& info) { return std::string(info.param.name); });

// The bytes that go over to the device and back in five steps.
Gpu::Traffic traffic_of_steps(const std::string& more) {
  Trainer trainer(lenet_job(more), kDevice);
  for (int i = 0; i < 2; ++i) trainer.step();
  const Gpu::Traffic before = trainer.device_model()->gpu().traffic();
  for (int i = 0; i < 5; ++i) trainer.step();
  const Gpu::Traffic after = trainer.device_model()->gpu().traffic();
  return {after.up - before.up, after.down - before.down};
}

TEST(DeviceAverage, StaysOnTheDevice) {
  const Gpu::Traffic plain = traffic_of_steps(""), averaged = traffic_of_steps(R"(, "ema": {})");
  EXPECT_EQ(averaged.up, plain.up);
  EXPECT_EQ(averaged.down, plain.down);
}

TEST(DeviceSums, StayOnTheDevice) {
  const size_t block = Trainer(lenet_job(), kReference).model().params().block_bytes();
  const Gpu::Traffic summed = traffic_of_steps(R"(, "accumulate": 3)");
  EXPECT_LT(summed.up, block) << "batches and scalars alone";
  EXPECT_LT(summed.down, block);
}

// Steps run ahead as they do without an average: one more kernel for each, and no wait.
TEST(DeviceAverage, KeepsNoStepWaiting) {
  Trainer device(lenet_job(R"(, "ema": {})"), kDevice);
  Watch watch;
  run(device, &watch);
  const shim::Counters &first = watch.counted[9], &last = watch.counted[11];
  EXPECT_EQ(last.graph_launches - first.graph_launches, 2);
  EXPECT_EQ(last.launches - first.launches, 2);
  EXPECT_EQ(last.waits - first.waits, 0);
  EXPECT_EQ(last.newest_waits - first.newest_waits, 0);
  EXPECT_EQ(last.allocations - first.allocations, 0);
}

TEST(DeviceAverage, GoesOnFromACheckpointOfTheHostAndBack) {
  const std::string folder = testing::TempDir() + "device_average";
  const std::string more = R"(, "ema": {"decay": 0.8})";
  Trainer reference(noisy_job(more), kReference), device(noisy_job(more), kDevice);
  for (int i = 0; i < 9; ++i) reference.step();
  save_checkpoint(reference, folder + ".host", {});
  device.step();
  load_checkpoint(device, folder + ".host");
  for (int i = 0; i < 4; ++i) device.step(), reference.step();
  expect_same_average(device, reference);
  save_checkpoint(device, folder + ".device", {});
  Trainer again(noisy_job(more), kReference);
  load_checkpoint(again, folder + ".device");
  again.step(), reference.step();
  expect_same_average(again, reference);
}

// The steps that are queued behind one whose loss is not finite do not count either.
TEST(DeviceAverage, TakesNoStepThatIsNotFinite) {
  Job job = lenet_job(R"(, "ema": {"decay": 0.8})");
  job.set("optimizer", R"({"type": "sgd", "lr": 1e9})");
  Trainer device(job, kDevice), reference(job, kReference);
  const std::atomic<bool> stop{false};
  EXPECT_EQ(error_of([&] { device.run(stop); }), error_of([&] { reference.run(stop); }));
  expect_same_average(device, reference);
}

TEST(DeviceSums, OfStepsThatAreNotFiniteChangeNothing) {
  Trainer trainer(noisy_job(R"(, "accumulate": 2)"), kDevice);
  trainer.step();
  const Bits before = bits_of(trainer);
  Batch broken = trainer.next_batch();
  broken.fields.clear();
  Trainer streamed(noisy_job(R"(, "accumulate": 2)"), kReference);
  streamed.step();
  const Batch& whole = streamed.next_batch();
  for (const Tensor& field : whole.fields) broken.fields.push_back(field.clone());
  std::fill_n(static_cast<float*>(broken.fields[0].view().data) + broken.fields[0].shape().elements() - 784, 784,
              std::numeric_limits<float>::quiet_NaN());
  EXPECT_THROW(trainer.step(broken), Error);
  EXPECT_EQ(bits_of(trainer), before);
}

// A hook that wants the gradient has it added up on the host.
class Looks : public Hook {
 public:
  bool wants_gradient() const override { return true; }
};

TEST(DeviceSums, HaveTheBitsOfTheHostsSums) {
  const Environment devices("PERIGEE_SHIM_DEVICES", "3");
  for (const int gpus : {1, 2, 3})
    for (const char* more : {R"(, "accumulate": 3, "clip": {"type": "norm", "threshold": 0.5})",
                             R"(, "accumulate": 4, "precision": "fp16")", R"(, "accumulate": 2, "precision": "float64")"}) {
      Trainer there(deterministic(noisy_job(more)), team_of(gpus)), here(deterministic(noisy_job(more)), team_of(gpus));
      Looks looks;
      here.add_hook(&looks);
      for (int step = 1; step <= 5; ++step) {
        const StepReport a = there.step(), b = here.step();
        EXPECT_EQ(a.loss, b.loss) << gpus << more;
        EXPECT_EQ(a.gradient_norm, b.gradient_norm) << gpus << more;
      }
      EXPECT_EQ(bits_of(there), bits_of(here)) << gpus << more;
    }
}

TEST(DeviceAverage, OfATeamIsThatOfAsManyThreads) {
  const Environment devices("PERIGEE_SHIM_DEVICES", "2");
  const Job job = drawn_job(R"(, "ema": {"decay": 0.8})");
  Trainer team(deterministic(job), team_of(2)), threads(of_all(job, 2), threads_of(2));
  for (int i = 0; i < 7; ++i) team.step(), threads.step();
  expect_same_average(team, threads);
  EXPECT_EQ(bits_of(team), bits_of(threads));
}

TEST(DeviceAverage, ItsMemoryIsForetold) {
  for (const char* more : {R"(, "ema": {})", R"(, "accumulate": 2)", R"(, "accumulate": 2, "swa": {})"}) {
    const Job job = noisy_job(more);
    const DeviceMemory foretold = Trainer(job, {.threads = 1, .backend = Backend::ref, .measure = false}).planned_device_memory();
    Trainer device(job, kDevice);
    for (int i = 0; i < 3; ++i) device.step();
    EXPECT_EQ(device.planned_device_memory().total(), foretold.total());
    EXPECT_EQ(device.device_memory().average, foretold.average);
    EXPECT_EQ(device.device_memory().gradients, foretold.gradients);
    EXPECT_NEAR(static_cast<double>(foretold.total()) / static_cast<double>(device.memory_bytes()), 1, 0.05) << more;
  }
}

}  // namespace
}  // namespace perigee
