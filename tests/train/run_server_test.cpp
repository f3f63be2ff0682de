// A run that other processes reach by its folder. The thread sanitizer looks for what only a race would show (run_tests.py, tsan).
#include "src/run/run_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "src/run/live_run.h"
#include "src/run/local_run.h"
#include "tests/core/refusal.h"

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

std::vector<Json> events_of(LogFollower& log) {
  std::vector<Json> events;
  log.more([&](Json event) { events.push_back(std::move(event)); });
  return events;
}

constexpr const char* kAskProgress = R"({"ask": "progress"})";

bool is_answered(LineConnection& connection) {
  return connection.send(kAskProgress) && connection.receive(nullptr, std::chrono::seconds(5));
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
  EXPECT_HAS(refusal(ErrorKind::usage,
                     [&] {
                       seen.steer(Json(Json::Object{{"kick", 1}}), nullptr);
                     }),
             "run: one process cannot be told 'kick'; expected pause, stop, set or checkpoint");
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
  for (size_t i = 0; i < 3 * RunServer::kMostConnections; ++i) many.emplace_back(connect_in(run_folder()));
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

TEST_F(RunServerTest, SilentConnectionsMakeRoom) {
  const auto run = start(1'000'000);
  LocalRun first(run_folder());
  first.options_report(nullptr);
  std::vector<LineConnection> silent;
  for (size_t i = 1; i < RunServer::kMostConnections; ++i) {
    silent.emplace_back(connect_in(run_folder()));
    ASSERT_TRUE(is_answered(silent.back()));
  }
  LineConnection early(connect_in(run_folder()));
  EXPECT_FALSE(is_answered(early)) << "each of the others has asked just now";
  std::this_thread::sleep_for(RunServer::kSilent + std::chrono::milliseconds(200));
  LineConnection late(connect_in(run_folder()));
  EXPECT_TRUE(is_answered(late));
  EXPECT_TRUE(is_answered(silent.back()));
  EXPECT_TRUE(first.options_report(nullptr).is_object()) << "it made room, and connects again";
}

// Its answers fill what the socket holds, and the thread that writes them waits; the run's end does not wait for it.
TEST_F(RunServerTest, AClientThatReadsNothingDoesNotHoldTheEnd) {
  auto run = start(1'000'000);
  LineConnection client(connect_in(run_folder()));
  std::string many;
  for (int i = 0; i < 3000; ++i)
    many += R"({"ask":"options"})"
            "\n";
  ASSERT_TRUE(client.send(many));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const auto before = std::chrono::steady_clock::now();
  run.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(5));
}

TEST_F(RunServerTest, ALiveRunKeepsItsSocket) {
  const auto run = start(1'000'000);
  EXPECT_FALSE(listen_in(run_folder()));
  EXPECT_EQ(errno, EADDRINUSE);
  LineConnection connection(connect_in(run_folder()));
  EXPECT_TRUE(is_answered(connection));
}

// As one that is stopped by SIGSTOP: it is alive, and neither accepts nor answers.
TEST_F(RunServerTest, AProcessThatDoesNotAnswerHoldsNobody) {
  fs::create_directories(run_folder());
  std::ofstream(run_folder() + "/log.jsonl") << R"({"event": "step", "step": 7})"
                                             << "\n";
  const int log = ::open((run_folder() + "/log.jsonl").c_str(), O_RDONLY | O_CLOEXEC);
  lock_run(log);
  const SocketHandle listening = listen_in(run_folder());
  ASSERT_TRUE(listening);
  LocalRun seen(run_folder());
  EXPECT_EQ(*seen.progress_report(nullptr).find("step"), Json(7));
  std::vector<SocketHandle> waiting;
  for (int i = 0; i < 20; ++i) waiting.push_back(connect_in(run_folder()));
  EXPECT_FALSE(waiting.back());
  EXPECT_EQ(*seen.progress_report(nullptr).find("state"), Json("training"));
  ::close(log);
}

TEST_F(RunServerTest, ARunThatIsAskedAllTheTimeTrainsOn) {
  const auto run = start(1'000'000);
  std::atomic<bool> enough{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      const auto work = [](Session&) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
      while (!enough) run->between_steps(work, nullptr);
    });
  const int64_t before = run->progress().step;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (run->progress().step < before + 20 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_GE(run->progress().step, before + 20);
  enough = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(RunServerTest, ALongLogIsTakenInPartOverItsWholeLength) {
  fs::create_directories(run_folder());
  std::ofstream file(run_folder() + "/log.jsonl");
  constexpr int kSteps = 90000;
  file << "{\"event\":\"start\",\"name\":\"a\\u001b]0;b\\u0007c\"}\n";
  for (int i = 1; i <= kSteps; ++i) file << "{\"event\":\"step\",\"step\":" << i << "}\n";
  file << "{\"event\":\"end\"}\n" << std::flush;
  LocalRun seen(run_folder());
  const std::vector<Json> events = seen.take_events();
  EXPECT_LE(events.size(), 20000u);
  EXPECT_GE(events.size(), 5000u);
  EXPECT_EQ(*events[0].find("name"), Json("a]0;bc")) << "no control characters reach this terminal";
  EXPECT_LE(events[1].find("step")->as_int(), 16);
  EXPECT_GE(events[events.size() - 3].find("step")->as_int(), kSteps - 16);
  EXPECT_EQ(*events[events.size() - 2].find("event"), Json("end"));
  EXPECT_EQ(*events.back().find("state"), Json("finished"));
  EXPECT_EQ(*seen.progress_report(nullptr).find("step"), Json(kSteps));
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
  EXPECT_NE(told.find("error")->as_string().find("it has no checkpoint to go on from"), std::string::npos);
  EXPECT_THROW(seen.steer(Json(Json::Object{{"stop", true}}), nullptr), Error);
  fs::create_directories(run_folder() + "/checkpoints/step-000000007.safetensors");
  const Json saved = LocalRun(run_folder()).progress_report(nullptr);
  EXPECT_NE(saved.find("error")->as_string().find("perigee train --resume"), std::string::npos);
}

TEST_F(RunServerTest, ALineThatIsNotCompleteComesLater) {
  fs::create_directories(run_folder());
  const std::string file = run_folder() + "/log.jsonl";
  LogFollower log(run_folder());
  EXPECT_TRUE(events_of(log).empty());
  std::ofstream(file) << R"({"event": "a"})"
                      << "\n"
                      << R"({"eve)";
  EXPECT_EQ(events_of(log).size(), 1u);
  std::ofstream(file, std::ios::app) << R"(nt": "b"})"
                                     << "\nbroken\n";
  const std::vector<Json> more = events_of(log);
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(*more[0].find("event"), Json("b"));
}

}  // namespace
}  // namespace perigee
