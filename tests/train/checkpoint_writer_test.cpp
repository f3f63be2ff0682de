// Checkpoints that are written beside the training: the newest and the best one are always there, whatever the disk's pace.
#include "src/run/checkpoint_writer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "src/io/file.h"
#include "src/run/checkpoint_hook.h"
#include "tests/io/temporary.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr double kSeconds = 60, kHour = 3600;

int64_t step_of(const std::string& file, const Job& job) {
  Trainer trainer(job, {.threads = 1});
  load_checkpoint(trainer, file);
  return trainer.position().step;
}

TEST(CheckpointSnapshot, GivesTheFileOfItsMoment) {
  const TemporaryFolder folder;
  for (const char* precision : {"float32", "float64"}) {
    Trainer trainer(noisy_job(R"(, "precision": ")" + std::string(precision) + "\""), {.threads = 1});
    CheckpointSnapshot snapshot;
    for (int i = 0; i < 3; ++i) {
      trainer.step();
      Json extra = Json::object();
      extra.set("i", i);
      save_checkpoint(trainer, folder / "now.safetensors", i == 1 ? Json() : extra);
      snapshot.take(trainer, i == 1 ? Json() : extra);
      trainer.step();
      snapshot.write(folder / "later.safetensors");
      EXPECT_EQ(as_text(read_file(folder / "now.safetensors")), as_text(read_file(folder / "later.safetensors"))) << precision << " " << i;
      EXPECT_EQ(snapshot.step(), 2 * i + 1);
    }
  }
}

TEST(CheckpointWriter, TheFirstTheNewestAndTheBestAreWritten) {
  const TemporaryFolder folder;
  const Job job = tiny_job();
  CheckpointFolder checkpoints(folder.path(), 100);
  Trainer trainer(job, {.threads = 1});
  CheckpointWriter writer(checkpoints, kHour);  // of rest, which finish() cuts short
  for (int i = 1; i <= 12; ++i) {               // faster than any disk
    trainer.step();
    writer.keep(trainer, {}, {.newest = true, .best = i == 2 || i == 5});
  }
  ASSERT_TRUE(writer.finish(kSeconds));
  const std::vector<std::string> files = checkpoints.files();
  ASSERT_GE(files.size(), 2u);
  EXPECT_NE(files.front().find("step-000000000012"), std::string::npos) << files.front();
  EXPECT_NE(files.back().find("step-000000000001"), std::string::npos) << "what an idle writer got is not given up";
  EXPECT_EQ(step_of(folder / "best.safetensors", job), 5) << "no newer one that is not the best takes its place";
  for (const CheckpointResult& result : writer.take_results()) EXPECT_EQ(result.problem, "");
  for (const auto& entry : fs::directory_iterator(folder.path()))
    EXPECT_TRUE(entry.path().extension() == ".safetensors") << entry.path() << " was left behind";
}

TEST(CheckpointWriter, WritesWhatWaitsWhenItEnds) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), 3);
  Trainer trainer(tiny_job(), {.threads = 1});
  {
    CheckpointWriter writer(checkpoints, kHour);
    for (int i = 0; i < 3; ++i) {
      trainer.step();
      writer.keep(trainer, {}, {.newest = true});
    }
  }
  ASSERT_FALSE(checkpoints.files().empty());
  EXPECT_NE(checkpoints.files()[0].find("step-000000000003"), std::string::npos);
}

// The share is of what the trainer computes, however many others the machine has to serve: here the trainer sleeps most of the time.
TEST(CheckpointWriter, TakesASmallShareOfWhatIsTrained) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), 3);
  Trainer trainer(tiny_job(), {.threads = 1});
  trainer.step();
  size_t files = 0;
  CheckpointWriter writer(checkpoints);
  for (int i = 0; i < 400; ++i) {
    writer.keep(trainer, {}, {.newest = true});
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
    files += writer.take_results().size();
  }
  EXPECT_GE(files, 1u);
  EXPECT_LE(files, 4u) << "ten a second would be 16";
  ASSERT_TRUE(writer.finish(kSeconds));
}

// A trainer that stands still, as it is paused, does not keep the last checkpoint from the disk.
TEST(CheckpointWriter, WritesWhatWaitsWhileNothingIsTrained) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), 3);
  Trainer trainer(tiny_job(), {.threads = 1});
  CheckpointWriter writer(checkpoints, 0.5);
  const auto keep = [&] { trainer.step(), writer.keep(trainer, {}, {.newest = true}); };
  size_t files = 0;
  const auto until = [&](size_t expected) {
    for (int i = 0; i < 600 && files < expected; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      files += writer.take_results().size();
    }
    return files;
  };
  keep(), keep();
  EXPECT_EQ(until(2), 2u);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  keep();
  EXPECT_EQ(until(3), 3u) << "one that comes after the rest";
}

TEST(CheckpointWriter, TellsWhatFailed) {
  const TemporaryFolder folder;
  write_file(folder / "file", as_bytes("no folder"));
  CheckpointFolder checkpoints(folder / "file", 3);
  Trainer trainer(tiny_job(), {.threads = 1});
  CheckpointWriter writer(checkpoints);
  trainer.step();
  writer.keep(trainer, {}, {.newest = true, .best = true});
  ASSERT_TRUE(writer.finish(kSeconds)) << "a failure is an end, too";
  const std::vector<CheckpointResult> results = writer.take_results();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_TRUE(results[0].best) << "the best one comes first: the newest remembers it";
  for (const CheckpointResult& result : results) EXPECT_NE(result.problem.find("file"), std::string::npos) << result.problem;
  EXPECT_TRUE(writer.take_results().empty());
}

// No disk is as fast as a trainer that does not wait at all.
TEST(CheckpointWriter, OfLargeNumbersTheOneBeforeIsWaitedFor) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder / "checkpoints", 3);
  Trainer trainer(tiny_job(), {.threads = 1});
  CheckpointWriter writer(checkpoints, 0, {.large_bytes = 1, .wait_s = 0});
  trainer.step();
  std::string told;
  for (int i = 0; i < 1000 && told.empty(); ++i) try {
      writer.keep(trainer, {}, {.newest = true});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::resources);
      told = error.what();
    }
  EXPECT_EQ(told, "checkpoint: the one before is not written after 0 s; use a faster disk, or fewer files");
  ASSERT_TRUE(writer.finish(kSeconds)) << "the one before is whole all the same";
  EXPECT_FALSE(checkpoints.files().empty());
}

TEST(CheckpointHook, ALongEpochHasACheckpointSoon) {
  const TemporaryFolder folder;
  const Json schedule = Json::object(), none = Json::parse(R"({"every_epochs": 0})", "schedule");
  // An hour and no time stand for "not yet" and "it is time", however slow the machine is.
  CheckpointHook later(Config(schedule, "schedule"), folder / "later", 3600), hook(Config(schedule, "schedule"), folder / "some", 0),
      silent(Config(none, "schedule"), folder / "none", 0);
  Trainer trainer(tiny_job(), {.threads = 1});
  const auto step = [&] {
    const StepReport report = trainer.step();
    for (CheckpointHook* each : {&later, &hook, &silent}) each->on_step(trainer, report), each->settle();
  };
  for (CheckpointHook* each : {&later, &hook, &silent}) each->on_start(trainer);
  step();
  EXPECT_TRUE(later.folder().files().empty()) << "not at once: short runs have one at their end";
  EXPECT_EQ(hook.folder().files().size(), 1u);
  step();
  EXPECT_EQ(hook.folder().files().size(), 1u) << "from then on the schedule alone counts";
  EXPECT_TRUE(silent.folder().files().empty()) << "a job that wants none on the way gets none";
}

// A copy that would wait for the writer costs the training its time: the checkpoint is of the step at which that one is free again.
TEST(CheckpointHook, WhatIsDueWhileTheWriterIsBusyIsTakenWhenItIsFree) {
  using Clock = std::chrono::steady_clock;
  const TemporaryFolder folder;
  const Json schedule = Json::parse(R"({"every_epochs": 0, "every_steps": 4})", "schedule");
  CheckpointHook hook(Config(schedule, "schedule"), folder.path(), kHour, 0);  // no size is cheap
  Trainer trainer(tiny_job(), {.threads = 1});
  hook.on_start(trainer);
  StepReport report;
  const auto began = Clock::now();
  for (int i = 0; i < 9; ++i) hook.on_step(trainer, report = trainer.step());
  const bool was_busy = Clock::now() - began < std::chrono::milliseconds(90);  // the least from one file to the next is 100
  const auto has = [&](const std::string& step) {
    const std::vector<std::string> files = hook.folder().files();
    return !files.empty() && files[0].find("step-00000000000" + step) != std::string::npos;
  };
  for (int i = 0; i < 600 && !has("9") && !has("8"); ++i) {
    for (const auto until = Clock::now() + std::chrono::milliseconds(50); Clock::now() < until;)
      continue;                     // the rest ends by what is computed
    hook.on_step(trainer, report);  // not due by itself
  }
  EXPECT_TRUE(has("9") || (!was_busy && has("8")));
  trainer.step();
  EXPECT_NE(hook.save(trainer).find("step-000000000010"), std::string::npos) << "whatever the writer does";
}

// Nothing comes after it at which it could be taken.
TEST(CheckpointHook, TheLastStepsIsTakenAtOnce) {
  const TemporaryFolder folder;
  const Json schedule = Json::parse(R"({"every_epochs": 0, "every_steps": 1})", "schedule");
  Trainer trainer(tiny_job(), {.threads = 1});
  {
    CheckpointHook hook(Config(schedule, "schedule"), folder.path(), kHour, 0);
    hook.on_start(trainer);
    while (!trainer.finished()) hook.on_step(trainer, trainer.step());
  }
  CheckpointFolder checkpoints(folder.path(), 3);
  ASSERT_FALSE(checkpoints.files().empty());
  EXPECT_EQ(step_of(checkpoints.files()[0], tiny_job()), trainer.position().step);
}

}  // namespace
}  // namespace perigee
