// A whole cluster in one thread: the real Coordinator and Workers on a simulated network, with disk, launcher and an operator who starts
// processes anew; faults as the scenario says; and an oracle that checks what must hold whatever happens.
#pragma once

#include <bitset>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/membership/coordinator.h"
#include "cluster/membership/worker.h"
#include "cluster/simulator/disk.h"
#include "cluster/simulator/fake_replica.h"
#include "cluster/simulator/inner_oracle.h"
#include "cluster/simulator/network/network.h"
#include "cluster/simulator/operator.h"
#include "cluster/simulator/result_oracle.h"
#include "cluster/simulator/scenario.h"

namespace perigee::sim {

class PartitionedData;

struct Outcome {
  std::string failure;  // empty: everything held
  uint64_t trace_hash = 0, events = 0, virtual_ns = 0;
  double longest_pause_ms = 0;  // between two committed rounds
  double ended_ms = 0;          // when the run was over
  LedgerAudit audit;
  std::map<std::string, int64_t> sites;  // what the run reached: faults that took hold, events of the protocol
  bool passed() const { return failure.empty(); }
};

struct SimulateOptions {
  bool trace = false;  // print what happens
};

Outcome simulate(const Scenario& scenario, const SimulateOptions& options = {});

class World final : public CoordinatorEvents {
 public:
  World(const Scenario& scenario, const SimulateOptions& options);
  ~World() override;
  Outcome run();

 private:
  struct WorkerNode;

  // ---- processes (world.cpp) ----
  void start_coordinator();
  void end_coordinator(bool power);
  int add_worker(bool wrong_data, bool server = false);
  void start_worker(int who);
  void hold_partitions(WorkerNode& node, WorkerOptions* options);
  void end_worker(int who, bool power, double back_after_ms);  // back_after_ms < 0: it stays away
  void worker_ended(int who, bool restart, double after_ms);
  void tell_death(const WorkerNode& node);
  bool over() const;
  std::string picture() const;
  std::string name_of(int process) const;

  // ---- faults (faults.cpp) ----
  void plan_faults();
  struct Struck;
  struct Strike {
    std::function<bool(const Struck&)> may;
    std::function<void(const Struck&)> go;
  };
  static const std::map<Fault::Kind, Strike>& strikes();
  void strike(const Fault& fault);
  void take_hold(const Struck& struck);
  bool may_leave(const WorkerNode& node) const;
  void kill_worker(const Struck& struck);
  void power_off_host(const Struck& struck);
  void kill_coordinator(const Struck& struck);
  void power_off_coordinator(const Struck& struck);
  void cut_power(const Struck& struck);
  void pause_process(int process, const Struck& struck);
  void partition_pair(const Struck& struck);
  void expect_given_up(const std::vector<uint64_t>& connections, uint64_t until_ns);
  void check_given_up(uint64_t connection, uint64_t notice_ns, uint64_t until_ns);
  void partition_half(const Struck& struck);
  void swallow(const Struck& struck);
  void flap(const Struck& struck);
  void compute_anew(const Struck& struck);
  void reset_all(const Struck& struck);
  void slow_link(const Struck& struck);
  void worsen_network(const Struck& struck);
  template <class T>
  void spoil(const Struck& struck, T ReplicaFaults::*fault, T value, std::optional<T> later = std::nullopt);
  void leave(const Struck& struck);
  void partition(int host, int other_host, bool out, bool in, double for_ms);
  void partition_from_all(int who, bool out, bool in, double for_ms);
  void start_intruder(double for_ms);
  void steer(const Fault& fault);

  // ---- the oracle (oracle.cpp) ----
  void fail(const std::string& what);
  Contents contents_of_ledger(int64_t up_to_round, LedgerAudit* audit = nullptr) const;
  void check_commit(int64_t round, int participants);
  void check_options(const WorkerNode& node, int64_t round);
  int struck_by(const Fault& fault) const;
  void check_merged(int64_t round, const std::vector<Arrival>& merged);
  void check_blame(const std::string& worker, const std::string& cause);
  void check_link(const std::string& worker, const std::string& cause);
  void check_mismatch(const std::string& worker);
  void hear(int from, std::span<const std::byte> frame);
  bool applies_wrongly() const;
  static bool is_wrong(const Contents& contents);  // half an example is in no right result
  Contents without_fault(Contents found) const;
  void check_voided(int64_t left);
  void check_restored();
  void check_silence();
  void check_contents(const std::string& whose, const Contents& found, const Contents& expected);
  void check_fragments(const std::string& whose, const Contents& found);
  void check_streams();
  void check_end();
  void check_all_have_ended();
  void reached(const std::string& site) { ++outcome_.sites[site]; }

  // ---- the launcher (world_launcher.cpp) ----
  void on_round(int64_t round, uint64_t generation, int64_t examples_done, int workers, const Figures& figures, int64_t examples) override;
  void on_epoch(uint64_t epoch) override;
  void on_evaluated(const std::string& part, const std::vector<std::string>& states) override;
  void on_image(uint64_t request, int64_t round, std::vector<std::byte> image) override;
  void on_event(const Json& event) override;
  void on_finished(int64_t round) override;
  void on_reopened() override;
  void on_failed(const Error& error) override;
  void keep_result();
  void stop_run();
  void end_launcher();
  void at_coordinator(double ms, std::function<void(Coordinator&)> what);

  bool served() const;
  void say(const std::string& text) const;
  uint64_t ns(double ms) const { return static_cast<uint64_t>(ms * 1e6); }
  uint64_t in(double ms) const { return network_.now_ns() + ns(ms); }

  Scenario scenario_;
  SimulateOptions options_;
  SeededRng rng_;
  Network network_;
  Disk disk_;
  struct Kept {
    int64_t round = -1;
    SharedBytes image;
  };
  Kept checkpoint_, result_;
  Outcome outcome_;

  int coordinator_process_ = -1;
  std::unique_ptr<Coordinator> coordinator_;
  int coordinator_starts_ = 0;
  int64_t told_round_ = -1;  // by this coordinator
  uint64_t round_ns_ = 0;    // when the last round was committed
  uint64_t server_ns_ = 0;   // when the server was started, until a round is committed
  uint64_t looked_ns_ = 0, stood_still_ns_ = 0;
  uint64_t told_generation_ = 0, last_generation_ = 0;
  bool at_border_ = false;  // on_epoch came and no release went
  bool finished_ = false, stopped_ = false;
  uint64_t result_request_ = 0;  // the image that is the run's result
  bool gave_up_ = false;         // no worker can compute anything finite, as intended
  uint64_t stopped_ns_ = 0, coordinator_started_ns_ = 0;
  bool launcher_gone_ = false;

  std::vector<std::unique_ptr<WorkerNode>> workers_;
  class Intruder;
  std::unique_ptr<TransportEvents> intruder_;
  int intruder_process_ = -1;
  std::unique_ptr<Operator> operator_;
  std::map<std::pair<uint64_t, int64_t>, std::string> set_options_;  // with which a round was applied, of a generation
  std::unique_ptr<PartitionedData> partitioned_;                     // null: each worker has all data
  Range poison_;
  std::map<std::pair<uint64_t, int64_t>, int> applied_;  // of a generation and a round: by how many workers
  std::set<std::pair<uint64_t, int64_t>> merged_;        // by a server since it was last restored: epoch and first position of ranges
  InnerOracle inner_;
  ResultOracle results_;
  bool goes_on_wrongly_ = false;            // with a wrong result, where nobody could tell
  std::map<std::string, uint64_t> struck_;  // workers that a fault named: until when it may show
  uint64_t cut_off_until_ns_ = 0;           // by what keeps workers from being heard
  uint64_t disturbed_until_ns_ = 0;         // the same, until all are connected again
};

}  // namespace perigee::sim
