// One worker's side of the protocol: joins, heals, trains what it is given, exchanges with the other workers, and survives the loss of any of
// them and of the coordinator. A state machine; the trainer behind `Replica` runs elsewhere. Owned by the loop thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/policy/policy.h"
#include "cluster/protocol/transport.h"
#include "cluster/replica/replica.h"
#include "cluster/rounds/server/desk.h"
#include "src/core/trace.h"

namespace perigee {

struct WorkerOptions {
  std::vector<std::string> coordinators;  // the first, then standbys; tried in turn
  std::string name;
  std::string host;     // as in Member
  std::string address;  // where other workers reach this one
  std::string site;     // as in Member
  uint64_t job_id = 0;  // 0: that of the first Welcome
  uint32_t threads = 1;
  uint32_t pid = 0;     // of this process, as its agent knows it
  bool server = false;  // with a served policy it holds the parameters and trains nothing
  std::string serves;   // where others can read the partitions of the data that this worker holds
  std::vector<HeldPartition> held;
  double beat_ms = 500, silent_ms = 1600;
  double retry_ms = 100, retry_max_ms = 2000;  // back-off between attempts to reach a coordinator, with jitter
  double give_up_ms = 120'000;                 // without any coordinator for so long: the end
  TraceRing* trace = nullptr;                  // turned on when the coordinator wants a timeline; outlives the worker
};

class WorkerEvents {
 public:
  virtual ~WorkerEvents() = default;
  virtual void on_event(const Json& event) = 0;                        // for the log: joined, reconnecting, healed, ...
  virtual void on_stopped(const std::string& why, bool finished) = 0;  // the coordinator's Stop
  virtual void on_failed(const Error& error) = 0;                      // refused, given up, the trainer failed
  // On a server: the parts of a record of the run (run_record.h). on_restored: it holds this result, whatever it made before.
  virtual void on_opening(const Welcome& /*welcome*/) {}
  virtual void on_restored(int64_t /*round*/, uint64_t /*hash*/) {}
  virtual void on_served(int64_t /*round*/, uint64_t /*hash*/, int64_t /*examples_after*/, int64_t /*workers*/,
                         const std::vector<Arrival>& /*merged*/) {}
  // Before the trainer opens the job, and again with each coordinator that it joins.
  virtual void on_welcome(const Welcome& /*welcome*/) {}
  virtual void on_holders(const Holders& /*holders*/) {}
  // data.at = "coordinator". From on_joined to on_coordinator_lost ask() may be called; what was asked before must be asked again.
  virtual void on_joined() {}
  virtual void on_coordinator_lost() {}
  virtual void on_writable() {}  // there is room again for what ask() refused
  // False: that is no answer to what was asked, and the connection is given up.
  virtual bool on_examples(const Examples& /*examples*/, std::span<const std::byte> /*body*/) { return true; }
};

struct WorkerCore;

class Worker final : public TransportEvents, public ReplicaEvents {
 public:
  Worker(WorkerOptions options, Clock& clock, Rng& rng, Transport& transport, Replica& replica, WorkerEvents& events);
  ~Worker() override;

  void start();
  void leave(const std::string& why);  // gracefully (SIGTERM): unfinished work goes back, then on_stopped
  uint64_t generation() const;
  uint64_t job() const;        // of the run; 0: not known yet
  bool ask(const Read& read);  // for examples -> on_examples; false: not now
  Json status() const;
  Json counters() const;

  void on_connected(PeerId peer, const std::string& address) override;
  void on_frame(PeerId peer, std::span<const std::byte> frame) override;
  Placement place(PeerId peer, std::span<const std::byte> head) override;
  void on_placed(PeerId peer, std::span<const std::byte> head, std::span<const std::byte> body) override;
  void on_lost(PeerId peer, PeerLoss why) override;
  void on_timer(uint64_t timer) override;
  void on_bytes(PeerId peer) override;
  void on_writable(PeerId peer) override;

  void on_opened(uint64_t fingerprint) override;
  void on_loaded(int64_t round, uint64_t hash) override;
  void on_bucket(int64_t round, uint32_t bucket) override;
  void on_parts_over(int64_t round) override;
  void on_contribution(const Contribution& contribution) override;
  void on_applied(int64_t round, uint64_t hash) override;
  void on_payload_refused(int64_t round, size_t payload) override;
  void on_served(int64_t round, uint64_t hash, SharedBytes reply, bool change) override;
  void on_taken(int64_t round, bool ok) override;
  void on_inner_applied(int64_t round, int64_t index, int refused) override;
  void on_snapshot(uint64_t request, int64_t round, uint64_t hash, SharedBytes image) override;
  void on_evaluated(uint64_t request, std::string state) override;
  void on_failed(const Error& error, bool for_all) override;

 private:
  std::unique_ptr<WorkerCore> core_;
};

}  // namespace perigee
