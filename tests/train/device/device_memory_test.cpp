// A job's use of a GPU's memory: predicted from plans, kept within what there is, given back; and evaluation there, as captured graphs.
#include "src/train/device/device_memory.h"

#include <cmath>

#include "src/device/gpu.h"
#include "src/model/evaluator.h"
#include "tests/train/device/device_site.h"
#include "tests/train/device/memory_jobs.h"

namespace perigee {
namespace {

class DeviceMemoryOf : public testing::TestWithParam<MemoryJob> {};

TEST_P(DeviceMemoryOf, IsForetold) {
  for (const bool evaluated : {false, true}) {
    const Job job = job_of_case(GetParam(), evaluated);
    Trainer host(job, {.threads = 1, .backend = Backend::ref, .measure = false});  // knows of no GPU
    const DeviceMemory foretold = host.planned_device_memory();
    Trainer device(job, kDevice);
    for (int i = 0; i < 4; ++i) device.step();  // full batches and what is left of an epoch
    if (evaluated) device.evaluate("test");
    device.step();
    const auto taken = static_cast<double>(device.memory_bytes());
    EXPECT_NEAR(static_cast<double>(foretold.total()) / taken, 1, 0.05) << "evaluated " << evaluated << "\n"
                                                                        << foretold.text() << "taken:\n"
                                                                        << device.device_memory().text();
    EXPECT_EQ(device.planned_device_memory().total(), foretold.total());
    EXPECT_EQ(foretold.data_set == 0, GetParam().streamed);
    EXPECT_EQ(device.device_memory().data_set, foretold.data_set);
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, DeviceMemoryOf, testing::ValuesIn(kMemoryJobs),
                         [](const auto& info) { return std::string(info.param.name); });

Job evaluated_job() {
  Job job = noisy_job(R"(, "metrics": [{"type": "classification"}])");
  job.set("data.test", R"({"type": "digits", "size": 1100})");  // four batches of 256, and 76
  return job;
}

// The second pass: nothing is taken or launched beside graphs, and no wait is for what was queued last but the one at the end.
TEST(DeviceEvaluation, IsGraphsAndReadsAheadOfThem) {
  Trainer device(evaluated_job(), kDevice), reference(evaluated_job(), kReference);
  for (int i = 0; i < 4; ++i) device.step(), reference.step();
  const Json first = device.evaluate("test");
  const shim::Counters before = counters();
  const Json second = device.evaluate("test");
  EXPECT_EQ(counters().graph_launches - before.graph_launches, 5);
  EXPECT_EQ(counters().launches - before.launches, 0);
  EXPECT_EQ(counters().allocations - before.allocations, 0);
  EXPECT_EQ(counters().waits - before.waits, 0);
  EXPECT_EQ(counters().newest_waits - before.newest_waits, 1);
  EXPECT_EQ(counters().event_waits - before.event_waits, 4);
  EXPECT_EQ(first.dump(), second.dump());
  EXPECT_NEAR(first.find("loss")->as_number(), reference.evaluate("test").find("loss")->as_number(), 1e-6);
  for (int i = 0; i < 5; ++i) device.step(), reference.step();
  EXPECT_EQ(bits_of(device), bits_of(reference));
  EXPECT_NE(device.evaluate("test").dump(), first.dump());  // of the new parameters
}

// Parameters that no step has taken there: those of the beginning, and what the host made of them.
TEST(DeviceEvaluation, IsOfTheHostsParameters) {
  Job job = evaluated_job();
  job.set("data.test.size", "300");
  Trainer device(job, kDevice), reference(job, kReference);
  double losses[2];
  for (double& loss : losses) {
    loss = reference.evaluate("test").find("loss")->as_number();
    EXPECT_NEAR(device.evaluate("test").find("loss")->as_number(), loss, 1e-6);
    for (Trainer* trainer : {&device, &reference}) {
      auto* const values = reinterpret_cast<float*>(trainer->model().params().block());
      for (int64_t i = 0; i < trainer->model().params().block_elements(); ++i) values[i] *= 2;
    }
  }
  EXPECT_GT(std::abs(losses[1] - losses[0]), 1e-3);
}

TEST(DeviceEvaluation, StreamsMayRunAtOnceAsWell) {
  Trainer late(evaluated_job(), kDevice);
  const std::string expected = late.evaluate("test").dump();
  const Environment eager("PERIGEE_SHIM_STREAMS", "eager");
  Trainer early(evaluated_job(), kDevice);
  EXPECT_EQ(early.evaluate("test").dump(), expected);
}

TEST(DeviceEvaluation, MayBeStoppedAndBegunAgain) {
  Trainer device(evaluated_job(), kDevice);
  std::atomic<int64_t> evaluated{0};
  std::atomic<bool> stop{true};
  Evaluator& evaluator = *device.evaluator("test");
  const Json whole = evaluator.run();
  EXPECT_TRUE(evaluator.run(&stop).is_null());
  EXPECT_EQ(evaluator.run().dump(), whole.dump());
  EXPECT_FALSE(evaluator.state(0, 300, nullptr, &evaluated).is_null());
  EXPECT_EQ(evaluated, 300);
}

// Outputs of rank 4 lie in another order on the device.
TEST(DeviceEvaluation, ImagesComeBackInTheirOrder) {
  Job job = Job(Json::parse(R"({"network": {"type": "sequential", "layers": [{"type": "conv2d", "out": 3, "kernel": 3, "padding": "same",
      "activation": "tanh"}, {"type": "conv2d", "out": 1, "kernel": 3, "padding": "same"}]}, "loss": "mse", "target": "x", "optimizer": "sgd", "seed": 3,
      "data": {"train": {"type": "digits", "size": 64}, "test": {"type": "digits", "size": 40}, "batch": 16}})",
                            "job"),
                "job");
  Trainer device(job, kDevice), reference(job, kReference);
  device.step(), reference.step();
  EXPECT_NEAR(device.evaluate("test").find("loss")->as_number(), reference.evaluate("test").find("loss")->as_number(), 1e-6);
  const Json a = device.evaluate("test"), b = reference.evaluate("test");
  for (const auto& [name, value] : b.as_object()) {
    if (value.is_number()) {
      EXPECT_NEAR(a.find(name)->as_number(), value.as_number(), 1e-5) << name;
    }
  }
}

Job tight_job() {
  Job job = resnet_job("");
  job.set("data.batch", "64");
  job.set("data.train.size", "192");
  return job;
}

std::string bytes_text(size_t bytes) { return std::to_string(bytes); }

// As much is computed again as the room asks for, and the numbers stay the same.
TEST(DeviceRoom, RecomputesOnlyWhatDoesNotFit) {
  Job job = tight_job();
  Trainer whole(job, kDevice);
  const size_t needed = whole.planned_device_memory().total(), arena = whole.planned_device_memory().training;
  job.set("recompute", "\"auto\"");
  job.set("memory_limit", bytes_text(needed * 2));
  Trainer roomy(job, kDevice);
  EXPECT_EQ(roomy.plans().choice(64).how, "none");
  job.set("memory_limit", bytes_text(needed - arena / 3));
  Trainer tight(job, kDevice);
  EXPECT_NE(tight.plans().choice(64).how, "none");
  EXPECT_LE(tight.memory_bytes(), needed - arena / 3);
  for (int i = 0; i < 2; ++i) whole.step(), tight.step(), roomy.step();
  EXPECT_EQ(bits_of(tight), bits_of(whole));
  EXPECT_EQ(bits_of(roomy), bits_of(whole));
}

TEST(DeviceRoom, ADataSetForWhichThereIsNoneIsStreamed) {
  Job job = tight_job();
  job.set("data.train.size", "2000");
  Trainer resident(job, kDevice);
  const DeviceMemory all = resident.planned_device_memory();
  ASSERT_GT(resident.device_memory().data_set, size_t{4} << 20);
  job.set("memory_limit", bytes_text(all.total() - (size_t{1} << 20)));
  Trainer streamed(job, kDevice);
  EXPECT_EQ(streamed.device_memory().data_set, 0u);
  EXPECT_EQ(streamed.planned_device_memory().data_set, 0u);
  for (int i = 0; i < 2; ++i) resident.step(), streamed.step();
  EXPECT_EQ(bits_of(streamed), bits_of(resident));
}

TEST(DeviceRoom, SaysWhatIsLargestAndWhatWouldFit) {
  Job job = tight_job();
  const DeviceMemory need = Trainer(job, {.threads = 1, .backend = Backend::ref, .measure = false}).planned_device_memory();
  const size_t limit = need.total() - need.data_set - need.training / 3;
  job.set("memory_limit", bytes_text(limit));
  const std::string text = error_of([&] { Trainer(job, kDevice); });
  expect_parts(text, {"a batch of 64 needs more memory than the GPU has", "op '", "f32[64x4x14x14]", "MiB", "--batch 32",
                      "recompute = \"auto\": with "});
  job.set("data.batch", "32");
  EXPECT_EQ(Trainer(job, kDevice).step().examples, 32);
  job.set("data.batch", "64");
  job.set("recompute", "\"auto\"");
  EXPECT_EQ(Trainer(job, kDevice).step().examples, 64);
  // Where the parameters alone are too many.
  Job wide = mlp_job("");
  wide.set("memory_limit", "\"400kB\"");
  expect_parts(error_of([&] { Trainer(wide, kDevice); }), {"no batch fits beside the parameters", "parameter 'dense1.weight'"});
}

TEST(DeviceRoom, EvaluationTakesSmallerBatchesWhereThereIsLittle) {
  Job job = tight_job();
  job.set("data.batch", "4");
  Trainer alone(job, kDevice);
  const size_t taken = alone.memory_bytes();
  job.set("data.test", R"({"type": "digits", "size": 300})");
  Trainer all(job, kDevice);
  const Json expected = all.evaluate("test");
  EXPECT_GT(all.memory_bytes(), taken + (size_t{2} << 20));
  job.set("memory_limit", bytes_text(taken + (size_t{2} << 20)));
  Trainer tight(job, kDevice);
  const Json got = tight.evaluate("test");
  EXPECT_EQ(got.find("accuracy")->dump(), expected.find("accuracy")->dump());
  EXPECT_NEAR(got.find("loss")->as_number(), expected.find("loss")->as_number(), 1e-6);
}

TEST(GpuPool, KeepsAtMostAQuarterOfWhatIsInUse) {
  Gpu gpu(0, "pool");
  constexpr size_t kMiB = size_t{1} << 20;
  const GpuMemory used = gpu.allocate(64 * kMiB, "use");
  for (size_t mib = 1; mib < 60; ++mib) {
    { const GpuMemory growing = gpu.allocate(mib * kMiB, "a batch that grows"); }
    EXPECT_LE(gpu.held() - gpu.allocated(), 16 * kMiB);
  }
  { const GpuMemory ten = gpu.allocate(10 * kMiB, "once"); }
  const long before = counters().allocations;
  for (int i = 0; i < 5; ++i) const GpuMemory again = gpu.allocate(10 * kMiB - 1000, "hardly less");
  EXPECT_EQ(counters().allocations, before);
  const GpuMemory small = gpu.allocate(kMiB, "much less");  // does not take the ten
  EXPECT_LE(small.bytes(), kMiB);
  gpu.limit(70 * kMiB);
  EXPECT_LE(gpu.free_bytes(), 6 * kMiB);
  expect_parts(error_of([&] { gpu.allocate(8 * kMiB, "a lot"); }), {"no memory is left on the GPU for a lot", "70 MiB"});
}

}  // namespace
}  // namespace perigee
