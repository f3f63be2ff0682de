// Several GPUs whose links do not come, or do not go.
#include <gtest/gtest.h>

#include "src/core/warning.h"
#include "src/device/gpu_group.h"
#include "src/train/trainer.h"
#include "tests/train/device/team_site.h"

namespace perigee {
namespace {

struct Warnings {
  Warnings() {
    set_warning_handler([this](const std::string& said) { text += said + "\n"; });
  }
  ~Warnings() { set_warning_handler({}); }
  std::string text;
};

// Abandoned work waits until the process ends.
TEST(TeamWaits, NcclThatNeverBeginsIsDoneWithout) {
  const Environment two("PERIGEE_SHIM_DEVICES", "2"), patience("PERIGEE_CUDA_TIMEOUT", "1");
  Warnings warnings;
  const auto group = [] {
    const Environment fault("FAKE_NCCL_FAULT", "init");
    return std::make_unique<GpuGroup>(std::vector<int>{0, 1}, "test", false);
  }();
  EXPECT_TRUE(group->copies());
  expect_parts(group->sums(), {"copies between the GPUs", "could not begin: it came to no end in PERIGEE_CUDA_TIMEOUT seconds"});
  expect_parts(warnings.text, {"cuda:0,1: gradients are added up by copies"});
}

TEST(TeamWaits, NcclThatNeverEndsIsLeftBehind) {
  const Environment two("PERIGEE_SHIM_DEVICES", "2"), patience("PERIGEE_CUDA_TIMEOUT", "1");
  Warnings warnings;
  {
    Trainer team(lenet_job(), team_of(2));
    team.step();
    setenv("FAKE_NCCL_FAULT", "destroy", 1);
  }
  unsetenv("FAKE_NCCL_FAULT");
  expect_parts(warnings.text, {"NCCL 2.28.7 could not end and is left as it is: it came to no end"});
  Trainer again(lenet_job(), team_of(2));
  EXPECT_EQ(again.step().step, 1);
}

// The first sum makes the links: on GPUs that cannot reach each other it may come to no end. Of what is left behind nothing is waited for again.
TEST(TeamWaits, ASumThatNeverBeginsEndsTheTraining) {
  const Environment two("PERIGEE_SHIM_DEVICES", "2"), patience("PERIGEE_CUDA_TIMEOUT", "1");
  Warnings warnings;
  {
    const Environment fault("FAKE_NCCL_FAULT", "sum");
    const std::string text = error_of([] { Trainer(lenet_job(), team_of(2)).step(); });
    expect_parts(text, {"NCCL 2.28.7", "could not add up", "it came to no end in PERIGEE_CUDA_TIMEOUT seconds"});
  }
  EXPECT_EQ(warnings.text, "");
  Trainer again(lenet_job(), team_of(2));
  EXPECT_EQ(again.step().step, 1);
}

struct Sink final : GradientSink {
  void on_bucket(size_t) override {}
};

// An abandoned gradient: its copies end before the memory that they go to is given back.
TEST(TeamWaits, AGradientThatIsGivenUpIsLetGo) {
  const Environment two("PERIGEE_SHIM_DEVICES", "2");
  for (const long nth : {2, 8, 14}) {
    Trainer trainer(lenet_job(), team_of(2));
    trainer.cut_gradient(size_t{1} << 12);
    std::vector<std::byte> gradient(trainer.shape().params().block_bytes());
    Sink sink;
    const auto sum = [&] { trainer.sum_gradient(trainer.next_batch(), {.to = gradient.data(), .add = {}, .sink = &sink}); };
    sum();
    const Fault fault("launch@1", nth);
    expect_parts(error_of(sum), {"cuda:1", "illegal memory access"});
  }
}

}  // namespace
}  // namespace perigee
