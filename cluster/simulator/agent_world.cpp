#include "cluster/simulator/agent_world.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "cluster/membership/agent.h"
#include "cluster/membership/agent_client.h"
#include "cluster/simulator/network/network.h"

namespace perigee::sim {
namespace {

constexpr uint64_t kAgentJob = 0xa9e7;
constexpr int kLauncherHost = 0;
constexpr uint32_t kRestarts = 3;
constexpr double kWindowS = 60;
constexpr int kCrash = 5, kBadData = 3, kTerminated = 143;  // exit codes

class AgentWorld final : public AgentClientEvents {
 public:
  AgentWorld(uint64_t seed, bool trace) : rng_(mix(seed, 0x6167656e74)), network_(seed), trace_(trace) {
    network_.set_quality({.latency_ms = rng_.between(0.05, 30), .jitter_ms = rng_.between(0, 20), .loss = rng_.chance(0.3) ? 0.03 : 0});
    launcher_ = network_.add_process(kLauncherHost, "launcher:1");
    const auto count = rng_.integer(1, 4);
    for (int i = 0; i < count; ++i) nodes_.push_back(std::make_unique<Node>(*this, i));
    workers_ = static_cast<uint32_t>(rng_.integer(1, 3));
    for (const auto& node : nodes_) node->boot();
    start_launcher();
    const double end_ms = rng_.between(4000, 15'000);
    SeededRng manner(mix(seed, 0x6d616e6e));
    const bool steadily = manner.chance(0.15);
    if (steadily || manner.chance(0.15)) {
      if (steadily) kill_steadily(manner);
      else restart_agents(manner);
      return;
    }
    for (int64_t i = rng_.integer(0, 8); i > 0; --i) at(rng_.between(100, end_ms), [this] { strike(); });
    at(end_ms, [this] { stop_job(); });
  }

  AgentOutcome run() {
    // The job's end, and as long as a worker may look for a coordinator that is gone, and what its agent then does.
    const uint64_t until = network_.now_ns() + 200'000 * kMs;
    bool over = false;
    network_.at(until, [&] { over = true; });
    while (!over && outcome_.passed() && network_.step()) {}
    check_end();
    outcome_.trace_hash = network_.trace_hash();
    return outcome_;
  }

 private:
  struct Child {
    WorkerProcess process;
    bool asked = false;  // to end
  };

  // A machine with an agent; its workers die with it.
  struct Node final : public Processes {
    Node(AgentWorld& w, int n) : world(w), number(n), host(n + 1), name("agent" + std::to_string(n)) {
      process = world.network_.add_process(host, name + ":1");
    }
    void boot() {
      agent = std::make_unique<Agent>(AgentOptions{.name = name, .slots = 4, .restarts = kRestarts, .window_s = kWindowS, .grace_ms = 2000},
                                      world.network_.clock(process), world.network_.rng(process), world.network_.transport(process), *this);
      world.network_.boot(process, agent.get());
      starts.clear();
      chances = 1;
      leaving = false;
    }
    void kill(bool power) {
      world.network_.kill(process, power);
      agent.reset();
      alive.clear();
    }
    uint32_t start(const WorkerProcess& what, std::string* error) override {
      if (broken) {
        *error = "no more processes";
        ++world.not_started_;
        return 0;
      }
      return world.on_start(*this, what);
    }
    void stop(uint32_t child, bool now) override {
      const auto found = alive.find(child);
      if (found == alive.end()) return world.fail(name + " stops a process that is not there");
      found->second.asked = true;
      if (now) end(child, 1, 0, 9);
      else if (!stubborn) end(child, world.rng_.between(5, 400), kTerminated, 0);
    }
    // The agent hears of it, unless it is dead by then; later if it is stopped.
    void end(uint32_t child, double ms, int code, int signal) {
      world.network_.post(process, static_cast<uint64_t>(ms * 1e6), [this, child, code, signal] {
        if (alive.erase(child) == 0) return;
        world.say(name + ": process " + std::to_string(child) + " ends with " + std::to_string(code) + ", signal " +
                  std::to_string(signal));
        agent->on_exited(child, code, signal, "said");
      });
    }

    AgentWorld& world;
    int number, host, process;
    std::string name;
    std::unique_ptr<Agent> agent;
    std::map<uint32_t, Child> alive;
    bool broken = false, stubborn = false, leaving = false;
    std::map<std::string, std::vector<uint64_t>> starts;  // of a worker's name, by this agent
    int chances = 1;                                      // requests for workers that this agent can have had
  };

  // Kills for a minute, each of a worker that has trained: none is given up.
  void kill_steadily(SeededRng& rng) {
    steady_ = true;
    double at_ms = 3000;
    for (; at_ms < 60'000; at_ms += rng.between(2000, 5000))
      at(at_ms, [this, which = rng.uniform()] {
        Node& node = *nodes_[static_cast<size_t>(which * static_cast<double>(nodes_.size()))];
        if (!node.alive.empty() && trained_.contains(node.alive.begin()->first)) node.end(node.alive.begin()->first, 0, 0, 9);
      });
    at(at_ms + 10'000, [this] { stop_job(); });
  }

  // One agent after the other, in any order and at any pace: asked to end, and started anew.
  void restart_agents(SeededRng& rng) {
    steady_ = true;
    double at_ms = 3000;
    for (int64_t i = rng.integer(2, 8); i > 0; --i, at_ms += rng.between(500, 6000)) {
      Node& node = *nodes_[static_cast<size_t>(rng.integer(0, static_cast<int64_t>(nodes_.size()) - 1))];
      at(at_ms, [this, &node] {
        if (!node.agent || node.leaving) return;
        say("FAULT restart of " + node.name);
        node.leaving = true;
        node.agent->stop();
        await_end(node);
      });
    }
    at(at_ms + 10'000, [this] { stop_job(); });
  }
  void await_end(Node& node) {
    if (!node.alive.empty()) return at(10, [this, &node] { await_end(node); });
    at(20, [this, &node] {  // its last words are on their way
      node.kill(false);
      at(rng_.between(10, 500), [&node] { node.boot(); });
    });
  }

  void train(const std::string& worker, uint32_t number, Node& node) {
    at(1000, [this, worker, number, &node] {
      if (!node.alive.contains(number) || !network_.alive(launcher_) || job_over_) return;
      client_->trained(worker);
      at(500, [this, number] { trained_.insert(number); });
      node.starts.erase(worker);
    });
  }

  uint32_t on_start(Node& node, const WorkerProcess& what) {
    size_t of_job = 0;
    for (const auto& [number, child] : node.alive) {
      of_job += child.process.job == what.job;
      if (child.process.name == what.name) fail(what.name + " runs twice");
    }
    if (of_job >= workers_) fail(node.name + " runs more workers than it was asked for");
    auto& starts = node.starts[what.name];
    const uint64_t now = network_.now_ns();
    std::erase_if(starts, [&](uint64_t at) { return now - at > static_cast<uint64_t>(kWindowS * 1e9); });
    starts.push_back(now);
    if (starts.size() > (kRestarts + 1) * static_cast<size_t>(node.chances)) fail(what.name + " is started again without end");
    const uint32_t number = ++numbers_;
    node.alive[number] = {.process = what};
    ++outcome_.sites[starts.size() > 1 ? "restarted" : "started"];
    say(node.name + " starts " + what.name + " as " + std::to_string(number));
    if (steady_) train(what.name, number, node);
    if (crashing_) node.end(number, rng_.between(1, 100), kCrash, 0);
    if (job_over_) leave(node, number);
    return number;
  }

  // A worker whose run is over hears it from its coordinator, or finds none for two minutes.
  void leave(Node& node, uint32_t number) {
    const bool hears = rng_.chance(0.5);
    node.end(number, hears ? rng_.between(1, 300) : 120'000, hears ? 0 : kCrash, 0);
  }

  // ---- the launcher ----

  void start_launcher() {
    AgentClientOptions o;
    for (const auto& node : nodes_) {
      o.agents.push_back(node->name + ":1");
      ++node->chances;
    }
    o.job_id = kAgentJob;
    o.start = {.version = PERIGEE_VERSION, .job_name = "job", .coordinator = "launcher:2", .key = "ab", .workers = workers_, .threads = 1};
    o.give_up_ms = 1e6;
    client_ = std::make_unique<AgentClient>(o, network_.clock(launcher_), network_.rng(launcher_), network_.transport(launcher_), *this);
    network_.boot(launcher_, client_.get());
    client_->start();
  }
  void on_agent_event(const Json& event) override {
    ++outcome_.sites[event.find("event")->as_string()];
    // It comes back with a new request, and a slot may be tried anew.
    for (const auto& node : nodes_)
      if (event.find("agent")->as_string() == node->name + ":1") ++node->chances;
    say("launcher: " + event.dump());
  }
  void on_workers_started(const std::string&, uint32_t workers) override {
    if (workers != workers_) fail("an agent says that it started " + std::to_string(workers) + " workers");
  }
  void on_process_end(const ProcessEnd& end) override {
    ++outcome_.sites[end.restarted ? "end_told_restarted" : "end_told"];
    say("launcher hears the end of " + end.worker);
    ++told_ends_;
    if (steady_ && !job_over_ && !end.restarted && end.signal == 9) fail(end.worker + " is given up although it had trained: " + end.next);
    if (told_ends_ > numbers_ + not_started_) fail("more ends are told than there were processes");
  }
  void on_none_left(const ProcessEnd&) override {
    ++outcome_.sites["none_left"];
    for (const auto& node : nodes_)
      if (!job_over_ && !node->alive.empty()) fail("no worker is said to be left while " + node->name + " has some");
  }
  void on_agents_failed(const Error& error) override {
    // An agent whose processes cannot be started, or whose workers of an earlier request still end, says so, and that ends the run.
    ++outcome_.sites["agents_failed"];
    if (steady_ && !job_over_) fail(std::string("the run is ended: ") + error.what());
    say(std::string("launcher: ") + error.what());
    at(1, [this] { stop_job(); });
  }

  void stop_job() {
    if (job_over_) return;
    say("the job is over");
    job_over_ = true;
    if (network_.alive(launcher_)) {
      client_->stop(true);
      at(2000, [this] { end_launcher(rng_.chance(0.3)); });
    }
    at(20'000, [this] {  // keepalive, which the network has not: a connection whose other end is gone without a word
      for (const auto& node : nodes_) network_.reset_connections(kLauncherHost, node->host);
    });
    for (const auto& node : nodes_)
      for (const auto& [number, child] : node->alive) leave(*node, number);
  }
  void end_launcher(bool power) {
    if (!network_.alive(launcher_)) return;
    network_.kill(launcher_, power);
    client_.reset();
  }

  // ---- faults ----

  void strike() {
    if (job_over_) return;
    Node& node = *nodes_[static_cast<size_t>(rng_.integer(0, static_cast<int64_t>(nodes_.size()) - 1))];
    const double for_ms = std::exp(rng_.between(std::log(50.0), std::log(12'000.0)));
    const auto fault = rng_.integer(0, 9);
    static constexpr const char* kFaults[] = {"worker_kill", "bad_data",      "crashes",       "agent_kill",   "agent_power",
                                              "agent_pause", "agent_cut_off", "launcher_kill", "no_processes", "stubborn"};
    ++outcome_.sites[kFaults[fault]];
    say(std::string("FAULT ") + kFaults[fault] + " " + node.name + " for " + std::to_string(static_cast<int64_t>(for_ms)) + " ms");
    switch (fault) {
      case 0:
      case 1:
        if (!node.alive.empty()) node.end(node.alive.begin()->first, 0, fault == 0 ? 0 : kBadData, fault == 0 ? 9 : 0);
        return;
      case 2:
        crashing_ = true;
        for (const auto& each : nodes_)
          for (const auto& [number, child] : each->alive) each->end(number, rng_.between(1, 100), kCrash, 0);
        return at(for_ms, [this] { crashing_ = false; });
      case 3:
      case 4:
        if (!node.agent) return;
        node.kill(fault == 4);
        return at(for_ms, [&node] {
          if (!node.agent) node.boot();
        });
      case 5: {
        const int process = node.process;
        network_.pause(process);
        return at(for_ms, [this, process] { network_.resume(process); });
      }
      case 6: {
        const bool out = rng_.chance(0.8), in = rng_.chance(0.8);
        if (out) network_.block(node.host, kLauncherHost);
        if (in) network_.block(kLauncherHost, node.host);
        return at(for_ms, [this, &node, out, in] {
          if (out) network_.unblock(node.host, kLauncherHost);
          if (in) network_.unblock(kLauncherHost, node.host);
        });
      }
      case 7:
        end_launcher(rng_.chance(0.3));
        return at(for_ms, [this] {
          if (!job_over_ && !client_) start_launcher();
        });
      case 8: node.broken = true; return at(for_ms, [&node] { node.broken = false; });
      default: node.stubborn = true; return;
    }
  }

  // No worker is left, and none waits to be started again, once every worker has had the time to notice.
  void check_end() {
    for (const auto& node : nodes_) {
      if (!node->agent) continue;
      if (!node->alive.empty())
        fail(node->name + " still has " + std::to_string(node->alive.size()) + " processes: " + node->agent->status().dump());
      if (node->agent->processes() != node->alive.size()) fail(node->name + " counts its processes wrongly");
      if (network_.running_timers(node->process) != 0) fail(node->name + " left a timer running: " + node->agent->status().dump());
    }
  }

  void at(double ms, std::function<void()> what) { network_.at(network_.now_ns() + static_cast<uint64_t>(ms * 1e6), std::move(what)); }
  void fail(const std::string& what) {
    say("FAILURE: " + what);
    if (outcome_.failure.empty()) outcome_.failure = what;
  }
  void say(const std::string& text) const {
    if (trace_) std::printf("%10.3f ms  %s\n", static_cast<double>(network_.now_ns()) * 1e-6 - 1000, text.c_str());
  }

  SeededRng rng_;
  Network network_;
  bool trace_;
  int launcher_ = -1;
  uint32_t workers_ = 1, numbers_ = 0;
  int64_t told_ends_ = 0, not_started_ = 0;
  bool crashing_ = false, job_over_ = false, steady_ = false;
  std::set<uint32_t> trained_;  // processes, as their agents know
  std::unique_ptr<AgentClient> client_;
  std::vector<std::unique_ptr<Node>> nodes_;
  AgentOutcome outcome_;
};

}  // namespace

AgentOutcome simulate_agents(uint64_t seed, bool trace) { return AgentWorld(seed, trace).run(); }

}  // namespace perigee::sim
