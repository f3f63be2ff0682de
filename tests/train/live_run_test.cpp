// Runs on a thread of their own. What only a race would show is looked for by the thread sanitizer (run_tests.py, tsan).
#include "src/run/live_run.h"

#include <gtest/gtest.h>

#include <functional>

namespace perigee {
namespace {

Job live_job(int64_t epochs) {
  const std::string text = R"({"name": "live", "loss": "cross_entropy", "seed": 3, "epochs": )" + std::to_string(epochs) +
                           R"(, "network": {"type": "sequential", "layers": ["flatten", {"type": "dense", "out": 10, "name": "out"}]},
      "optimizer": {"type": "sgd", "lr": 0.1}, "data": {"train": {"type": "digits", "endless": false, "size": 320},
      "test": {"type": "digits", "part": "test", "endless": false, "size": 64}, "batch": 16}})";
  return Job(Json::parse(text, "test"), "test");
}

SessionOptions options() { return {.trainer = {.threads = 1}, .folder = false}; }

// Waits a minute at most: a run that hangs fails.
bool wait_for(LiveRun& run, const std::function<bool()>& until) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!until() && std::chrono::steady_clock::now() < end) run.wait_for_events(std::chrono::milliseconds(5), nullptr);
  return until();
}

std::vector<float> parameters(LiveRun& run) {
  std::vector<float> values;
  EXPECT_TRUE(run.between_steps(
      [&](Session& session) {
        const std::span<const float> all = session.trainer().model().params().values<float>();
        values.assign(all.begin(), all.end());
      },
      nullptr));
  return values;
}

TEST(LiveRun, EndsWithTheBitsOfARunThatNobodyWatches) {
  Trainer alone(live_job(4), {.threads = 1});
  const std::atomic<bool> never{false};
  EXPECT_TRUE(alone.run(never));
  std::atomic<int> woken{0};
  LiveRun run(live_job(4), options(), [&] { ++woken; });
  for (int i = 0; i < 20; ++i) {
    run.pause();
    const std::vector<float> before = parameters(run);
    if (!run.over() && run.progress().state == LiveRun::State::paused) {
      EXPECT_EQ(parameters(run), before);
    }
    run.resume();
  }
  ASSERT_TRUE(wait_for(run, [&] { return run.over(); }));
  EXPECT_EQ(run.progress().state, LiveRun::State::finished);
  EXPECT_EQ(run.progress().step, 80);
  const std::span<const float> expected = alone.model().params().values<float>();
  EXPECT_EQ(parameters(run), std::vector<float>(expected.begin(), expected.end()));
  EXPECT_GT(woken, 4);
  std::vector<std::string> events;
  for (const Json& event : run.take_events())
    if (const Json& kind = *event.find("event"); kind != Json("step") && kind != Json("paused") && kind != Json("resumed"))
      events.push_back(event.find("event")->as_string());
  EXPECT_EQ(events, (std::vector<std::string>{"start", "epoch", "epoch", "epoch", "epoch", "end", "over"}));
  EXPECT_TRUE(run.take_events().empty());
}

TEST(LiveRun, EndsWhateverItIsDoing) {
  {
    const LiveRun opening(live_job(1'000'000), options(), [] {});
  }
  {
    LiveRun training(live_job(1'000'000), options(), [] {});
    ASSERT_TRUE(wait_for(training, [&] { return training.progress().step > 3; }));
  }
  {
    LiveRun paused(live_job(1'000'000), options(), [] {});
    paused.pause();
    ASSERT_TRUE(wait_for(paused, [&] { return paused.progress().state == LiveRun::State::paused; }));
  }
  LiveRun stopped(live_job(1'000'000), options(), [] {});
  stopped.pause();
  ASSERT_TRUE(wait_for(stopped, [&] { return stopped.progress().state == LiveRun::State::paused; }));
  stopped.stop();
  ASSERT_TRUE(wait_for(stopped, [&] { return stopped.over(); }));
  EXPECT_EQ(stopped.progress().state, LiveRun::State::stopped);
  EXPECT_FALSE(parameters(stopped).empty()) << "what is over still answers";
}

TEST(LiveRun, WhatIsCancelledBeforeItBeganIsNotDone) {
  LiveRun run(live_job(1'000'000), options(), [] {});
  ASSERT_TRUE(wait_for(run, [&] { return run.progress().step > 0; }));
  const std::atomic<bool> cancel{true};
  int done = 0, told = 0;
  for (int i = 0; i < 20; ++i) told += run.between_steps([&](Session&) { ++done; }, &cancel);
  EXPECT_TRUE(run.between_steps([&](Session&) { ++done; }, nullptr));
  EXPECT_EQ(done, told + 1) << "and nothing later";
}

TEST(LiveRun, ErrorsComeToWhoAsked) {
  LiveRun run(live_job(1'000'000), options(), [] {});
  EXPECT_THROW(run.between_steps([](Session& session) { session.set_option("lr", Json("fast")); }, nullptr), Error);
  EXPECT_THROW(run.between_steps([](Session& session) { session.checkpoint(); }, nullptr), Error);
  EXPECT_TRUE(run.between_steps([](Session& session) { session.set_option("lr", Json(0.0)); }, nullptr));
  const std::vector<float> before = parameters(run);
  const int64_t step = run.progress().step;
  ASSERT_TRUE(wait_for(run, [&] { return run.progress().step > step + 2; }));
  EXPECT_EQ(parameters(run), before) << "at a rate of 0";
}

TEST(LiveRun, ThatCannotBeginSaysWhy) {
  Json json = live_job(1).json();
  json.set("loss", "no_such_loss");
  LiveRun run(Job(json, "test"), options(), [] {});
  ASSERT_TRUE(wait_for(run, [&] { return run.over(); }));
  EXPECT_EQ(run.progress().state, LiveRun::State::failed);
  EXPECT_NE(run.progress().error.find("no_such_loss"), std::string::npos) << run.progress().error;
  EXPECT_THROW(run.between_steps([](Session&) {}, nullptr), Error);
}

TEST(Run, OneProcessIsWatchedAndSteeredByTheInterface) {
  LiveRun live(live_job(1'000'000), options(), [] {});
  perigee::Run& run = live;
  EXPECT_FALSE(run.has_workers());
  ASSERT_TRUE(wait_for(live, [&] { return live.progress().step > 0; }));
  run.steer(Json(Json::Object{{"set", Json(Json::Object{{"option", "lr"}, {"value", 0.25}})}}), nullptr);
  run.steer(Json(Json::Object{{"pause", true}}), nullptr);
  ASSERT_TRUE(wait_for(live, [&] { return live.progress().state == LiveRun::State::paused; }));
  Json at = run.progress_report(nullptr);
  EXPECT_EQ(*at.find("state"), Json("paused"));
  EXPECT_GT(at.find("loss")->as_number(), 0);
  EXPECT_GT(at.find("progress")->as_number(), 0);
  EXPECT_FALSE(at.find("error"));
  run.steer(Json(Json::Object{{"pause", false}}), nullptr);
  const int64_t step = live.progress().step;
  ASSERT_TRUE(wait_for(live, [&] { return live.progress().step > step; }));
  EXPECT_EQ(run.progress_report(nullptr).find("learning_rate")->as_number(), 0.25);
  int done = 0;
  run.with_session(
      "test", [&](Session&) { ++done; }, nullptr);
  EXPECT_EQ(done, 1);
  for (const char* unknown : {"every", "kick", "paused"})
    EXPECT_THROW(run.steer(Json(Json::Object{{unknown, 1}}), nullptr), Error) << unknown;
  EXPECT_THROW(run.workers_report("test", nullptr), Error);
  const std::atomic<bool> cancel{true};
  for (int i = 0; i < 20; ++i) {  // until it comes before the end of a step
    try {
      run.with_session(
          "test", [](Session&) {}, &cancel);
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "interrupted");
    }
  }
  run.steer(Json(Json::Object{{"stop", true}}), nullptr);
  ASSERT_TRUE(wait_for(live, [&] { return live.over(); }));
  EXPECT_EQ(*run.progress_report(nullptr).find("state"), Json("stopped"));
}

TEST(Run, EventsWaitInOrderAndStepsAreLeftOutFirst) {
  RunEvents events;
  events.keep(Json(Json::Object{{"event", "start"}}));
  for (size_t i = 0; i < RunEvents::kMost + 5; ++i)
    events.keep(Json(Json::Object{{"event", i == 2 ? "epoch" : "step"}, {"step", static_cast<int64_t>(i)}}));
  const std::vector<Json> taken = events.take();
  EXPECT_TRUE(events.empty());
  ASSERT_EQ(taken.size(), RunEvents::kMost);
  EXPECT_EQ(*taken[0].find("event"), Json("start"));
  EXPECT_EQ(*taken[1].find("event"), Json("epoch"));
  EXPECT_EQ(taken[2].find("step")->as_int(), 7);
  EXPECT_EQ(taken.back().find("step")->as_int(), static_cast<int64_t>(RunEvents::kMost) + 4);
}

}  // namespace
}  // namespace perigee
