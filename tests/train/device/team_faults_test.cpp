// A user's mistakes with several GPUs: batches too small for all, GPUs that do not fit together, links that are refused, break or
// hang, and runs that stop in between.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>

#include "src/device/gpu_group.h"
#include "src/train/trainer.h"
#include "tests/train/device/team_site.h"

namespace perigee {
namespace {

// 50 examples are a batch of 48 and one of 2, of which the first of three GPUs has none; it takes the same step as the others.
TEST(TeamFaults, ABatchMayBeSmallerThanTheTeam) {
  const Environment three("PERIGEE_SHIM_DEVICES", "3");
  for (const char* more : {"", R"(, "precision": "fp16")", R"(, "precision": "fp16", "clip": {"type": "norm", "threshold": 0.5})"})
    for (const char* graphs : {"", "1"}) {
      const Environment order("PERIGEE_SHIM_GRAPHS", graphs);
      Job job = lenet_job(more);
      job.set("data.train.size", "50");
      Trainer team(deterministic(job), team_of(3)), by_nccl(job, team_of(3)), threads(of_all(job, 3), threads_of(3));
      for (int step = 1; step <= 4; ++step) {
        const StepReport a = team.step(), b = threads.step(), c = by_nccl.step();
        ASSERT_EQ(a.examples, step % 2 == 1 ? 48 : 2);
        ASSERT_NEAR(a.loss, b.loss, 1e-12 * std::abs(b.loss)) << step;
        ASSERT_NEAR(c.loss, b.loss, 1e-4 * std::abs(b.loss)) << step;
      }
      EXPECT_EQ(bits_of(team), bits_of(threads)) << more;
    }
}

// A GPU without examples keeps its running statistics out of the mean.
TEST(TeamFaults, WhoHasNoExamplesAddsNothingToTheStates) {
  const Environment three("PERIGEE_SHIM_DEVICES", "3");
  Job job = noisy_job();
  job.set("data.train.size", "50");
  Trainer team(job, team_of(3)), fixed(deterministic(job), team_of(3));
  for (int step = 0; step < 6; ++step) ASSERT_NEAR(team.step().loss, fixed.step().loss, 1e-4);
  const auto *a = reinterpret_cast<const float*>(team.model().params().state(0)),
             *b = reinterpret_cast<const float*>(fixed.model().params().state(0));
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(a[i], b[i], 1e-4);
}

TEST(TeamFaults, GpusOfDifferentKindsAreRefused) {
  const Environment three("PERIGEE_SHIM_DEVICES", "3"), kinds("PERIGEE_SHIM_CAPABILITY", "90,90,80");
  EXPECT_EQ(GpuGroup(std::vector<int>{0, 1}, "job", false).size(), 2u);
  expect_parts(error_of([] {
                 GpuGroup(std::vector<int>{0, 1, 2}, "job", false);
               }),
               {"job", "different compute capability", "cuda:0 shim 0 (9.0), cuda:2 shim 2 (8.0)"});
  const Environment of_one_generation("PERIGEE_SHIM_CAPABILITY", "80,86");
  expect_parts(error_of([] {
                 GpuGroup(std::vector<int>{0, 1}, "job", false);
               }),
               {"different compute capability", "cuda:0 shim 0 (8.0), cuda:1 shim 1 (8.6)"});
}

TEST(TeamFaults, OneThatIsHiddenIsExplained) {
  const Environment two("PERIGEE_SHIM_DEVICES", "2"), visible("CUDA_VISIBLE_DEVICES", "4,5");
  expect_parts(error_of([] {
                 GpuGroup(std::vector<int>{0, 4}, "job", false);
               }),
               {"there is no such device", "cuda:4", "cuda:0 to cuda:1", "CUDA_VISIBLE_DEVICES=4,5"});
}

TEST(TeamFaults, CopiesGoAnotherWayWhereGpusMayNotReachEachOther) {
  const Environment two("PERIGEE_SHIM_DEVICES", "2");
  Trainer direct(deterministic(lenet_job()), team_of(2));
  for (int i = 0; i < 3; ++i) direct.step();
  const Bits expected = bits_of(direct);
  for (const char* peers : {"refused", "none"}) {  // too many, or of no such kind
    const Environment how("PERIGEE_SHIM_PEERS", peers);
    Trainer by_the_host(deterministic(lenet_job()), team_of(2));
    for (int i = 0; i < 3; ++i) by_the_host.step();
    EXPECT_EQ(bits_of(by_the_host), expected) << peers;
  }
}

// In the middle of a run: every waiter gets an error that says what to do.
TEST(TeamFaults, NcclThatHangsOrBreaksEndsTheRun) {
  const Environment three("PERIGEE_SHIM_DEVICES", "3"), patience("PERIGEE_CUDA_TIMEOUT", "1");
  for (const char* fault : {"hang:2", "error:2"}) {
    Trainer team(lenet_job(), team_of(3));
    team.step();
    const Environment of_fake("FAKE_NCCL_FAULT", fault);
    const std::string text = error_of([&] {
      for (int i = 0; i < 4; ++i) team.step();
    });
    expect_parts(text, {"cuda:0-2", "the GPUs could not finish a step"});
    if (fault[0] == 'h') expect_parts(text, {"no end in 1 s", "NCCL_DEBUG=INFO", "PERIGEE_CUDA_TIMEOUT"});
    else expect_parts(text, {"NCCL 2.28.7", "a link broke"});
  }
}

// Rows that are too large for the arithmetic, among those of one GPU alone: it is found there.
TEST(TeamFaults, ALossThatIsNotFiniteIsFoundOnTheGpuThatHasIt) {
  const Environment two("PERIGEE_SHIM_DEVICES", "2");
  const std::string path = testing::TempDir() + "team_faults.csv";
  for (const int spoilt : {35, 51}) {  // in the second batch, of 16 rows for each
    std::ofstream file(path);
    file << "a,b,y\n";
    for (int i = 0; i < 96; ++i) file << (i == spoilt ? "3e38" : "0.5") << "," << (i == spoilt ? "3e38" : "0.25") << "," << i % 2 << "\n";
    file.close();
    Job job = job_of(R"([{"type": "dense", "out": 8}, {"type": "dense", "out": 2}])");
    job.set("data.train", R"({"type": "csv", "target": "y", "file": ")" + path + R"("})");
    job.set("data.shuffle", "false");
    job.set("epochs", "1");
    Trainer team(job, team_of(2));
    const std::atomic<bool> stop{false};
    for (int again = 0; again < 2; ++again) {  // the same batch comes again
      expect_parts(error_of([&] { team.run(stop); }), {"the loss is not finite", "dense 'dense1' (layer 1 of 2)"});
      EXPECT_EQ(team.position().step, 1);
    }
    Position behind = team.position();
    behind.position += 32, behind.examples += 32;
    team.restore(behind, Json(), 0);
    EXPECT_TRUE(team.run(stop));  // no GPU has kept anything of it
  }
}

class ReadsTheModel : public Hook {
 public:
  void on_step(Trainer& trainer, const StepReport& report) override {
    steps = report.step;
    if (report.step == 2) fault = std::make_unique<Fault>("launch@1", 3);
    if (report.step >= 2) trainer.model();
  }
  int64_t steps = 0;
  std::unique_ptr<Fault> fault;
};

// Who brings parameters home waits for the first GPU, which waits for the one that is lost.
TEST(TeamFaults, AHookThatReadsTheModelIsNotHeldByALostGpu) {
  const Environment three("PERIGEE_SHIM_DEVICES", "3");
  Trainer team(lenet_job(), team_of(3));
  ReadsTheModel hook;
  team.add_hook(&hook);
  const std::atomic<bool> stop{false};
  expect_parts(error_of([&] { team.run(stop); }), {"cuda:1", "illegal memory access"});
  EXPECT_LE(hook.steps, 4);
}

class StopsAt : public Hook {
 public:
  StopsAt(int64_t step, std::atomic<bool>* stop) : step_(step), stop_(stop) {}
  void on_step(Trainer&, const StepReport& report) override {
    EXPECT_EQ(report.step, ++told);
    if (report.step == step_) *stop_ = true;
  }
  int64_t told = 0;

 private:
  int64_t step_;
  std::atomic<bool>* stop_;
};

// As by Ctrl-C: what is on the GPUs is finished, position and parameters belong together, and the run goes on.
TEST(TeamFaults, MayBeStoppedBetweenSteps) {
  const Environment four("PERIGEE_SHIM_DEVICES", "4");
  std::atomic<bool> stop{false};
  Trainer team(deterministic(drawn_job()), team_of(2)), threads(of_all(drawn_job(), 2), threads_of(2));
  StopsAt hook(2, &stop);  // of four steps in an epoch
  team.add_hook(&hook);
  EXPECT_FALSE(team.run(stop));
  EXPECT_EQ(team.position().step, 3);
  EXPECT_EQ(hook.told, team.position().step);
  for (int64_t step = 0; step < team.position().step; ++step) threads.step();
  EXPECT_EQ(team.position().examples, threads.position().examples);
  EXPECT_EQ(bits_of(team), bits_of(threads));
  stop = false;
  EXPECT_TRUE(team.run(stop));
  while (!threads.finished()) threads.step();
  EXPECT_EQ(hook.told, threads.position().step);
  EXPECT_EQ(bits_of(team), bits_of(threads));
}

// A checkpoint does not say how many GPUs it came from: it goes on, from the same example, with batches of the new team.
TEST(TeamFaults, GoesOnWithAnotherNumberOfGpus) {
  const Environment four("PERIGEE_SHIM_DEVICES", "4");
  Trainer two(deterministic(drawn_job()), team_of(2));
  for (int i = 0; i < 3; ++i) two.step();
  const Position position = two.position();
  const auto go_on = [&](Trainer& trainer) {
    Params &to = trainer.model().params(), &from = two.model().params();
    std::copy(from.block(), from.block() + from.block_bytes(), to.block());
    for (size_t i = 0; i < trainer.optimizer_slots(); ++i)
      std::copy(two.optimizer_slot(i).begin(), two.optimizer_slot(i).end(), trainer.optimizer_slot(i).begin());
    trainer.restore(position, Json(), 0);
    while (!trainer.finished()) trainer.step();
    EXPECT_EQ(trainer.position().examples, 300);
  };
  Trainer four_gpus(deterministic(drawn_job()), team_of(4)), threads(of_all(drawn_job(), 4), threads_of(4));
  go_on(four_gpus), go_on(threads);
  EXPECT_EQ(bits_of(four_gpus), bits_of(threads));
}

}  // namespace
}  // namespace perigee
