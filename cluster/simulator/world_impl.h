// The parts of World that its files share.
#pragma once

#include "cluster/simulator/partition_node.h"
#include "cluster/simulator/world.h"

namespace perigee::sim {

inline constexpr int kCoordinatorHost = 0;
inline constexpr uint64_t kJob = 0x5eed;
inline constexpr double kEndMs = 10'000;  // so long a launcher waits for workers to end

struct World::WorkerNode final : public WorkerEvents {
  WorkerNode(World& w, int n) : world(w), number(n) {}
  void on_event(const Json& event) override;
  void on_stopped(const std::string& why, bool finished) override;
  void on_failed(const Error& error) override;
  void on_joined() override { joined = true, known_to = world.coordinator_starts_; }
  void on_welcome(const Welcome& welcome) override {
    if (data) data->exchange().on_welcome(welcome, worker->job());
  }
  void on_holders(const Holders& holders) override {
    if (data) data->exchange().on_holders(holders);
  }
  void on_restored(int64_t, uint64_t) override { world.merged_.clear(); }
  void on_served(int64_t round, uint64_t, int64_t, int64_t, const std::vector<Arrival>& merged) override {
    world.check_merged(round, merged);
  }

  World& world;
  int number;
  int process = -1, host = 0;
  std::string name;
  bool wrong_data = false;
  bool computed_anew = false;  // its partitions' rows have another order, until it is refused
  std::vector<int> held;       // partitions
  int data_process = -1;       // where it serves its partitions, in this life
  std::unique_ptr<PartitionNode> data;
  bool server = false;                     // of a served policy: the first
  bool wanted = true;                      // it is started again when it ends
  bool finished = false;                   // it heard that the run is over
  bool joined = false;                     // in this life
  int known_to = 0;                        // the last coordinator that it joined
  uint64_t paused_ns = 0, resumed_ns = 0;  // its last pause
  uint64_t cut_off_until_ns = 0;           // from the coordinator
  int starts = 0;
  uint32_t pid() const { return static_cast<uint32_t>(1000 * (number + 1) + starts); }
  uint64_t life = 0;  // counts starts and ends: what was planned for an earlier life is not done
  ReplicaFaults faults;
  std::unique_ptr<FakeReplica> replica;
  std::unique_ptr<Worker> worker;
  std::optional<Contents> last;  // what it held when it was told that the run is over
  int64_t last_round = -1;
  uint64_t last_generation = 0;
};

}  // namespace perigee::sim
