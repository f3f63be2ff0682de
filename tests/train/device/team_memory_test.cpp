// Memory of several GPUs of one process: predicted for each, and named when it does not do; and evaluation on all of them.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "src/model/evaluator.h"
#include "src/train/device/device_choice.h"
#include "src/train/device/device_memory.h"
#include "src/train/device/device_model.h"
#include "tests/train/device/memory_jobs.h"
#include "tests/train/device/team_site.h"

namespace perigee {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class TeamMemoryOf : public testing::TestWithParam<MemoryJob> {};

// Two that evaluate, by NCCL; three that add up by copies, for which they need memory.
TEST_P(TeamMemoryOf, IsForetoldForEachGpu) {
  const Environment three("PERIGEE_SHIM_DEVICES", "3");
  for (const bool evaluated : {true, false}) {
    const int gpus = evaluated ? 2 : 3;
    Job job = evaluated ? job_of_case(GetParam(), true) : deterministic(job_of_case(GetParam(), false));
    if (GetParam().make != &text_job) {
      job.set("data.train.size", "112");                // whole batches and a smaller one
      if (evaluated) job.set("data.test.size", "800");  // both buffers of each GPU
    }
    Trainer host(job, {.threads = 1, .backend = Backend::ref, .measure = false});  // knows of no GPU
    const DeviceMemory foretold = host.planned_device_memory(gpus);
    Trainer team(job, team_of(gpus));
    for (int i = 0; i < 4; ++i) team.step();
    if (evaluated) team.evaluate("test");
    EXPECT_EQ(team.planned_device_memory().total(), foretold.total());
    EXPECT_EQ(team.device_memory().states, foretold.states);
    EXPECT_EQ(team.device_memory().gradients, foretold.gradients);
    EXPECT_EQ(foretold.sums > 0, !evaluated);
    size_t all = 0;
    ASSERT_EQ(team.device_taken().size(), static_cast<size_t>(gpus));
    for (const DeviceTaken& taken : team.device_taken()) {
      EXPECT_NEAR(static_cast<double>(foretold.total()) / static_cast<double>(taken.peak), 1, 0.05)
          << taken.device << " of " << gpus << "\n"
          << foretold.text() << "taken:\n"
          << team.device_memory().text();
      all += taken.peak;
    }
    EXPECT_EQ(team.memory_bytes(), all);
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, TeamMemoryOf, testing::ValuesIn(kMemoryJobs), [](const auto& info) { return std::string(info.param.name); });

// Memory is divided by the global batch, where one is given; the largest share counts.
TEST(TeamMemory, IsForetoldOfABatchOfAll) {
  const Environment three("PERIGEE_SHIM_DEVICES", "3");
  Job job = deterministic(lenet_job());
  job.set("data.train.size", "112");
  const auto foretold = [&job] { return Trainer(job, {.threads = 1, .backend = Backend::ref, .measure = false}).planned_device_memory(3); };
  const auto of_share = [&](const char* share) {
    job.set("data.global_batch", "0");
    job.set("data.batch", share);
    return foretold().total();
  };
  const size_t of_13 = of_share("13"), of_14 = of_share("14");
  EXPECT_LT(of_13, of_14);
  job.set("data.batch", "5");
  job.set("data.global_batch", "40");
  const DeviceMemory of_all = foretold();
  EXPECT_EQ(of_all.total(), of_14);
  Trainer team(job, team_of(3));
  for (int i = 0; i < 4; ++i) team.step();
  EXPECT_EQ(team.planned_device_memory().total(), of_14);
  for (const DeviceTaken& taken : team.device_taken())
    EXPECT_NEAR(static_cast<double>(of_14) / static_cast<double>(taken.peak), 1, 0.05) << taken.device;
}

Job tight_job() {
  Job job = resnet_job("");
  job.set("data.batch", "64");
  job.set("data.train.size", "512");
  return job;
}

TEST(TeamRoom, NamesTheBatchOfAllTheShareOfEachAndTheGpu) {
  const Environment four("PERIGEE_SHIM_DEVICES", "4");
  Job job = tight_job();
  const DeviceMemory need = Trainer(job, {.threads = 1, .backend = Backend::ref, .measure = false}).planned_device_memory(4);
  job.set("memory_limit", std::to_string(need.total() - need.data_set - need.training / 3));
  const std::string text = error_of([&] { Trainer(job, team_of(4)); });
  expect_parts(text, {"a batch of 256, 64 on each of 4 GPUs, needs more memory than the GPU has", "cuda:0", "f32[64x4x14x14]", "of each",
                      "a batch of 128, 32 on each of 4 GPUs, fits: --batch 32", "recompute = \"auto\": with "});
  job.set("data.batch", "32");
  EXPECT_EQ(Trainer(job, team_of(4)).step().examples, 128);
  job.set("data.batch", "64");
  job.set("recompute", "\"auto\"");
  EXPECT_EQ(Trainer(job, team_of(4)).step().examples, 256);
  job.set("recompute", "\"none\"");
  job.set("data.global_batch", "250");
  expect_parts(error_of([&] { Trainer(job, team_of(4)); }),
               {"a batch of 250, 63 at most on each of 4 GPUs,", "--set data.global_batch=124"});
}

// One that others use, or that is smaller: it decides for all.
TEST(TeamRoom, GoesByTheGpuThatHasLeast) {
  const Environment three("PERIGEE_SHIM_DEVICES", "3"), memory("PERIGEE_SHIM_MEMORY_MB", "1024,1024,1");
  const std::string text = error_of([&] { Trainer(tight_job(), team_of(3)); });
  expect_parts(text, {"a batch of 192, 64 on each of 3 GPUs,", "cuda:2", "of 1 MiB are free", "fits: --batch "});
  Job job = tight_job();
  const int share = std::stoi(text.substr(text.find("--batch ") + 8));
  job.set("data.batch", std::to_string(share));
  Trainer fits(job, team_of(3));
  fits.step();
  for (const DeviceTaken& taken : fits.device_taken()) EXPECT_LE(taken.peak, kMiB);
  job.set("data.batch", std::to_string(2 * share));  // what is proposed is found by halving
  EXPECT_THROW(Trainer(job, team_of(3)), Error);
}

Job evaluated_job() {
  Job job = noisy_job(R"(, "metrics": [{"type": "classification"}])");
  job.set("data.test", R"({"type": "digits", "size": 1100})");  // four batches of 256, and 76
  return job;
}

// Whole batches in turns: the sums are those of one GPU, bit by bit.
TEST(TeamEvaluation, HasTheNumbersOfOneGpu) {
  const Environment four("PERIGEE_SHIM_DEVICES", "4");
  Trainer one(evaluated_job(), team_of(1));
  const std::string expected = one.evaluate("test").dump();
  for (const char* streams : {"late", "eager"})
    for (const int gpus : {2, 4}) {
      const Environment when("PERIGEE_SHIM_STREAMS", streams);
      Trainer team(evaluated_job(), team_of(gpus));
      EXPECT_EQ(team.evaluate("test").dump(), expected) << gpus << ' ' << streams;
    }
}

// The second pass: nothing but graphs, on every GPU, and of what is waited for only the end is what was queued last.
TEST(TeamEvaluation, IsGraphsOnEveryGpu) {
  const Environment two("PERIGEE_SHIM_DEVICES", "2");
  Trainer team(evaluated_job(), team_of(2));
  for (int i = 0; i < 3; ++i) team.step();
  const Json first = team.evaluate("test");
  const shim::Counters before = counters();
  EXPECT_EQ(team.evaluate("test").dump(), first.dump());
  EXPECT_EQ(counters().graph_launches - before.graph_launches, 5);
  EXPECT_EQ(counters().launches - before.launches, 0);
  EXPECT_EQ(counters().allocations - before.allocations, 0);
  EXPECT_EQ(counters().waits - before.waits, 0);
  EXPECT_EQ(counters().newest_waits - before.newest_waits, 1);
  team.step();
  EXPECT_NE(team.evaluate("test").dump(), first.dump());  // of the new parameters, on every GPU
}

TEST(TeamEvaluation, MayBeStoppedAndBegunAgain) {
  const Environment three("PERIGEE_SHIM_DEVICES", "3");
  Trainer team(evaluated_job(), team_of(3));
  std::atomic<bool> stop{true};
  Evaluator& evaluator = *team.evaluator("test");
  const Json whole = evaluator.run();
  EXPECT_TRUE(evaluator.run(&stop).is_null());
  EXPECT_EQ(evaluator.run().dump(), whole.dump());
}

// One example cannot be read, once.
class BreaksOnce : public DataSource {
 public:
  explicit BreaksOnce(SourcePtr of) : of_(std::move(of)) {}
  int64_t size() const override { return of_->size(); }
  const std::vector<Field>& fields() const override { return of_->fields(); }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    if (key.index == 700 && breaks.exchange(false)) throw Error(ErrorKind::data, {.what = "a test"});
    of_->read(key, slots);
  }
  bool cheap() const override { return true; }
  std::string describe() const override { return of_->describe(); }
  mutable std::atomic<bool> breaks{false};

 private:
  SourcePtr of_;
};

// In the third batch, with the first two on their way: nothing of them is counted in the next pass.
TEST(TeamEvaluation, BeginsAgainAfterDataThatFailed) {
  const Environment three("PERIGEE_SHIM_DEVICES", "3");
  Trainer trained(evaluated_job(), {.threads = 1, .backend = Backend::ref, .sub_batch = 1000});
  const ModelSite site(trained.model(), Json(), "cuda:0-2", "test", {});
  const Json digits = Json::parse(R"({"type": "digits", "size": 1100})", "test");
  const auto source = std::make_shared<BreaksOnce>(open_source(Config(digits, "test"), "."));
  ThreadTeam threads(1);
  Evaluator evaluator(trained.model(), threads, source, nullptr, "test", site.devices());
  const std::string whole = evaluator.run().dump();
  for (int i = 0; i < 2; ++i) {
    source->breaks = true;
    EXPECT_THROW(evaluator.run(), Error);
    EXPECT_EQ(evaluator.run().dump(), whole);
  }
}

// The devices of `perigee eval` and `predict`: all GPUs that are named, or, as one of several processes, its own.
TEST(TeamEvaluation, OfAModelTakesTheGpusThatAreNamed) {
  const Environment four("PERIGEE_SHIM_DEVICES", "4");
  Trainer trained(evaluated_job(), {.threads = 1, .backend = Backend::ref, .sub_batch = 1000});
  const auto names = [&](const std::string& device, std::optional<int> worker) {
    const ModelSite site(trained.model(), Json(), device, "test", worker);
    std::string text;
    for (const DeviceModel* model : site.devices()) text += model->gpu().name() + " ";
    return text;
  };
  EXPECT_EQ(names("cpu", {}), "");
  EXPECT_EQ(names("cuda", {}), "cuda:0 ");
  EXPECT_EQ(names("auto", {}), "cuda:0 ");
  EXPECT_EQ(names("cuda:1-3", {}), "cuda:1 cuda:2 cuda:3 ");
  EXPECT_EQ(names("cuda:1-3", 1), "cuda:2 ");
  EXPECT_EQ(names("cuda", 3), "cuda:3 ");
  expect_parts(error_of([&] { names("cuda:1,1", {}); }), {"a device is named twice", "cuda:1,1"});
}

}  // namespace
}  // namespace perigee
