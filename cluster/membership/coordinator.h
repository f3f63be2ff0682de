// The one who knows who takes part, who has which work, and what is committed. It never holds parameters, and no byte of an exchange
// passes through it. A state machine: it runs on libuv and in the simulator. Owned by the loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cluster/ledger/ledger.h"
#include "cluster/membership/lease_store.h"
#include "cluster/policy/policy.h"
#include "cluster/protocol/message.h"
#include "cluster/protocol/transport.h"
#include "cluster/replica/replica.h"
#include "src/core/trace.h"

namespace perigee {

// Who serves examples to workers (data.at = "coordinator"). Called on the loop thread; none may call back into the coordinator.
class ExampleService {
 public:
  virtual ~ExampleService() = default;
  // From a worker that has joined; `header` is that of the frame. False: the request is not allowed, and the worker is evicted.
  virtual bool on_read(PeerId peer, const FrameHeader& header, Read read) = 0;
  virtual void on_writable(PeerId peer) = 0;
  virtual void on_lost(PeerId peer) = 0;
};

struct CoordinatorOptions {
  uint64_t job_id = 0;  // random; in every frame
  std::string job;      // canonical JSON, for Welcome
  std::string folder;   // of the job's relative paths
  std::string tuning;
  Policy policy;
  int64_t examples = 0;         // of one epoch of the training data
  int64_t planned = 0;          // examples of the whole run; 0: endless
  int64_t max_rounds = 0;       // 0: by `planned` alone
  int64_t batch = 32;           // of one replica ...
  int64_t global_batch = 0;     // ... or, when > 0, of all together
  int64_t shards = 1;           // of the epoch's order, of which each worker has its own; not with rounds of gradients
  int64_t streams = 0;          // lanes of the order, on which each worker goes on with those of its shards; 0: there are none
  uint64_t fingerprint = 0;     // of the data as the launcher sees them; 0: the first worker's counts
  std::vector<DataPrint> data;  // what the fingerprint is made of
  std::string sources;          // what `example_service` serves, for Welcome; empty: workers read the data themselves
  ExampleService* example_service = nullptr;  // outlives the coordinator
  std::vector<HeldPartition> partitions;      // of those sources, what workers hold and serve to each other
  int threads = 0;                            // of each worker; 0: it decides
  bool steerable = false;                     // every connected client may steer (steer.h); else only watch
  bool recorded = false;                      // a served run that is to be trained again: its options stay the job's
  // The full name of an option that can be set; Error when it cannot, or not to that value, with `settings` as they are. And those that can,
  // with their values.
  std::function<std::string(const Json& settings, const std::string& option, const Json& value)> check_option;
  std::function<Json(const Json& settings)> list_options;
  bool trace = false;                      // workers send what their threads do -> on_trace
  int min_workers = 1;                     // the run waits until so many have joined, and again when fewer are left
  int expected_workers = 0;                // how many will come by themselves soon: it does not begin before they have joined ...
  double expect_ms = 30'000;               // ... but goes on without the others so long after the first
  double beat_ms = 500, silent_ms = 1600;  // a worker that has said nothing for so long is evicted
  double join_wait_ms = 200;               // workers that come within so long of each other join in one change of membership
  int64_t stuck_steps = 20;                // median steps without progress until a beating worker is replaced
  std::string address;                     // where workers find this coordinator
  std::string standby;                     // the agent whose standby may take over; empty: none
  std::string launch;                      // JSON: what that standby must know of this launcher
  LeaseStore* lease = nullptr;             // null: where there is a standby, the vote of workers; else no other can coordinate
  bool takes_over = false;  // this coordinator continues a run whose ledger it was given: workers are expected to come with results
  bool is_standby = false;  // it takes over from a coordinator that was not ended, and may be alive: at least half of the workers decide
  double take_over_ms = 0;  // for so long it waits for them; 0: for ever
  uint64_t generation = 0;  // the newest that the standby heard of
  std::vector<Membership> memberships;  // that may be in force, as far as the standby was told
  std::map<WorkerId, Named> who;        // their workers, for people
  std::string steering;                 // JSON: what was asked of the run before; empty: nothing
  std::string old_coordinator;          // where it was: it is told that it is one no more
  int64_t resume_round = -1;  // of the checkpoint that the run continues from; records above it become void unless a worker holds more
  SharedBytes resume_image;   // handed to the first worker when no worker holds a result
};

// How the last rounds went. -1: not known.
struct RoundView {
  int64_t every = 0;        // local steps until the next average, of the fastest worker; 0: by time, or gradients at each step
  double utilisation = -1;  // share of the workers' time that went into training
  double divergence = -1;   // of the replicas: mean |change| / |mean change|
  Norms norms;              // the mean of the workers
  int64_t outliers = 0;     // contributions left out so far because they were outlying
  Json to_json() const;
};

struct WorkerView {
  WorkerId id = 0;
  std::string name, host, state;  // "training", "healing", "joining", ...
  double examples_per_s = 0, share = 0, round_trip_ms = 0, silent_ms = 0;
  uint64_t bytes_up = 0, bytes_down = 0;
  int64_t staleness = 0, step = 0;
  std::string waits_for;
};

// For the timeline: what threads of a worker did, on its clock.
struct WorkerTrace {
  WorkerId id = 0;
  const std::string& name;
  int64_t offset_ns = 0;     // to be added to its times
  uint64_t error_ns = 0;     // as far as that may be wrong
  bool clock_moved = false;  // another offset than the last time
  uint64_t dropped = 0;      // spans, since the last time
  std::span<const PhaseSpan> spans;
};

// A steering client's requests to the launcher.
enum class Asked : uint8_t { checkpoint, stop };

// Events for the launcher. Called on the loop thread; none may call back into the coordinator, except request_*.
class CoordinatorEvents {
 public:
  virtual ~CoordinatorEvents() = default;
  // A round is committed: `figures` summed over the members.
  virtual void on_round(int64_t round, uint64_t generation, int64_t examples_done, int workers, const Figures& figures,
                        int64_t examples) = 0;
  virtual void on_epoch(
      uint64_t epoch) = 0;  // every position of it is counted or skipped, and the workers wait: request_evaluation, or release()
  virtual void on_evaluated(const std::string& part, const std::vector<std::string>& states) = 0;
  virtual void on_image(uint64_t request, int64_t round, std::vector<std::byte> image) = 0;  // empty: it could not be had
  // One line per fault with its root cause: {"event": "worker_lost", "worker": name, "host": ..., "cause": ..., "done": what was done about it},
  // "worker_joined", "quarantined", "skipped", "coordinator_recovered", ...
  virtual void on_event(const Json& event) = 0;
  virtual void on_finished(int64_t round) = 0;  // all is committed; workers wait for stop()
  // The last on_epoch or on_finished no longer holds: no live worker holds those rounds, and no newer set_resume was made.
  // Evaluations that were asked for since are forgotten; training goes on, and the same call will come again.
  virtual void on_reopened() = 0;
  virtual void on_failed(const Error& error) = 0;
  // Empty, or why it will not be done.
  virtual std::string on_asked(Asked) { return "there is no launcher that could do it"; }
  // Only with CoordinatorOptions::trace.
  virtual void on_trace(const WorkerTrace&) {}
  // "forming", "round" (with shares), "evaluation"; begin == end: "commit".
  virtual void on_span(const char* /*name*/, uint64_t /*begin_ns*/, uint64_t /*end_ns*/, const Json& /*args*/) {}
};

// A coordinator's end when another one, of a newer generation, has its workers. They are not told to stop.
inline constexpr const char* kSuperseded = "another coordinator has taken over this run";
Error superseded_by(uint64_t generation, const std::string& address, uint64_t own);
bool is_superseded(const Error& error);

struct CoordinatorCore;

class Coordinator final : public TransportEvents {
 public:
  Coordinator(CoordinatorOptions options, Clock& clock, Rng& rng, Transport& transport, LedgerStore& ledger, CoordinatorEvents& events);
  ~Coordinator() override;

  void start();  // reads the ledger
  // The workers evaluate `part`, each a slice of [0, examples); -> on_evaluated. Only between on_epoch (or on_finished) and release().
  void request_evaluation(const std::string& part, int64_t examples, bool whole = false);  // whole: by one worker
  void expect_workers(int count);                                                          // expected_workers, as far as it is known now
  void release();                                                                          // train on
  uint64_t request_image(const std::string& what);    // "checkpoint" or "model" -> on_image, of a committed round. 0: too many are due
  void set_resume(int64_t round, SharedBytes image);  // a newer checkpoint to continue from should every worker be lost
  void set_session(std::string json);                 // what a standby's launcher would want back of this one's
  void steer(const Json& command);                    // steer.h; Error(usage) when it cannot be, and nothing has changed then
  void describe(const std::string& key, Json value);  // a member of what status() says of the run, besides what is known here
  void stop(const std::string& why, bool finished);   // tells every worker; connections close

  void abandon();                                            // the workers follow another coordinator: ends without a word to them
  void note_death(const std::string& worker, uint32_t pid);  // an agent saw this process end

  // Workers that were sent away or cut off and may soon ask again: they would look long for one who is gone. By name.
  std::vector<std::string> expected_back() const;
  bool established() const;  // it has been granted the run; of a standby: it has taken over
  // Bytes of the requested image that have come, and its size in bytes.
  std::pair<uint64_t, uint64_t> image_progress() const;
  RoundView round_view() const;
  int64_t round() const;                                 // committed
  std::optional<uint64_t> hash_of(int64_t round) const;  // of the parameters after one of the last rounds
  uint64_t generation() const;
  int64_t examples_done() const;
  std::vector<WorkerView> workers() const;
  Json status() const;
  // Frames dropped and why: {"stale": n, "job": n, "malformed": n, "unexpected": n}.
  Json counters() const;

  void on_connected(PeerId peer, const std::string& address) override;
  void on_frame(PeerId peer, std::span<const std::byte> frame) override;
  void on_lost(PeerId peer, PeerLoss why) override;
  void on_timer(uint64_t timer) override;
  void on_bytes(PeerId peer) override;
  void on_writable(PeerId peer) override;

 private:
  std::unique_ptr<CoordinatorCore> core_;
};

}  // namespace perigee
