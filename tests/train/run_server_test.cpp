// A run and those who reach it by its folder. What only a race would show is looked for by the thread sanitizer (run_tests.py, tsan).
#include "src/run/run_server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "src/run/live_run.h"
#include "src/run/local_run.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

Job job_of(int64_t epochs) {
  const std::string text = R"({"name": "served", "loss": "cross_entropy", "seed": 3, "epochs": )" + std::to_string(epochs) +
                           R"(, "network": {"type": "sequential", "layers": ["flatten", {"type": "dense", "out": 10, "name": "out"}]},
      "optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.5}, "data": {"train": {"type": "digits", "endless": false, "size": 320},
      "test": {"type": "digits", "part": "test", "endless": false, "size": 64}, "batch": 16}})";
  return Job(Json::parse(text, "test"), "test");
}

class RunServerTest : public testing::Test {
 protected:
  RunServerTest() {
    char name[] = "/tmp/perigee-served-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~RunServerTest() override { fs::remove_all(folder_); }
  std::unique_ptr<LiveRun> start(int64_t epochs) {
    auto run = std::make_unique<LiveRun>(job_of(epochs), SessionOptions{.trainer = {.threads = 1}, .out = run_folder()}, [] {});
    EXPECT_TRUE(until([&] { return run->progress().step > 0 && fs::exists(run_folder() + "/control.sock"); }));
    return run;
  }
  // Longer than a socket's address is allowed to be.
  std::string run_folder() const { return (folder_ / std::string(120, 'r')).string(); }

  static bool until(const std::function<bool()>& holds) {
    for (int i = 0; i < 3000 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return holds();
  }
  fs::path folder_;
};

Json set_command(const char* option, const Json& value) {
  return Json(Json::Object{{"set", Json(Json::Object{{"option", option}, {"value", value}})}});
}

TEST_F(RunServerTest, AnotherProcessWatchesAndSteers) {
  const auto run = start(1'000'000);
  LocalRun seen(run_folder());
  EXPECT_EQ(*seen.progress_report(nullptr).find("state"), Json("training"));
  seen.steer(set_command("optimizer.momentum", Json(0.8)), nullptr);
  EXPECT_EQ(*seen.options_report(nullptr).find("optimizer.momentum")->find("value"), Json(0.8));
  EXPECT_TRUE(seen.evaluate("test", nullptr).find("accuracy"));
  const std::string model = (folder_ / "now.safetensors").string();
  seen.save(model, nullptr);
  EXPECT_TRUE(fs::exists(model));
  seen.steer(Json(Json::Object{{"pause", true}}), nullptr);
  EXPECT_TRUE(until([&] { return *seen.progress_report(nullptr).find("state") == Json("paused"); }));
  const Json step = *seen.progress_report(nullptr).find("step");
  seen.steer(Json(Json::Object{{"pause", false}}), nullptr);
  EXPECT_TRUE(until([&] { return *seen.progress_report(nullptr).find("step") != step; }));
  seen.steer(Json(Json::Object{{"stop", true}}), nullptr);
  std::vector<std::string> events;
  EXPECT_TRUE(until([&] {
    for (const Json& event : seen.take_events()) events.push_back(event.find("event")->as_string());
    return !events.empty() && events.back() == "over";
  }));
  for (const char* kind : {"start", "set", "paused", "resumed", "end"})
    EXPECT_EQ(std::count(events.begin(), events.end(), kind), 1) << kind;
  EXPECT_EQ(*seen.progress_report(nullptr).find("state"), Json("stopped"));
  EXPECT_TRUE(until([&] { return !fs::exists(run_folder() + "/control.sock"); }));
}

TEST_F(RunServerTest, ErrorsCrossTheSocket) {
  const auto run = start(1'000'000);
  LocalRun seen(run_folder());
  try {
    seen.steer(set_command("optimizer.momentun", Json(0.8)), nullptr);
    ADD_FAILURE() << "a name that is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_EQ(error.parts().hint, "did you mean 'optimizer.momentum'?");
  }
  EXPECT_THROW(seen.steer(Json(Json::Object{{"kick", 1}}), nullptr), Error);
  EXPECT_THROW(seen.evaluate("nothing", nullptr), Error);
  EXPECT_THROW(seen.with_session("run:predict", {}, nullptr), Error);
  EXPECT_EQ(*seen.progress_report(nullptr).find("state"), Json("training"));
}

TEST_F(RunServerTest, OnlyTheUserMayOpenTheSocket) {
  const auto run = start(1'000'000);
  struct stat status = {};
  ASSERT_EQ(::stat((run_folder() + "/control.sock").c_str(), &status), 0);
  EXPECT_TRUE(S_ISSOCK(status.st_mode));
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(RunServerTest, NonsenseEndsNothing) {
  const auto run = start(1'000'000);
  for (const char* line : {"", "7", "[]", "{\"ask\": \"progres\"}", "{\"steer\": {}}", "{\"steer\": 3}", "{\"steer\": {\"set\": 3}}",
                           "{\"steer\": {\"set\": {\"option\": 7}}}", "{\"ask\": \"progress\", \"save\": \"a\"}", "not JSON"}) {
    LineConnection connection(connect_in(run_folder()));
    ASSERT_TRUE(connection.send(line)) << line;
    const std::optional<std::string> answer = connection.receive(nullptr);
    ASSERT_TRUE(answer) << line;
    EXPECT_TRUE(Json::parse(*answer, "answer").find("error")) << line;
  }
  LineConnection flood(connect_in(run_folder()));
  flood.send(std::string(LineConnection::kLongest * 2, 'x'));
  EXPECT_FALSE(flood.receive(nullptr));
  std::vector<LineConnection> many;
  for (int i = 0; i < 3 * RunServer::kMostConnections; ++i) many.emplace_back(connect_in(run_folder()));
  many.clear();
  EXPECT_TRUE(until([&] {
    LineConnection again(connect_in(run_folder()));
    return again.send(R"({"ask": "progress"})") && again.receive(nullptr);
  }));
}

TEST_F(RunServerTest, SeveralAskAtOnce) {
  const auto run = start(1'000'000);
  std::vector<std::thread> threads;
  std::atomic<int> answered{0};
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      LocalRun seen(run_folder());
      for (int k = 0; k < 10; ++k) {
        seen.steer(set_command("optimizer.momentum", Json(0.1 * i)), nullptr);
        answered += seen.options_report(nullptr).find("optimizer.momentum") != nullptr;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, 80);
}

TEST_F(RunServerTest, AProcessThatIsGoneIsALostRun) {
  fs::create_directories(run_folder());
  std::ofstream(run_folder() + "/log.jsonl") << R"({"event": "start", "name": "x"})"
                                             << "\n"
                                             << R"({"event": "step", "step": 7, "loss": 0.5})"
                                             << "\n{";
  LocalRun seen(run_folder());
  const Json told = seen.progress_report(nullptr);
  EXPECT_EQ(*told.find("state"), Json("lost"));
  EXPECT_EQ(*told.find("step"), Json(7));
  EXPECT_NE(told.find("error")->as_string().find("perigee train --resume"), std::string::npos);
  EXPECT_THROW(seen.steer(Json(Json::Object{{"stop", true}}), nullptr), Error);
}

TEST_F(RunServerTest, ALineThatIsNotCompleteComesLater) {
  fs::create_directories(run_folder());
  const std::string file = run_folder() + "/log.jsonl";
  LogFollower log(run_folder());
  EXPECT_TRUE(log.more().empty());
  std::ofstream(file) << R"({"event": "a"})"
                      << "\n"
                      << R"({"eve)";
  EXPECT_EQ(log.more().size(), 1u);
  std::ofstream(file, std::ios::app) << R"(nt": "b"})"
                                     << "\nbroken\n";
  const std::vector<Json> more = log.more();
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(*more[0].find("event"), Json("b"));
}

}  // namespace
}  // namespace perigee
