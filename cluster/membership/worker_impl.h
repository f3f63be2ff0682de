// The parts of Worker that its files share. worker.cpp: the session with a coordinator. worker_forming.cpp: changes of membership,
// healing, images. worker_rounds.cpp: training, exchange, apply. worker_partial.cpp: rounds of fragments, training while a round is on its
// way. worker_served.cpp: rounds that a server makes.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/exchange/exchange.h"
#include "cluster/ledger/fixed_plan.h"
#include "cluster/membership/links.h"
#include "cluster/membership/worker.h"
#include "cluster/protocol/images.h"
#include "cluster/rounds/server.h"
#include "src/core/json.h"

namespace perigee {

struct Worker::Impl {
  enum class State { idle, connecting, joining, opening, ready, forming, running, stopped };
  enum Timer : uint64_t { kTick = 1, kRetry = 2 };

  Impl(WorkerOptions options, Clock& clock, Rng& rng, Transport& transport, Replica& replica, WorkerEvents& events);

  // ---- session (worker.cpp) ----
  void start();
  void connect();
  void lose_coordinator(const std::string& why);
  void schedule_retry();
  void on_coordinator_frame(const FrameHeader& header, std::span<const std::byte> payload);
  void on_welcome(const FrameHeader& header, const Welcome& welcome);
  void on_refuse(const Refuse& refuse);
  void on_coordinators(const Coordinators& where);
  void bear_witness();
  void beat();
  void mark(TracePhase phase);
  void send_trace();
  void tick();
  void check_deadlines(uint64_t now);
  void fail(const Error& error, bool for_all);
  void leave(const std::string& why);
  void end();  // closes everything
  std::string waits_for() const;
  void event(const char* name, Json details);
  FrameHeader header(int64_t round) const { return {.job = job, .generation = generation, .round = round}; }
  template <class M>
  void tell(const M& message, int64_t round) {
    if (coordinator != 0) transport.send(coordinator, encode(message, header(round)));
  }
  bool connected() const { return coordinator != 0 && state != State::connecting; }
  uint64_t ns(double ms) const { return static_cast<uint64_t>(ms * 1e6); }

  // ---- other workers (worker_forming.cpp) ----
  void on_form(const FrameHeader& header, Form form);
  void send_formed();
  void on_heal(const Heal& heal);
  void fetch_if_possible();
  void on_worker_frame(PeerId peer, const FrameHeader& header, std::span<const std::byte> payload);
  void on_fetch(PeerId peer, const Fetch& fetch);
  void on_image(PeerId peer, Image& image, std::span<const std::byte> body);
  void load(int64_t round, uint64_t hash, SharedBytes image, std::vector<LogEntry> log, bool keep_local);
  void on_loaded(int64_t round, uint64_t hash);
  void request_snapshot(bool with_optimizer, PeerId peer, uint64_t request);
  void on_snapshot(uint64_t request, int64_t round, uint64_t hash, const SharedBytes& image);
  void lose_link(WorkerId id, const std::string& why, bool at_fault = false);
  void link_ready(WorkerId id);

  // ---- inner exchanges (worker_inner.cpp) ----
  int64_t inner_number() const;  // of the next one, counted over all rounds
  void stop_inner();
  void reset_inner();
  void expect_inner();
  std::vector<int> group_now() const;
  void train_part();
  void on_part(const TrainOrder& order, const Contribution& part);
  void carry_on();
  void start_inner();
  void after_inner();
  void on_inner_applied(int64_t round, int64_t index, int refused);
  std::vector<WorkerId> broken_group() const;

  // ---- rounds (worker_rounds.cpp) ----
  void on_go(const FrameHeader& header, Go go);
  void train_standing();
  void train_local();
  void on_lease(Lease lease);
  void on_bucket(int64_t round, uint32_t bucket);
  void on_contribution(const Contribution& contribution);
  void prepare_standing();
  // ---- standing rounds with a codec (worker_coded_steps.cpp) ----
  bool coded_steps() const { return policy.coded_steps() && replica.layout().coded > 0; }
  bool in_passes() const { return replica.layout().passes > 1; }
  int64_t planned_examples(size_t at) const;
  void give_payloads(Exchange::Setup* setup) const;
  std::vector<Payload> step_payloads() const;
  void blame_step_payload(int64_t round, size_t payload);
  void ask_for_part();
  void on_part(int64_t round, uint32_t bucket);
  void start_bucket(uint32_t bucket);
  void send_ready();
  void on_begin(const FrameHeader& header, Begin begin);
  void after_exchange();
  void try_apply();
  void on_applied(int64_t round, uint64_t hash);
  void on_payload_refused(int64_t round, size_t payload);
  void on_commit(const FrameHeader& header, const Commit& commit);
  void on_evaluate(const Evaluate& order);
  void go_on();
  void on_chunk(PeerId peer, const FrameHeader& header, std::span<const std::byte> payload);
  void on_chunk(PeerId peer, const FrameHeader& header, const Chunk* chunk, std::span<const std::byte> body);
  Placement place_chunk(PeerId peer, const FrameHeader& header, const Chunk& chunk);
  Exchange* exchange_of(const FrameHeader& header, const Chunk& chunk, int64_t* number);
  bool send_chunk(WorkerId to, int64_t round, const Chunk& chunk, std::span<const std::byte> body);
  double note_rate(const Contribution& contribution);
  bool expects_chunks(const FrameHeader& header, WorkerId from) const;
  void stop_work(bool keep_contribution);
  void restore_contribution();
  void drop_work();
  void forget_log(int64_t synced);
  std::vector<Range> pending() const;

  // ---- fragments and overlap (worker_partial.cpp) ----
  bool may_overlap() const;
  void stage_only();
  void join_staged();
  void take_carried();
  bool got_work();
  void check_apply(uint64_t now);
  void set_up_fragments(Exchange::Setup* setup, bool last) const;
  size_t bucket_limit() const;
  bool waits_for_result() const { return training && training->overlapped && staged; }
  // ---- served rounds (worker_served.cpp) ----
  bool is_server() const { return work.server != 0 && work.server == id; }
  size_t trainers() const;
  void stop_served();
  void go_on_served();
  void push_contribution();
  void ask_server(Push push, SharedBytes body = nullptr);
  void try_push();
  bool on_pulled(PeerId peer, const Pulled& pulled);
  bool on_values(PeerId peer, Image& image, std::span<const std::byte> body);
  void settle_pushed(const Heal& heal);
  void on_taken(int64_t round, bool ok);
  bool on_push(PeerId peer, const FrameHeader& header, Push push);
  bool on_pushed_bytes(PeerId peer, Image& image, std::span<const std::byte> body);
  void serve_next();
  void merge();
  void on_served(int64_t round, uint64_t hash, const SharedBytes& reply, bool change);
  void report_served(const std::vector<Arrival>& merged, uint64_t hash, const SharedBytes& reply, bool change);
  void answer(const Arrival& arrival, const SharedBytes& bytes, bool counted, bool change);
  bool on_served_image(PeerId peer, const FrameHeader& header, Image& image, std::span<const std::byte> body);
  void check_served(uint64_t now);

  WorkerOptions options;
  Clock& clock;
  Rng& rng;
  Transport& transport;
  Replica& replica;
  WorkerEvents& events;

  // Session.
  State state = State::idle;
  PeerId coordinator = 0;
  size_t attempt = 0;  // picks the coordinator
  double backoff_ms = 0;
  uint64_t alone_since_ns = 0;  // no coordinator since then
  uint64_t heard_ns = 0, beat_ns = 0, ticked_ns = 0;
  uint64_t echo_heard_ns = 0;
  uint64_t echo_ns = 0;  // the coordinator's clock in its last Beat
  uint64_t job = 0, generation = 0;
  WorkerId id = 0;
  bool opening = false, opened = false;
  uint64_t fingerprint = 0;
  Policy policy;
  double examples_per_s = 0;
  uint64_t bytes_up = 0, bytes_down = 0;
  PhaseTimes times;
  uint64_t marked_ns = 0;  // where the next mark() begins; 0: nowhere
  int probes = 0;          // heartbeats to be sent at once: a timeline needs to know the clocks early
  struct {
    uint64_t stale = 0, job = 0, malformed = 0, unexpected = 0;
  } dropped;

  // The result held, and how it came about.
  int64_t held_round = -1;
  uint64_t held_hash = 0;  // 0: none
  std::deque<LogEntry> log;
  int64_t committed = -1;

  // The generation.
  std::vector<Member> members;
  std::vector<Membership> memberships;  // for who takes over: the established one and those proposed since
  int rank = -1;
  Links links;
  bool formed_due = false;  // Formed goes out when the request to the replica that is under way has been answered
  std::optional<Go> go;
  bool has_gone = false;
  std::string learning_rate;              // that Go told; empty: the job's
  std::map<WorkerId, uint64_t> reported;  // links reported lost: in which generation

  // Healing.
  struct Healing {
    Heal order;
    bool fetching = false;
    uint64_t progress_ns = 0;
  };
  std::optional<Healing> healing;
  ImageReceiver receiver;
  struct Loading {
    int64_t round;
    uint64_t hash;
    std::vector<LogEntry> log;
    bool keep_local;
  };
  std::optional<Loading> loading;
  ImageSender sender;
  struct Waiter {
    PeerId peer;
    uint64_t request;
  };
  struct SnapshotRequest {
    bool with_optimizer;
    std::vector<Waiter> waiters;
  };
  std::map<uint64_t, SnapshotRequest> snapshots;
  uint64_t next_request = 0;

  ServedWork work;

  // The open round: its inner exchanges.
  Exchange inner_exchange;
  struct {
    int64_t count = 0;            // of a round; 0: the policy has none
    int64_t index = 0;            // of the next
    uint64_t seed = 0;            // the job's
    Contribution work;            // of this round so far, while it is not staged for the round
    SharedBytes payload;          // with a codec: of what is staged for the next one
    std::vector<WorkerId> group;  // of the exchange that is open
    bool touched = false;         // the local values are not the last result
    bool waiting = false;         // for the exchange that is open
    bool applying = false;        // asked of the replica and not answered, of whatever generation
    uint64_t begun_ns = 0;
    std::vector<WorkerId> broken;  // by the last change of membership
  } inner;
  std::set<WorkerId> far;     // members of other sites
  uint64_t bytes_across = 0;  // sent to them since the last Done

  // The open round.
  Exchange exchange;
  FixedPlan plan;
  FixedPlan::Round planned;            // standing: the round being computed
  std::optional<TrainOrder> training;  // asked of the replica and not answered
  std::optional<Contribution> staged;  // answered and in no result yet
  bool staged_gradient = false;
  size_t staged_row = 0;
  int64_t steps_seen = 0;
  uint64_t stepped_ns = 0;              // when `steps_seen` last changed, while a change of membership waits for a result to be applied
  std::optional<Contribution> carried;  // fragments, overlap: handed in already, in no result, and part of the next contribution
  int64_t examples_done = 0;            // committed by all, as far as this worker was told
  int64_t local_base = -1;              // the result that the local work started from
  int64_t local_before = 0, local_per_step = 0;  // examples, of its order
  std::vector<bool> bucket_staged;               // standing: which are staged; all true once the contribution is known to be finite
  size_t buckets_staged = 0;
  int next_part = 1;            // standing, in several passes: the one to be asked for
  std::vector<std::byte> kept;  // announced: what of the contribution the exchange adds up, as it was before that wrote over it
  bool kept_valid = false;
  std::optional<Begin> begun;
  std::deque<Range> queue;  // leased, not begun
  bool queue_last = false, ready_sent = false;
  int64_t order_steps = 0;  // local steps of an order, as the coordinator said last; 0: as the policy says
  bool applying = false, paused = false;
  int refused_alone = 0;  // payloads of its own
  int evaluating = 0;     // asked of the replica and not answered, of whatever generation
  LogEntry applying_entry;
  uint64_t trained_ns = 0, staged_ns = 0, begun_ns = 0, exchanged_ns = 0, apply_ns = 0, progress_ns = 0;
  uint64_t progress_bytes = 0;
  std::array<std::byte, kChunkHeadBytes> chunk_head{};
};

}  // namespace perigee
