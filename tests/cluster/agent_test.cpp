// The agent as a state machine: fakes for time, network and processes.
#include "cluster/membership/agent.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "cluster/membership/agent_client.h"
#include "src/core/error.h"

namespace perigee {
namespace {

constexpr PeerId kLauncher = 7;
constexpr uint64_t kJob = 99;

struct FakeClock final : Clock {
  uint64_t now = 1'000'000'000;
  uint64_t now_ns() const override { return now; }
};
struct FakeRng final : Rng {
  uint64_t next() override { return 0; }
};

struct FakeTransport final : Transport {
  std::deque<std::pair<PeerId, std::vector<std::byte>>> sent;
  std::vector<PeerId> closed;
  std::map<uint64_t, uint64_t> timers;
  PeerId reached = 0;  // by connect()
  PeerId connect(const std::string&, uint64_t) override { return reached; }
  bool send(PeerId peer, std::span<const std::byte> head, std::span<const std::byte>) override {
    sent.emplace_back(peer, std::vector<std::byte>(head.begin(), head.end()));
    return true;
  }
  void close(PeerId peer) override { closed.push_back(peer); }
  void start_timer(uint64_t timer, uint64_t deadline) override { timers[timer] = deadline; }
  void stop_timer(uint64_t timer) override { timers.erase(timer); }
};

struct FakeProcesses final : Processes {
  uint32_t next = 100;
  std::string broken;  // why none can be started
  std::map<uint32_t, WorkerProcess> alive;
  std::vector<std::pair<uint32_t, bool>> stopped;
  std::vector<WorkerProcess> started;
  uint32_t start(const WorkerProcess& process, std::string* error) override {
    if (!broken.empty()) {
      *error = broken;
      return 0;
    }
    started.push_back(process);
    alive[++next] = process;
    return next;
  }
  void stop(uint32_t process, bool now) override { stopped.emplace_back(process, now); }
};

class AgentTest : public testing::Test {
 protected:
  void request(const std::vector<std::byte>& frame, PeerId peer = kLauncher) { agent.on_frame(peer, frame); }
  template <class M>
  void tell(const M& message, PeerId peer = kLauncher, uint64_t job = kJob) {
    request(encode(message, FrameHeader{.type = M::kType, .job = job}), peer);
  }
  void connect(PeerId peer = kLauncher) { agent.on_connected(peer, "there"); }
  Start start_message(uint32_t workers) {
    return {.version = PERIGEE_VERSION, .job_name = "lenet", .coordinator = "host:7700", .key = "ab", .workers = workers, .threads = 2};
  }
  // The next frame that was sent, which must be an M.
  template <class M>
  M heard(PeerId to = kLauncher) {
    M message;
    if (transport.sent.empty()) {
      ADD_FAILURE() << "nothing was sent";
      return message;
    }
    const auto [peer, frame] = transport.sent.front();
    transport.sent.pop_front();
    FrameHeader header;
    EXPECT_TRUE(read_header(frame, &header));
    EXPECT_EQ(header.type, M::kType);
    EXPECT_EQ(peer, to);
    EXPECT_TRUE(decode(std::span(frame).subspan(kHeaderBytes), &message));
    return message;
  }
  void exit(uint32_t process, int code, int signal, const std::string& tail = "") {
    processes.alive.erase(process);
    agent.on_exited(process, code, signal, tail);
  }
  // To the next deadline.
  void pass() {
    ASSERT_EQ(transport.timers.size(), 1u);
    clock.now = std::max(clock.now, transport.timers.begin()->second);
    const uint64_t timer = transport.timers.begin()->first;
    transport.timers.clear();
    agent.on_timer(timer);
  }
  Json job_status() { return agent.status().find("jobs")->as_array().at(0); }

  FakeClock clock;
  FakeRng rng;
  FakeTransport transport;
  FakeProcesses processes;
  Agent agent{{.name = "host", .slots = 4, .restarts = 3}, clock, rng, transport, processes};
};

TEST_F(AgentTest, StartsTheWorkersItIsAskedFor) {
  connect();
  tell(start_message(2));
  const Started answer = heard<Started>();
  EXPECT_EQ(answer.workers, 2u);
  EXPECT_EQ(answer.error, "");
  ASSERT_EQ(processes.started.size(), 2u);
  EXPECT_EQ(processes.started[0].name, "host/0");
  EXPECT_EQ(processes.started[1].name, "host/1");
  EXPECT_EQ(processes.started[0].coordinator, "host:7700");
  EXPECT_EQ(processes.started[0].threads, 2u);
  EXPECT_EQ(processes.started[0].slot, 0u);
  EXPECT_EQ(processes.started[1].slot, 1u);
  EXPECT_EQ(agent.processes(), 2u);
}

TEST_F(AgentTest, RefusesMoreThanItsSlotsAndAnotherVersion) {
  connect();
  tell(start_message(5));
  EXPECT_NE(heard<Started>().error.find("only 4 of the agent's 4 slots"), std::string::npos);
  Start other = start_message(1);
  other.version = "9.9";
  tell(other);
  const std::string error = heard<Started>().error;
  EXPECT_NE(error.find("9.9"), std::string::npos);
  EXPECT_NE(error.find(PERIGEE_VERSION), std::string::npos);
  EXPECT_NE(error.find("; install the same version on both"), std::string::npos);
  EXPECT_TRUE(processes.started.empty());
  tell(start_message(4));  // nothing of the refused requests is left behind
  EXPECT_EQ(heard<Started>().workers, 4u);
}

TEST_F(AgentTest, WhoReplacesAWorkerThatLostItsGpuFindsOutTheOp) {
  connect();
  tell(start_message(1));
  EXPECT_FALSE(processes.started.back().op_by_op);
  exit(processes.next, 7, 0, "cuda:0: the device is lost to this process; PERIGEE_CUDA_BLOCKING=1 runs op by op and names the one");
  pass();
  EXPECT_TRUE(processes.started.back().op_by_op);
  exit(processes.next, 0, 9, "cuda:0: something else");
  pass();
  EXPECT_EQ(processes.started.size(), 3u);
  EXPECT_FALSE(processes.started.back().op_by_op);
}

TEST_F(AgentTest, RestartsACrashedWorkerAfterAGrowingPause) {
  connect();
  tell(start_message(1));
  heard<Started>();
  uint64_t last_pause = 0;
  for (int crash = 0; crash < 3; ++crash) {
    const uint64_t before = clock.now;
    exit(processes.next, 0, 9, "out of memory");
    const Exited told = heard<Exited>();
    EXPECT_TRUE(told.respawned);
    EXPECT_EQ(told.signal, 9);
    EXPECT_EQ(told.tail, "out of memory");
    EXPECT_EQ(told.name, "host/0");
    EXPECT_TRUE(processes.alive.empty()) << "not at once";
    pass();
    EXPECT_EQ(processes.alive.size(), 1u);
    EXPECT_EQ(processes.started.back().slot, 0u) << "the GPUs of the one that was lost";
    EXPECT_GT(clock.now - before, last_pause);
    last_pause = clock.now - before;
  }
  exit(processes.next, 0, 9, "out of memory");
  EXPECT_FALSE(heard<Exited>().respawned) << "given up after `restarts` in the window";
  EXPECT_TRUE(transport.timers.empty());
  EXPECT_TRUE(transport.sent.empty()) << "one line for one fault";
  EXPECT_EQ(*agent.status().find("gave_up"), Json(1));
}

TEST_F(AgentTest, AWorkerThatHasTrainedIsNotGivenUp) {
  connect();
  tell(start_message(2));
  heard<Started>();
  const uint32_t other = 102;
  for (int crash = 0; crash < 12; ++crash) {
    exit(crash == 0 ? 101 : processes.next, 0, 9);
    const Exited told = heard<Exited>();
    ASSERT_TRUE(told.respawned) << crash;
    EXPECT_EQ(told.next, "it is started again") << "what came before it trained is forgotten";
    pass();
    tell(Started{.name = "host/0"});
  }
  tell(Started{.name = "host/1"}, 8);  // not its launcher, which connects first
  for (int crash = 0; crash < 3; ++crash) {
    exit(crash == 0 ? other : processes.next, 0, 9);
    tell(Started{.name = "host/0"});  // this is of another
    const Exited told = heard<Exited>();
    ASSERT_TRUE(told.respawned);
    EXPECT_EQ(told.next.find("2 failures in 60 s without training of at most 3") != std::string::npos, crash == 1) << told.next;
    pass();
  }
  exit(processes.next, 0, 9);
  const Exited last = heard<Exited>();
  EXPECT_FALSE(last.respawned);
  EXPECT_EQ(last.next, "it is not started again after 4 failures in 60 s without training; --restarts allows more");
}

TEST_F(AgentTest, IsDrainedByWhoHasTheSecret) {
  connect();
  tell(start_message(2));
  heard<Started>();
  connect(8);
  EXPECT_FALSE(agent.stopping());
  tell(Stop{.why = "drained", .finished = true}, 8, 0);
  EXPECT_TRUE(agent.stopping());
  ASSERT_EQ(processes.stopped.size(), 2u);
  EXPECT_FALSE(processes.stopped[0].second) << "asked, not killed";
  tell(start_message(1), 8, 5);
  EXPECT_EQ(heard<Started>(8).error, "the agent is ending");
}

TEST(Restarts, AreANumberInATime) {
  AgentOptions options;
  read_restarts("20/10m", "--restarts", &options);
  EXPECT_EQ(options.restarts, 20u);
  EXPECT_EQ(options.window_s, 600);
  read_restarts("0/1h", "--restarts", &options);
  EXPECT_EQ(options.restarts, 0u);
  EXPECT_EQ(options.window_s, 3600);
  read_restarts("7/45", "--restarts", &options);
  EXPECT_EQ(options.window_s, 45);
  for (const char* wrong : {"", "5", "/60s", "-1/60s", "5/", "5/0s", "5/60d", "5/nan", "5/1e9s", "2000000/60s", "5 /60s", " 5/60s"}) try {
      read_restarts(wrong, "--restarts", &options);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(error.what()).find("N/PERIOD"), std::string::npos);
    }
}

TEST_F(AgentTest, ForgetsCrashesOutsideTheWindow) {
  connect();
  tell(start_message(1));
  heard<Started>();
  for (int crash = 0; crash < 12; ++crash) {
    exit(processes.next, 1, 0);
    ASSERT_TRUE(heard<Exited>().respawned);
    pass();
    clock.now += 61'000'000'000;
  }
}

TEST_F(AgentTest, DoesNotRepeatWhatWouldFailAgain) {
  for (const int code : {0, 2, 3, 4, 6, 143}) {
    connect(static_cast<PeerId>(code + 10));
    tell(start_message(1), static_cast<PeerId>(code + 10), static_cast<uint64_t>(code + 1));
    EXPECT_EQ(heard<Started>(static_cast<PeerId>(code + 10)).workers, 1u);
    exit(processes.next, code, 0);
    EXPECT_FALSE(heard<Exited>(static_cast<PeerId>(code + 10)).respawned) << code;
  }
  EXPECT_TRUE(transport.timers.empty());
}

TEST_F(AgentTest, LeavesWorkersAloneWhenTheLauncherIsLost) {
  connect();
  tell(start_message(2));
  heard<Started>();
  agent.on_lost(kLauncher, PeerLoss::reset);
  EXPECT_TRUE(processes.stopped.empty());
  EXPECT_EQ(*job_status().find("launcher"), Json("lost"));
  exit(101, 0, 9);
  EXPECT_TRUE(transport.sent.empty());
  pass();
  EXPECT_EQ(processes.alive.size(), 2u) << "still restarted: the launcher may come back";
  clock.now += 6'000'000'000;
  exit(102, 5, 0);
  exit(103, 5, 0);
  EXPECT_TRUE(processes.alive.empty());
  EXPECT_EQ(agent.status().find("jobs")->as_array().size(), 0u) << "forgotten without launcher and workers";
}

TEST_F(AgentTest, ALauncherThatComesBackFindsItsWorkers) {
  connect();
  tell(start_message(2));
  heard<Started>();
  agent.on_lost(kLauncher, PeerLoss::closed);
  connect(8);
  tell(start_message(2), 8);
  EXPECT_EQ(heard<Started>(8).workers, 2u);
  EXPECT_EQ(processes.started.size(), 2u);
  EXPECT_TRUE(processes.stopped.empty());
  // Another process continues the run at another address: its workers must look there.
  Start moved = start_message(2);
  moved.coordinator = "other:1";
  tell(moved, 8);
  heard<Started>(8);
  EXPECT_EQ(processes.stopped.size(), 2u);
  exit(101, 0, 9);
  exit(102, 0, 9);
  pass();
  ASSERT_EQ(processes.started.size(), 4u);
  EXPECT_EQ(processes.started[3].coordinator, "other:1");
}

TEST_F(AgentTest, StopEndsTheJobKindlyThenFirmly) {
  connect();
  tell(start_message(2));
  heard<Started>();
  tell(Stop{.why = "finished", .finished = true});
  ASSERT_EQ(processes.stopped.size(), 2u);
  EXPECT_FALSE(processes.stopped[0].second);
  exit(101, 0, 15);
  EXPECT_FALSE(heard<Exited>().respawned);
  pass();
  ASSERT_EQ(processes.stopped.size(), 3u);
  EXPECT_EQ(processes.stopped[2], (std::pair<uint32_t, bool>(102, true)));
  exit(102, 0, 9);
  EXPECT_EQ(agent.status().find("jobs")->as_array().size(), 0u);
  EXPECT_TRUE(transport.timers.empty());
}

TEST_F(AgentTest, RefusesAJobWhoseWorkersAreStillEnding) {
  connect();
  tell(start_message(1));
  heard<Started>();
  tell(Stop{.why = "finished", .finished = true});
  tell(start_message(1));
  EXPECT_EQ(heard<Started>().error, "workers of this job are still ending; try again in a few seconds");
  exit(101, 0, 15);
  heard<Exited>();
  tell(start_message(1));  // as it was told to
  EXPECT_EQ(heard<Started>().error, "");
}

TEST_F(AgentTest, RefusesMoreJobsThanItKeepsAnEyeOn) {
  connect();
  Start standby = start_message(0);
  standby.works = false, standby.stands_by = true;
  for (uint64_t job = 1; job <= 64; ++job) {
    tell(standby, kLauncher, job);
    EXPECT_EQ(heard<Started>().error, "");
  }
  tell(standby, kLauncher, 65);
  EXPECT_EQ(heard<Started>().error, "the agent already has 64 jobs; end one of them, or ask another agent");
  tell(Stop{.why = "finished", .finished = true}, kLauncher, 64);
  exit(164, 0, 15);
  heard<Exited>();
  tell(standby, kLauncher, 65);
  EXPECT_EQ(heard<Started>().error, "");
}

TEST_F(AgentTest, EndsEverythingWhenItIsStopped) {
  connect();
  tell(start_message(2));
  heard<Started>();
  agent.stop();
  EXPECT_EQ(agent.processes(), 2u);
  exit(101, 143, 0);
  exit(102, 143, 0);
  EXPECT_EQ(agent.processes(), 0u);
  tell(start_message(1));
  heard<Exited>();
  heard<Exited>();
  EXPECT_NE(heard<Started>().error.find("ending"), std::string::npos);
}

TEST_F(AgentTest, TellsWhyNothingCouldBeStarted) {
  processes.broken = "no such file";
  connect();
  tell(start_message(2));
  EXPECT_EQ(heard<Started>().error, "no such file");
  EXPECT_EQ(agent.status().find("jobs")->as_array().size(), 0u);
}

TEST_F(AgentTest, DropsPeersThatTalkNonsense) {
  connect();
  std::vector<std::byte> frame = encode(start_message(1), FrameHeader{.type = MessageType::start, .job = kJob});
  frame.pop_back();
  request(frame);
  EXPECT_EQ(transport.closed, std::vector<PeerId>{kLauncher});
  tell(start_message(1));  // what was still on its way is not heeded
  EXPECT_TRUE(processes.started.empty());
  connect(8);
  tell(Status{.version = PERIGEE_VERSION}, 8);
  const Json report = Json::parse(heard<Report>(8).json, "report");
  EXPECT_EQ(*report.find("malformed"), Json(1));
  connect(9);
  tell(Commit{}, 9);
  EXPECT_EQ(transport.closed.back(), 9u);
  connect(10);
  std::vector<std::byte> future = encode(Status{.version = "9"}, FrameHeader{.type = MessageType::status, .protocol = 9});
  request(future, 10);
  const Refuse refuse = heard<Refuse>(10);
  EXPECT_EQ(refuse.got, "9");
  EXPECT_EQ(refuse.expected, "1");
}

// An agent speaks of its own processes: the ends of another's, or of the server that runs on the same host, it cannot tell.
TEST(AgentClientTest, AnAgentTellsTheEndsOfItsOwnProcessesOnly) {
  struct Heard final : AgentClientEvents {
    void on_agent_event(const Json&) override {}
    void on_workers_started(const std::string&, uint32_t) override {}
    void on_process_end(const ProcessEnd& end) override { ends.push_back(end); }
    void on_agents_failed(const Error&) override {}
    std::vector<ProcessEnd> ends;
  } heard;
  FakeTransport transport;
  transport.reached = kLauncher;
  FakeClock clock;
  FakeRng rng;
  AgentClient client({.agents = {"there:7700"}, .job_id = kJob}, clock, rng, transport, heard);
  client.start();
  client.on_connected(kLauncher, "there");
  const auto tell = [&](const auto& message) {
    client.on_frame(kLauncher, encode(message, FrameHeader{.type = message.kType, .job = kJob}));
  };
  tell(Started{.name = "host", .workers = 2});
  for (const char* name : {"host2/0", "other/0", "host/server/0", "host", ""}) tell(Exited{.name = name, .pid = 5, .signal = 9});
  EXPECT_TRUE(heard.ends.empty());
  EXPECT_EQ(client.workers(), 2u);
  tell(Exited{.name = "host/1", .pid = 6, .signal = 9});
  ASSERT_EQ(heard.ends.size(), 1u);
  EXPECT_EQ(heard.ends[0].worker, "host/1");
  EXPECT_EQ(heard.ends[0].pid, 6u);
  EXPECT_EQ(client.workers(), 1u);
}

}  // namespace
}  // namespace perigee
