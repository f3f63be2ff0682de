// Training on a device, with the CUDA module of tests/cuda/shim in the place of a GPU. Its kernels of ops are the reference's
// (PERIGEE_SHIM_STAND_INS), so every number of a run must have the bits of --device ref; memory of the device is closed to the host, and
// streams run as late as they may.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "src/graph/op.h"
#include "src/io/cuda_module.h"
#include "src/train/checkpoint.h"
#include "src/train/device_choice.h"
#include "src/train/evaluator.h"
#include "tests/train/device_site.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

const TrainerOptions kDevice{.backend = Backend::cuda}, kReference{.threads = 1, .backend = Backend::ref, .sub_batch = 1000};

Job drawn_anew(const std::string& more = "") {
  Job job = lenet_job(more);
  job.set("data.train.endless", "true");
  return job;
}

struct Case {
  const char* name;
  Job (*make)(const std::string&);
  const char* more;
};

const Case kCases[] = {
    {"lenet", &lenet_job, ""},
    {"noisy", &noisy_job, ""},
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

// What a device keeps beside the parameters (those in 16 bits) follows when somebody else sets them.
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

INSTANTIATE_TEST_SUITE_P(Jobs, Device, testing::ValuesIn(kCases), [](const auto& info) { return std::string(info.param.name); });

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

// What a hook sees, and the counters at each step.
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

// What a hook or the data throw finds the next step on the device.
TEST(Device, GoesOnAfterAHookThatThrew) {
  const std::atomic<bool> stop = false;
  Trainer whole(lenet_job(), kDevice), broken(lenet_job(), kDevice);
  Quarrel hook;
  hook.at = 3, hook.asks = true;
  broken.add_hook(&hook);
  expect_parts(error_of([&] { broken.run(stop); }), {"the disk is full"});
  expect_parts(hook.error, {"next one on the device"});
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

// Whoever holds the model between two steps may change it: parameters, states, slots.
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

// What replicas do that add up their gradients.
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

TEST(Device, SaysWhatIsWrongWithTheDevice) {
  TrainerOptions seventh = kDevice;
  seventh.devices = {7};
  {
    const Environment two("PERIGEE_SHIM_DEVICES", "2");
    expect_parts(error_of([&] { Trainer(tiny_job(), seventh); }), {"there is no such device", "cuda:7", "cuda:0 to cuda:1"});
  }
  {
    const Environment none("PERIGEE_SHIM_DEVICES", "0");
    expect_parts(error_of([&] { Trainer(tiny_job(), kDevice); }), {"cuda:0", "no CUDA-capable device", "perigee doctor"});
  }
  {
    const Environment old("PERIGEE_SHIM_DRIVER", "old");
    expect_parts(error_of([&] { Trainer(tiny_job(), kDevice); }), {"driver version is insufficient", "perigee doctor"});
  }
  const Environment image("PERIGEE_SHIM_DRIVER", "image");
  expect_parts(error_of([&] { Trainer(tiny_job(), kDevice); }), {"no kernel image", "sm_80, sm_90", "kernel '"});
}

TEST(Device, SaysWhatNeedsMostMemoryAndWhichBatchFits) {
  Job job = lenet_job();
  job.set("data.batch", "1024");
  job.set("data.train.size", "5000");
  job.set("data.train.endless", "true");
  const Environment small("PERIGEE_SHIM_MEMORY_MB", "6");
  const std::string text = error_of([&] { Trainer(job, kDevice); });
  expect_parts(text, {"a batch of 1024 needs more memory than the GPU has", "op 'conv", "MiB", "--batch "});
  const int64_t fits = std::atoll(text.c_str() + text.find("--batch ") + 8);
  ASSERT_GT(fits, 0);
  job.set("data.batch", std::to_string(fits));
  Trainer smaller(job, kDevice);
  EXPECT_EQ(smaller.step().examples, fits);
}

TEST(Device, EveryAllocationMayFail) {
  int failed = 0;
  for (long nth = 1; nth < 60; ++nth) {
    const Fault fault("malloc", nth);
    const std::string text = error_of([&] { Trainer(noisy_job(), kDevice).step(); });
    if (text == "no error") break;
    ++failed;
    EXPECT_NE(text.find("memory"), std::string::npos) << nth << ": " << text;
  }
  EXPECT_GT(failed, 5);
}

TEST(Device, AFaultOfTheDeviceNamesTheOp) {
  Trainer trainer(lenet_job(), kDevice);
  const Fault fault("launch", 3);
  expect_parts(error_of([&] { trainer.step(); }), {"illegal memory access", "op '", "layer"});
  expect_parts(error_of([&] { trainer.step(); }), {"illegal memory access"});
}

TEST(Device, AFaultInAGraphSaysHowToFindTheOp) {
  Trainer trainer(lenet_job(), kDevice);
  trainer.step();
  const Bits before = bits_of(trainer);
  {
    const Fault fault("launch", 9);
    expect_parts(error_of([&] { trainer.step(); }), {"illegal memory access", "PERIGEE_CUDA_BLOCKING=1"});
    expect_parts(error_of([&] { trainer.model(); }), {"illegal memory access"});
  }
  const Environment blocking("PERIGEE_CUDA_BLOCKING", "1");
  Trainer found(lenet_job(), kDevice);
  found.step();
  const Fault fault("launch", 9);
  expect_parts(error_of([&] { found.step(); }), {"op '"});
}

TEST(DeviceChoice, ReadsWhatAUserWrites) {
  const auto choice = [](const char* device, int worker = 0, int gpus = 1) {
    TrainerOptions options;
    choose_device(device, "--device", worker, gpus, &options);
    return options;
  };
  EXPECT_EQ(choice("cpu").backend, Backend::cpu);
  EXPECT_EQ(choice("ref").backend, Backend::ref);
  EXPECT_TRUE(choice("check:cpu,ref").check);
  EXPECT_EQ(choice("auto").backend, Backend::cuda);
  EXPECT_EQ(choice("cuda:3").devices, std::vector<int>{3});
  for (const char* wrong : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "check:cuda", ""})
    expect_parts(error_of([&] { choice(wrong); }), {"--device", "there is no such device"});
  for (const char* wrong : {"cuda:1-", "cuda:2-1", "cuda:0,", "cuda:,1", "cuda:0-9999999999", "cuda:0--1"})
    expect_parts(error_of([&] { choice(wrong); }), {"there is no such device", "cuda:0-3"});
  using Devices = std::vector<int>;
  const Environment four("PERIGEE_SHIM_DEVICES", "4");
  EXPECT_EQ(choice("cuda:0-2,5", 0, 4).devices, (Devices{0, 1, 2, 5}));
  EXPECT_EQ(choice("cuda:0-2,5", 1, 2).devices, (Devices{2, 5}));
  EXPECT_EQ(choice("cuda:0-2,5", 3).devices, Devices{5});
  EXPECT_EQ(choice("cuda", 1, 2).devices, (Devices{2, 3}));
  EXPECT_EQ(choice("auto", 2, 2).devices, (Devices{0, 1}));  // more workers than there are GPUs for
  expect_parts(error_of([&] { choice("cuda", 0, 5); }), {"more GPUs than there are", "devices = 5", "at most 4"});
  EXPECT_EQ(choice("cuda", 6).devices, std::vector<int>{2});
  const Environment old("PERIGEE_SHIM_DRIVER", "old");
  EXPECT_EQ(choice("auto").backend, Backend::cpu);
}

}  // namespace
}  // namespace perigee
