// Rows that carry state from batch to batch on GPUs: the bits of --device ref, also across epochs, from a checkpoint in the middle of the streams,
// and on two GPUs, each of which has half of the rows.
#include <gtest/gtest.h>

#include "src/model/steps/carried_rows.h"
#include "src/run/checkpoint.h"
#include "tests/core/refusal.h"
#include "tests/io/temporary.h"
#include "tests/train/lanes.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

constexpr int64_t kRows = 6, kWindow = 4;

class CarriedOnDevice : public testing::Test {
 protected:
  CarriedOnDevice() { write_lanes(folder_); }

  Job job(int64_t batch, const std::string& more = "{}") const {
    Json job = Json::parse(R"({"network": [{"type": "embedding", "size": 6, "out": 4}, {"type": "lstm", "units": 5, "state": "carry"},
        {"type": "gru", "units": 3, "state": "carry"}, {"type": "dense", "out": 6, "over": "steps"}], "loss": "cross_entropy", "epochs": 4, "seed": 3,
        "optimizer": {"type": "adam", "lr": 0.05}, "data": {"train": {"type": "text", "file": "text.txt", "targets": "every", "context": 4,
        "streams": 6}}})",
                           "job");
    job.find("data")->set("batch", batch);
    const Json other = Json::parse(more, "more");
    for (const auto& [key, value] : other.as_object()) job.set(key, value);
    return Job(job, "job", folder_.path());
  }

  static std::vector<std::byte> rows_of(Trainer& trainer) {
    std::vector<std::byte> all;
    for (size_t i = 0; i < trainer.carried()->specs().size(); ++i) {
      const std::span<std::byte> now = trainer.carried()->now(i);
      all.insert(all.end(), now.begin(), now.end());
    }
    return all;
  }

  static void expect_same(Trainer& device, Trainer& reference, int steps) {
    for (int step = 0; step < steps; ++step) {
      const double expected = reference.step().loss;
      ASSERT_NEAR(device.step().loss, expected, 1e-12 * expected) << step;
      if (step % 2 == 0) continue;
      ASSERT_EQ(rows_of(device), rows_of(reference)) << step;
    }
    EXPECT_EQ(bits_of(device), bits_of(reference));
  }

  TemporaryFolder folder_;
};

// An epoch has three steps.
TEST_F(CarriedOnDevice, HasTheBitsOfTheReference) {
  for (const char* more :
       {"{}", R"({"clip": {"type": "norm", "threshold": 0.05}})", R"({"precision": "float64"})", R"({"recompute": "all"})"}) {
    SCOPED_TRACE(more);
    Trainer device(job(kRows, more), {.backend = Backend::cuda});
    Trainer reference(job(kRows, more), {.threads = 1, .backend = Backend::ref, .sub_batch = 1000});
    expect_same(device, reference, 8);
    EXPECT_EQ(device.evaluate("train").dump(), reference.evaluate("train").dump());
    expect_same(device, reference, 2);
  }
}

TEST_F(CarriedOnDevice, ResumesInTheMiddleOfItsStreams) {
  Trainer whole(job(kRows), {.backend = Backend::cuda}), first(job(kRows), {.backend = Backend::cuda});
  Trainer again(job(kRows), {.backend = Backend::cuda});
  losses(whole, 8);
  losses(first, 5);
  save_checkpoint(first, folder_ / "at5.safetensors", {});
  load_checkpoint(again, folder_ / "at5.safetensors");
  EXPECT_EQ(rows_of(again), rows_of(first));
  losses(again, 3), losses(first, 3);
  EXPECT_EQ(bits_of(again), bits_of(whole));
  EXPECT_EQ(bits_of(first), bits_of(whole)) << "saving changes nothing";
}

TEST_F(CarriedOnDevice, HasTheBitsOfAsManyThreadsOnTwoDevices) {
  const Environment two("PERIGEE_SHIM_DEVICES", "2");
  Trainer team(job(kRows / 2, R"({"deterministic": true})"), {.backend = Backend::cuda, .devices = {0, 1}});
  Trainer threads(job(kRows), {.threads = 2, .backend = Backend::ref, .sub_batch = 1000});
  expect_same(team, threads, 8);
}

TEST_F(CarriedOnDevice, RefusesRowsThatAreUpdatedLazily) {
  Job lazy = job(kRows);
  lazy.set("network.1.rows", "lazy");
  EXPECT_HAS(refusal(ErrorKind::model, [&] { Trainer device(lazy, {.backend = Backend::cuda}); }),
             "are updated lazily by the threads of a host");
}

}  // namespace
}  // namespace perigee
