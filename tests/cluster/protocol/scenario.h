// A small cluster in one thread with a virtual clock: one coordinator, some workers, and what a test wants to happen to them.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cluster/membership/coordinator.h"
#include "cluster/membership/worker.h"
#include "cluster/simulator/disk.h"
#include "cluster/simulator/fake_replica.h"
#include "cluster/simulator/network/network.h"

namespace perigee {

class Scenario : public CoordinatorEvents {
 public:
  static constexpr uint64_t kJob = 0x5eed;
  static constexpr const char* kCoordinatorAddress = "coordinator:1";

  struct Setup {
    int workers = 3;
    int64_t examples = 96, epochs = 2, batch = 4;
    std::string averaging = R"({"type": "allreduce"})";
    double example_ms = 0.5;
    int min_workers = 1, expected_workers = 0;
    uint64_t seed = 1;
    Range poison{};         // examples that no worker can compute
    bool evaluate = false;  // ask for an evaluation at each epoch's end
    int64_t max_rounds = 0;
    bool own_coordinator = true;  // else the test plays it, at kCoordinatorAddress
    int64_t shards = 1;
    bool steerable = false;
    std::string standby;
  };
  struct WorkerNode : WorkerEvents {
    int process = -1;
    std::string name;
    sim::ReplicaFaults faults;
    uint64_t fingerprint = 7;
    std::unique_ptr<sim::FakeReplica> replica;
    std::unique_ptr<Worker> worker;
    std::vector<std::string> events;
    int writable = 0;
    bool stopped = false, finished = false, failed = false;
    std::string error;
    void on_event(const Json& event) override { events.push_back(event.dump()); }
    void on_stopped(const std::string&, bool done) override { stopped = true, finished = done; }
    void on_failed(const Error& e) override { failed = true, error = e.what(); }
    void on_writable() override { ++writable; }
    bool over() const { return stopped || failed; }
  };

  explicit Scenario(Setup given);
  ~Scenario() override;

  // ---- what happens ----
  // `steering`: as the standby of the one before, which was told so.
  void start_coordinator(bool takes_over = false, const std::string& steering = "");
  void kill_coordinator(bool power = false);
  void pause_coordinator(double ms) {
    network_->pause(coordinator_process_);
    run_for(ms);
    network_->resume(coordinator_process_);
  }
  size_t add_worker(uint64_t fingerprint = 7);  // on a host of its own; its index
  void kill_worker(size_t index, bool power = false);
  void restart_worker(size_t index);  // a fresh process at the same address
  WorkerNode& worker(size_t index) { return *workers_[index]; }
  sim::Network& network() { return *network_; }
  Coordinator& coordinator() { return *coordinator_; }
  sim::Disk& disk() { return disk_; }

  void strike_at_random(sim::SeededRng& rng);
  void calm_down();  // everything that can come back does

  // ---- time passes ----
  bool run_until(const std::function<bool()>& condition, double limit_ms = 120'000);
  void run_for(double ms);
  bool run_to_round(int64_t round) {
    return run_until([=, this] { return coordinator_ && coordinator_->round() >= round; });
  }
  void print_events() const {
    for (const Json& event : events_) printf("%s\n", event.dump().c_str());
  }
  bool run_to_end() {
    return run_until([this] { return done_; });
  }
  bool step() { return network_->step(); }

  // ---- what must be so ----
  void check_sound();  // the run is over: exactly once, replicas equal, no complaints
  LedgerAudit ledger_audit();
  size_t count_events(const std::string& name) const;

  bool done_ = false, failed_ = false;
  std::string error_;
  std::vector<Json> events_;
  std::vector<uint64_t> epochs_;
  std::vector<std::string> evaluated_;
  std::vector<std::pair<int64_t, size_t>> images_;  // round, bytes
  std::vector<int> members_of_round_;
  std::vector<int64_t> examples_of_round_;
  std::vector<Asked> asked_;
  std::vector<std::string> complaints_;

  void on_round(int64_t round, uint64_t generation, int64_t examples_done, int workers, const Figures& figures, int64_t examples) override;
  void on_epoch(uint64_t epoch) override;
  void on_evaluated(const std::string& part, const std::vector<std::string>& states) override;
  void on_image(uint64_t request, int64_t round, std::vector<std::byte> image) override;
  void on_event(const Json& event) override { events_.push_back(event); }
  void on_finished(int64_t round) override;
  void on_reopened() override { done_ = false; }
  void on_failed(const Error& error) override { failed_ = true, error_ = error.what(); }
  std::string on_asked(Asked what) override { return asked_.push_back(what), what == Asked::stop ? "" : "no checkpoints here"; }

 private:
  void boot_worker(WorkerNode& node);

  Setup setup_;
  std::unique_ptr<sim::Network> network_;
  int coordinator_process_ = -1;
  sim::Disk disk_;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::unique_ptr<WorkerNode>> workers_;
  std::vector<std::unique_ptr<Coordinator>> dead_coordinators_;
  std::vector<std::pair<int, int>> blocked_;
};

}  // namespace perigee
