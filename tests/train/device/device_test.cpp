// Training on a device, with the CUDA module of tests/cuda/shim in the place of a GPU. Its kernels of ops are the reference's
// (PERIGEE_SHIM_STAND_INS), so every number of a run must have the bits of --device ref; memory of the device is closed to the host, and
// streams run as late as they may.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/device/cuda_module.h"
#include "src/model/evaluator.h"
#include "src/run/checkpoint.h"
#include "tests/train/device/device_site.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

Job drawn_anew(const std::string& more = "") {
  Job job = lenet_job(more);
  job.set("data.train.endless", "true");
  return job;
}

// Draws of a step and not of its examples.
Job shaken_job(const std::string& more) {
  return job_of(R"([{"type": "dense", "out": 12, "activation": "relu", "weight_noise": {"type": "drop_connect", "rate": 0.5}},
                    {"type": "dense", "out": 10, "weight_noise": {"type": "gaussian", "stddev": 0.1, "bias": true}}])",
                more);
}

struct Case {
  const char* name;
  Job (*make)(const std::string&);
  const char* more;
};

const Case kCases[] = {
    {"lenet", &lenet_job, ""},
    {"noisy", &noisy_job, ""},
    {"shaken", &shaken_job, ""},
    {"head", &head_job, ""},
    {"head_recomputed", &head_job, R"(, "recompute": "all")"},
    {"streamed", &drawn_anew, ""},
    {"clipped", &lenet_job, R"(, "clip": {"type": "norm", "threshold": 0.5})"},
    {"by_layer", &lenet_job, R"(, "clip": {"type": "layer_norm", "threshold": 0.1})"},
    {"renormalized", &lenet_job, R"(, "clip": {"type": "renormalize_parameter"})"},
    {"clipped_values", &lenet_job, R"(, "clip": {"type": "value", "threshold": 0.01})"},
    {"constrained", &lenet_job, R"(, "constraint": [{"type": "max_norm", "max": 0.4}, {"type": "non_negative", "on": "bias"}])"},
    {"recomputed", &noisy_job, R"(, "recompute": "all")"},
    {"regularized", &lenet_job, R"(, "regularization": {"l1": 0.001, "l2": 0.01})"},
    {"fp16", &noisy_job, R"(, "precision": "fp16")"},
    {"fp16_static", &lenet_job, R"(, "precision": "fp16", "loss_scale": 1000)"},
    {"fp16_clipped", &lenet_job, R"(, "precision": "fp16", "clip": {"type": "norm", "threshold": 0.5})"},
    {"float64", &noisy_job, R"(, "precision": "float64")"},
    {"float64_clipped", &lenet_job, R"(, "precision": "float64", "clip": {"type": "norm", "threshold": 0.5})"},
    {"bf16", &noisy_job, R"(, "precision": "bf16")"},
    {"bf16_constrained", &lenet_job, R"(, "precision": "bf16", "constraint": [{"type": "max_norm", "max": 0.4}])"},
    {"accumulated", &noisy_job, R"(, "accumulate": 3)"},
    {"accumulated_fp16", &noisy_job, R"(, "accumulate": 2, "precision": "fp16", "clip": {"type": "norm", "threshold": 0.5})"},
    {"tf32", &lenet_job, R"(, "precision": "tf32")"},
};

class Device : public testing::TestWithParam<Case> {};

TEST_P(Device, HasTheBitsOfTheReference) {
  Trainer device(GetParam().make(GetParam().more), kDevice), reference(GetParam().make(GetParam().more), kReference);
  for (int step = 1; step <= 15; ++step) {
    const StepReport a = device.step(), b = reference.step();
    ASSERT_EQ(a.step, b.step);
    ASSERT_EQ(a.examples, b.examples);  // of 100 examples, the last batch has 4
    ASSERT_NEAR(a.loss, b.loss, 1e-12 * std::abs(b.loss)) << step;
    ASSERT_EQ(a.accuracy, b.accuracy) << step;
    ASSERT_EQ(a.learning_rate, b.learning_rate);
    ASSERT_EQ(a.gradient_norm, b.gradient_norm) << step;
    ASSERT_EQ(a.epoch_ends, b.epoch_ends);
  }
  EXPECT_EQ(bits_of(device), bits_of(reference));
}

INSTANTIATE_TEST_SUITE_P(Jobs, Device, testing::ValuesIn(kCases), [](const auto& info) { return std::string(info.param.name); });

// A device takes each batch alone also where a host has no need to.
TEST(Device, AccumulatesToTheStepOfTheLargeBatch) {
  Job large = lenet_job();
  large.set("data.batch", "48");
  Trainer parts(lenet_job(R"(, "accumulate": 3)"), kDevice), whole(large, kDevice);
  EXPECT_TRUE(parts.steps_in_parts());
  for (int step = 1; step <= 9; ++step) {
    const StepReport a = parts.step(), b = whole.step();
    ASSERT_EQ(a.examples, b.examples);
    ASSERT_NEAR(a.loss, b.loss, 1e-4) << step;
    ASSERT_EQ(a.epoch_ends, b.epoch_ends);
  }
}

// The reference adds sums of products that were rounded, a convolution of the device adds to what is there: not the same bits.
TEST(Device, AddsGradientsWhereTheyMeet) {
  const auto adds = [] { return of_module<long(const char*)>("shim_runs")("add/stand-in"); };
  const long before = adds();
  Trainer device(meeting_job(""), kDevice), reference(meeting_job(""), kReference);
  for (int step = 1; step <= 15; ++step) ASSERT_NEAR(device.step().loss, reference.step().loss, 1e-5) << step;
  EXPECT_EQ(adds(), before);
  const Bits a = bits_of(device), b = bits_of(reference);
  const auto value = [](const Bits& bits, size_t i) { return reinterpret_cast<const float*>(bits.parameters.data())[i]; };
  for (size_t i = 0; i < a.parameters.size() / sizeof(float); ++i) ASSERT_NEAR(value(a, i), value(b, i), 1e-4) << i;
}

// The state that a hook sees, and the counters at each step.
class Watch : public Hook {
 public:
  void on_step(Trainer&, const StepReport& report) override {
    reports.push_back(report);
    counted.push_back(counters());
    of_module_itself.push_back(cuda_module(&why)->counts());
  }
  void on_epoch(Trainer& trainer, uint64_t) override { at_epochs.push_back(bits_of(trainer)); }

  std::vector<StepReport> reports;
  std::vector<shim::Counters> counted;
  std::vector<CudaCounts> of_module_itself;
  std::string why;
  std::vector<Bits> at_epochs;
};

void run(Trainer& trainer, Watch* watch) {
  const std::atomic<bool> stop{false};
  trainer.add_hook(watch);
  ASSERT_TRUE(trainer.run(stop));
}

TEST(Device, RunsAheadAndReportsEachStepOnce) {
  Trainer device(noisy_job(), kDevice), reference(noisy_job(), kReference);
  Watch a, b;
  run(device, &a);
  run(reference, &b);
  ASSERT_EQ(a.reports.size(), 21u);
  ASSERT_EQ(b.reports.size(), 21u);
  for (size_t i = 0; i < a.reports.size(); ++i) {
    EXPECT_EQ(a.reports[i].step, b.reports[i].step);
    EXPECT_NEAR(a.reports[i].loss, b.reports[i].loss, 1e-12);
    EXPECT_EQ(a.reports[i].epoch_ends, b.reports[i].epoch_ends);
  }
  EXPECT_EQ(a.at_epochs, b.at_epochs);
  EXPECT_EQ(device.position().to_json().dump(), reference.position().to_json().dump());
}

class Quarrel : public Hook {
 public:
  void on_step(Trainer& trainer, const StepReport& report) override {
    if (asks) error = error_of([&] { trainer.step(); });
    if (report.step == at) throw Error(ErrorKind::resources, {.what = "the disk is full"});
  }
  int64_t at = 0;
  bool asks = false;
  std::string error;
};

TEST(Device, SaysWhatIsPartOfARecordedStep) {
  Trainer trainer(tiny_job(R"(, "clip": {"type": "norm", "threshold": 1})"), kDevice);
  Job changed = trainer.job();
  changed.set("clip.threshold", "2");
  expect_parts(
      error_of([&] { trainer.change_optimizer(changed.json()); }),
      {"clip: on a GPU the threshold of a norm is part of the step that was recorded", "resume it with --set clip.threshold=NUMBER"});
  expect_parts(error_of([&] { trainer.change_batch(3); }),
               {"data: batch: on a GPU the step was recorded for its size", "stop the run and resume it with --set data.batch=NUMBER"});
}

// After a hook or the data source throws, the next step still runs on the device.
TEST(Device, GoesOnAfterAHookThatThrew) {
  const std::atomic<bool> stop = false;
  Trainer whole(lenet_job(), kDevice), broken(lenet_job(), kDevice);
  Quarrel hook;
  hook.at = 3, hook.asks = true;
  broken.add_hook(&hook);
  expect_parts(error_of([&] { broken.run(stop); }), {"the disk is full"});
  expect_parts(hook.error,
               {"a step was asked for by who is told of one, while the run has the next one on the device", "make steps by step() alone"});
  hook.asks = false;
  EXPECT_TRUE(whole.run(stop));
  EXPECT_TRUE(broken.run(stop));
  EXPECT_EQ(bits_of(broken), bits_of(whole));
  EXPECT_EQ(broken.position().examples, whole.position().examples);
}

TEST(Device, LaunchesNothingBesideTheGraphAndWaitsForNoStepThatWasJustQueued) {
  Trainer device(lenet_job(R"(, "clip": {"type": "norm", "threshold": 0.5})"), kDevice);
  Watch watch;
  run(device, &watch);
  // The second epoch's steps of 16: both buffers have their graphs by then.
  const shim::Counters &first = watch.counted[9], &last = watch.counted[11];
  ASSERT_EQ(watch.reports[9].step, 10);
  EXPECT_EQ(last.graph_launches - first.graph_launches, 2);
  EXPECT_EQ(last.launches - first.launches, 0);
  EXPECT_EQ(last.waits - first.waits, 0);
  EXPECT_EQ(last.newest_waits - first.newest_waits, 0);
  EXPECT_EQ(last.event_waits - first.event_waits, 2);
  EXPECT_EQ(last.allocations - first.allocations, 0);
  const CudaCounts &before = watch.of_module_itself[9], &after = watch.of_module_itself[11];
  EXPECT_EQ(after.graph_launches - before.graph_launches, 2);
  EXPECT_EQ(after.launches - before.launches, 0);
  EXPECT_EQ(after.copies - before.copies, 2);
  EXPECT_EQ(after.host_waits - before.host_waits, 0);
  EXPECT_EQ(after.event_waits - before.event_waits, 2);
  EXPECT_EQ(after.allocations - before.allocations, 0);
}

TEST(Device, StreamsMayRunAtOnceAsWell) {
  Trainer late(drawn_anew(), kDevice);
  Watch watch;
  run(late, &watch);
  const Environment eager("PERIGEE_SHIM_STREAMS", "eager");
  Trainer early(drawn_anew(), kDevice);
  Watch other;
  run(early, &other);
  EXPECT_EQ(bits_of(late), bits_of(early));
}

TEST(Device, OpByOpGivesTheSame) {
  Trainer graphs(noisy_job(), kDevice);
  Watch watch;
  run(graphs, &watch);
  const Environment blocking("PERIGEE_CUDA_BLOCKING", "1");
  Trainer ops(noisy_job(), kDevice);
  Watch other;
  run(ops, &other);
  EXPECT_EQ(bits_of(graphs), bits_of(ops));
}

// A caller may change the model between two steps: parameters, states, slots.
TEST(Device, TakesWhatWasChangedBetweenSteps) {
  Trainer device(noisy_job(), kDevice), reference(noisy_job(), kReference);
  for (Trainer* trainer : {&device, &reference}) {
    for (int i = 0; i < 3; ++i) trainer->step();
    auto* const values = reinterpret_cast<float*>(trainer->model().params().block());
    for (int i = 0; i < 8; ++i) values[i] *= 0.5f;
    reinterpret_cast<float*>(trainer->model().params().state(0))[1] += 0.25f;
    reinterpret_cast<float*>(trainer->optimizer_slot(1).data())[2] *= 2;
    for (int i = 0; i < 3; ++i) trainer->step();
  }
  EXPECT_EQ(bits_of(device), bits_of(reference));
}

TEST(Device, ContinuesFromACheckpointOfTheHostAndBack) {
  const std::string folder = testing::TempDir() + "device_checkpoint";
  Trainer reference(noisy_job(), kReference);
  for (int i = 0; i < 9; ++i) reference.step();
  save_checkpoint(reference, folder + ".host", {});
  Trainer device(noisy_job(), kDevice);
  device.step();
  load_checkpoint(device, folder + ".host");
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(device.step().loss, reference.step().loss, 1e-12);
  EXPECT_EQ(bits_of(device), bits_of(reference));
  save_checkpoint(device, folder + ".device", {});
  Trainer again(noisy_job(), kReference);
  load_checkpoint(again, folder + ".device");
  again.step(), reference.step();
  EXPECT_EQ(bits_of(again), bits_of(reference));
}

TEST(Device, Evaluates) {
  const char* const test = R"(, "metrics": [{"type": "classification"}])";
  Job job = noisy_job(test);
  job.set("data.test.type", "digits");
  job.set("data.test.size", "300");  // 256 and 44
  Trainer device(job, kDevice), reference(job, kReference);
  for (int i = 0; i < 4; ++i) device.step(), reference.step();
  const Json a = device.evaluate("test"), b = reference.evaluate("test");
  EXPECT_EQ(a.find("accuracy")->dump(), b.find("accuracy")->dump());
  EXPECT_NEAR(a.find("loss")->as_number(), b.find("loss")->as_number(), 1e-6);
  EXPECT_EQ(bits_of(device), bits_of(reference));
}

// The first of equal answers counts, as on the host.
TEST(Device, JudgesTies) {
  Trainer device(tiny_job(), kDevice), reference(tiny_job(), kReference);
  for (Trainer* trainer : {&device, &reference}) {
    Params& params = trainer->model().params();
    std::fill_n(params.block(), params.block_bytes(), std::byte{});
  }
  const StepReport a = device.step(), b = reference.step();
  EXPECT_NEAR(b.loss, std::log(10.0), 1e-5);
  EXPECT_EQ(a.accuracy, b.accuracy);
  double first = 0;  // of the batch's labels
  Trainer labels(tiny_job(), kReference);
  const Batch& batch = labels.next_batch();
  for (int64_t i = 0; i < batch.size; ++i) first += batch.fields.back().data<int64_t>()[i] == 0;
  EXPECT_GT(first, 0);
  EXPECT_EQ(a.accuracy, first / static_cast<double>(batch.size));
}

// Replicas that add up their gradients.
TEST(Device, GivesItsGradientAndTakesASum) {
  Trainer device(noisy_job(), kDevice), reference(noisy_job(), kReference);
  for (Trainer* trainer : {&device, &reference}) {
    std::vector<std::byte> sum(trainer->model().params().block_bytes()), twice(sum.size());
    for (int step = 0; step < 3; ++step) {
      const std::byte* const before[] = {sum.data()};
      EXPECT_EQ(trainer->sum_gradient(trainer->next_batch(), {.to = sum.data()}).examples, 16);
      EXPECT_EQ(trainer->sum_gradient(trainer->next_batch(), {.to = twice.data(), .add = before}).examples, 16);
      trainer->commit_states();
      trainer->update(twice.data(), 32);
    }
    EXPECT_TRUE(trainer->sum_gradient({}, {.to = sum.data()}).finite);
    EXPECT_EQ(std::vector<std::byte>(sum.size()), sum);
  }
  EXPECT_EQ(bits_of(device), bits_of(reference));
}

class Halves : public Hook {
 public:
  bool wants_gradient() const override { return true; }
  void on_gradient(Trainer&, std::span<std::byte> gradient, int64_t& examples) override {
    auto* const values = reinterpret_cast<float*>(gradient.data());
    for (size_t i = 0; i < gradient.size() / sizeof(float); ++i) values[i] *= 0.5f;
    examples *= 3;
  }
};

TEST(Device, HooksMayReplaceTheGradient) {
  Trainer device(noisy_job(), kDevice), reference(noisy_job(), kReference);
  Halves halves;
  for (Trainer* trainer : {&device, &reference}) {
    trainer->add_hook(&halves);
    for (int i = 0; i < 8; ++i) trainer->step();
  }
  EXPECT_EQ(bits_of(device), bits_of(reference));
}

TEST(Device, ALossThatIsNotFiniteChangesNothing) {
  const auto until_it_fails = [](Trainer& trainer) {
    const std::atomic<bool> stop{false};
    return error_of([&] { trainer.run(stop); });
  };
  Job job = lenet_job();
  job.set("optimizer", R"({"type": "sgd", "lr": 1e9})");
  Trainer device(job, kDevice), reference(job, kReference);
  const std::string told = until_it_fails(device), expected = until_it_fails(reference);
  EXPECT_EQ(told, expected);
  expect_parts(told, {"the loss is not finite", "layer"});
  EXPECT_EQ(device.position().step, reference.position().step);
  EXPECT_EQ(bits_of(device), bits_of(reference));
}

}  // namespace
}  // namespace perigee
