// A worker's side of a protocol of rounds. Worker knows members, links and images; what it trains, exchanges and applies, and when, is
// the business of the protocol that the policy chose: synchronous steps (steps/), local-SGD rounds (local/), a parameter server (server/).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/exchange/exchange.h"
#include "cluster/protocol/message.h"
#include "cluster/protocol/route.h"
#include "cluster/protocol/transport.h"
#include "cluster/replica/replica.h"
#include "src/core/trace.h"

namespace perigee {

struct WorkerCore;

// A worker's state of the open round, whichever protocol makes it.
struct OpenRound {
  explicit OpenRound(ExchangeSender send) : exchange(std::move(send)) {}

  Exchange exchange;
  std::optional<TrainOrder> training;  // asked of the replica and not answered
  std::optional<Contribution> staged;  // answered and in no result yet
  bool staged_gradient = false;
  bool ready_sent = false;
  bool applying = false;  // asked of the replica and not answered
  LogEntry applying_entry;
  bool paused = false;        // until the coordinator says that evaluation is over
  int64_t examples_done = 0;  // committed by all, as far as this worker was told
  int64_t local_base = -1;    // the result that the local work started from
  uint64_t trained_ns = 0, staged_ns = 0, exchanged_ns = 0, apply_ns = 0, progress_ns = 0;
  uint64_t progress_bytes = 0;
};

// The local work of a round in several parts: their sum. Partials and payload stay those of `work`.
void add_work(const Contribution& part, Contribution* work);

class WorkerRounds {
 public:
  explicit WorkerRounds(WorkerCore& core);
  virtual ~WorkerRounds() = default;

  // ---- the generation ----
  virtual void on_propose() {}        // it forms: every protocol of the worker hears it
  virtual void on_start_epoch() = 0;  // it goes on from the result held
  virtual void on_loaded() {}         // an image is the result held
  virtual void resume() = 0;          // ... in the midst of a generation
  void drop();                        // gives up what there is of local work
  // Ends what is going on. Local work is kept if `keep`: it is still good on a later result; a gradient is not.
  virtual void stop(bool keep) = 0;
  virtual void keep_work() {}                                 // a later result is about to be loaded under the local work
  virtual bool settles(const CatchUp&) { return false; }      // true: it does what that asks for by itself
  virtual bool busy() const { return round_.applying; }       // the result held is about to change: Acknowledge waits
  virtual std::vector<Range> pending() const { return {}; }   // local work that is in no result
  virtual int64_t kept_from() const { return 0; }             // served rounds: as in Acknowledge
  virtual std::vector<RedoRound> made() const { return {}; }  // by a server, and the coordinator may not know what of
  virtual std::vector<WorkerId> take_broken() { return {}; }  // the group whose exchange the last change of membership broke off

  // ---- frames ----
  virtual Received on_coordinator_frame(const FrameHeader&, std::span<const std::byte>) { return Received::unknown; }
  virtual Received on_worker_frame(PeerId, const FrameHeader&, std::span<const std::byte>) { return Received::unknown; }
  // The exchange that a chunk belongs to, and its number there; null: this protocol has none such.
  virtual Exchange* exchange_of(const FrameHeader& header, const Chunk& chunk, int64_t* number);
  virtual void after_exchange(const Exchange& /*exchange*/) {}  // it got on: it may have come to its end
  virtual void on_writable(WorkerId /*peer*/) {}                // 0: another connection than a member's
  virtual void on_commit() {}

  // ---- the replica's answers ----
  virtual void on_contribution(const TrainOrder& order, const Contribution& contribution, double worked_s) = 0;
  virtual void on_bucket(int64_t /*round*/, uint32_t /*bucket*/) {}
  virtual void on_parts_over(int64_t /*round*/) {}
  virtual void on_applied(int64_t /*round*/, uint64_t /*hash*/) {}
  virtual void on_payload_refused(int64_t round, size_t payload) = 0;
  virtual void on_served(int64_t /*round*/, uint64_t /*hash*/, const SharedBytes& /*reply*/, bool /*change*/) {}
  virtual void on_taken(int64_t /*round*/, bool /*ok*/) {}
  virtual void on_inner_applied(int64_t /*round*/, int64_t /*index*/, int /*refused*/) {}

  // ---- time ----
  void go_on();  // begins what can be begun
  virtual void check_deadlines(uint64_t /*now*/) {}
  virtual void tick(uint64_t /*now*/) {}
  std::string waits_for() const;  // of a worker that runs; empty: nothing

 protected:
  enum class Fence { none };  // of a protocol's messages: the frames are of this generation, and the handler looks at the state

  virtual bool may_train() const { return !round_.staged && !round_.exchange.active(); }
  virtual void train() = 0;
  void begin(TrainOrder order);
  void send_ready();
  virtual bool has_work() const { return round_.training || round_.staged; }
  virtual void forget_work() {}
  virtual const Exchange& open_exchange() const { return round_.exchange; }
  virtual std::string awaits() const { return ""; }  // what comes before all else in waits_for()
  virtual bool applies() const { return round_.applying; }
  virtual bool computes() const { return round_.training.has_value(); }

  int64_t held() const;
  void reset_exchange();

  WorkerCore& w_;
  OpenRound& round_;
};

// Rounds that all members make together: an exchange, whose sum each applies by itself.
class ExchangedRounds : public WorkerRounds {
 public:
  using WorkerRounds::WorkerRounds;

  void on_writable(WorkerId peer) override;
  void on_commit() override { try_apply(); }
  void on_applied(int64_t round, uint64_t hash) override;
  void after_exchange(const Exchange& exchange) override;
  void check_deadlines(uint64_t now) override;

 protected:
  virtual void expect() { round_.exchange.expect(held() + 1); }  // the exchange of the next round
  void try_apply();                                              // what has been exchanged
  virtual bool may_apply() const { return true; }
  virtual ApplyOrder result() = 0;                                         // of the exchange; its ranges go into applying_entry
  virtual bool still_trains(WorkerId, uint64_t /*now*/) { return false; }  // a member that the exchange waits for: it makes its steps first
  virtual void on_held(Done*) {}                                           // it is the result held, and that is what will be told of it
  virtual void add_times(Figures* figures, uint64_t now) = 0;
  virtual bool waits_after(int64_t round) = 0;  // for an evaluation, or for good
  virtual std::string open_name() const;
  double spent(TracePhase phase, uint64_t from, uint64_t to, int64_t count);
};

// The protocols of one worker. Which of them makes the rounds follows from the policy and from StartEpoch.
class WorkerProtocols {
 public:
  explicit WorkerProtocols(WorkerCore& core);
  ~WorkerProtocols();

  WorkerRounds& first() const;  // of the policy, before any StartEpoch
  WorkerRounds& of(const StartEpoch& start) const;
  std::span<const std::unique_ptr<WorkerRounds>> all() const { return all_; }

 private:
  enum Kind : size_t { kSteps, kLocal, kServer, kKinds };
  WorkerCore& core_;
  std::vector<std::unique_ptr<WorkerRounds>> all_;
};

}  // namespace perigee
