// One worker's session with a coordinator, its membership, images and links: the parts of Worker that its files share. worker_session.cpp: the
// session. worker_forming.cpp: changes of membership, healing, images. worker_frames.cpp: which message goes where. What it trains and
// exchanges is the business of a protocol (rounds/worker_rounds.h).
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/membership/links.h"
#include "cluster/membership/worker.h"
#include "cluster/protocol/images.h"
#include "cluster/rounds/worker_rounds.h"
#include "src/core/json.h"

namespace perigee {

struct WorkerCore {
  enum class State { idle, connecting, joining, opening, ready, forming, running, stopped };
  enum Timer : uint64_t { kTick = 1, kRetry = 2 };

  WorkerCore(WorkerOptions options, Clock& clock, Rng& rng, Transport& transport, Replica& replica, WorkerEvents& events);

  // ---- session (worker.cpp) ----
  void start();
  void connect();
  void lose_coordinator(const std::string& why);
  void schedule_retry();
  void on_welcome(const FrameHeader& header, const Welcome& welcome);
  void on_refuse(const Refuse& refuse);
  void on_coordinators(const Coordinators& where);
  void on_holders(const Holders& holders) { events.on_holders(holders); }
  void send_memberships();
  void beat();
  void mark(TracePhase phase);
  void send_trace();
  void tick();
  void tell_alone();
  void check_links(uint64_t now);
  void check_deadlines(uint64_t now);
  void fail(const Error& error, bool for_all);
  void leave(const std::string& why);
  void end();  // closes everything
  void stop_work(bool keep);
  std::vector<Range> pending() const;
  std::string name_of(WorkerId peer) const;
  std::string waits_for() const;
  void event(const char* name, Json details);
  FrameHeader header(int64_t round) const { return {.job = job, .generation = generation, .round = round}; }
  template <class M>
  void tell(const M& message, int64_t round) {
    if (coordinator != 0) transport.send(coordinator, encode(message, header(round)));
  }
  bool connected() const { return coordinator != 0 && state != State::connecting; }
  uint64_t ns(double ms) const { return static_cast<uint64_t>(ms * 1e6); }

  // ---- the generation, healing, images (worker_forming.cpp) ----
  void on_propose(const FrameHeader& header, Propose form);
  void send_formed();
  void on_start_epoch(StartEpoch message);
  void on_commit(const FrameHeader& header, const Commit& commit);
  void on_evaluate(const Evaluate& order);
  void on_catch_up(const CatchUp& heal);
  void fetch_if_possible();
  void on_fetch(PeerId peer, const Fetch& fetch);
  void hold(LogEntry entry);
  void forget_log(int64_t synced);
  void on_image(PeerId peer, Image& image, std::span<const std::byte> body);
  void load(int64_t round, uint64_t hash, SharedBytes image, std::vector<LogEntry> log, bool keep_local);
  void on_loaded(int64_t round, uint64_t hash);
  void request_snapshot(bool with_optimizer, PeerId peer, uint64_t request);
  void on_snapshot(uint64_t request, int64_t round, uint64_t hash, const SharedBytes& image);
  void lose_link(WorkerId id, const std::string& why, bool at_fault = false, bool down = false);
  void link_ready(WorkerId id);

  // ---- frames (worker_frames.cpp) ----
  void on_coordinator_frame(const FrameHeader& header, std::span<const std::byte> payload);
  void on_worker_frame(PeerId peer, const FrameHeader& header, std::span<const std::byte> payload);
  void on_beat(const Beat& beat);
  void on_link_beat(PeerId peer, const Beat& beat);
  bool on_examples(PeerId peer, const Examples& examples, std::span<const std::byte> body);
  void on_snapshot_order(const Snapshot& order);
  void on_stop(const Stop& stop);
  void on_link(PeerId peer, const FrameHeader& header, const Link& link);
  void on_chunk(PeerId peer, const FrameHeader& header, std::span<const std::byte> payload);
  void on_chunk(PeerId peer, const FrameHeader& header, const Chunk* chunk, std::span<const std::byte> body);
  Placement place_chunk(PeerId peer, const FrameHeader& header, const Chunk& chunk) const;
  bool expects_chunks(const FrameHeader& header, WorkerId from) const;
  std::pair<WorkerRounds*, Exchange*> exchange_of(const FrameHeader& header, const Chunk& chunk, int64_t* number) const;
  bool send_chunk(WorkerId to, int64_t round, const Chunk& chunk, std::span<const std::byte> body);
  void on_contribution(const Contribution& contribution);

  bool is_server() const { return server != 0 && server == id; }
  size_t trainers() const { return members.size() - (server != 0 ? 1 : 0); }

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
  uint64_t tries = 0;           // to connect, since it was welcome
  bool told_alone = false;      // that it looks for a coordinator
  uint64_t alone_since_ns = 0;  // no coordinator since then
  uint64_t heard_ns = 0, beat_ns = 0, ticked_ns = 0, links_beat_ns = 0;
  struct Stepped {
    int64_t step = -1;
    uint64_t since_ns = 0;
  };
  std::map<WorkerId, Stepped> stepped;  // members with a link, by their heartbeats: the last step, and since when it is
  uint64_t echo_heard_ns = 0;
  uint64_t echo_ns = 0;  // the coordinator's clock in its last Beat
  uint64_t job = 0, generation = 0;
  WorkerId id = 0;
  bool opening = false, opened = false;
  uint64_t fingerprint = 0;
  Policy policy;
  uint64_t seed = 0;     // the job's
  uint32_t threads = 1;  // that this worker trains with
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
  WorkerId server = 0;  // of the members; 0: the policy has none
  Links links;
  bool formed_due = false;  // Acknowledge goes out when the request to the replica that is under way has been answered
  std::optional<StartEpoch> epoch_start;
  bool has_gone = false;
  std::string settings;                   // that StartEpoch told; empty: the job's
  std::map<WorkerId, uint64_t> reported;  // links reported lost: in which generation

  // Healing.
  struct Healing {
    CatchUp order;
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

  int evaluating = 0;  // asked of the replica and not answered, of whatever generation

  // Rounds.
  OpenRound round;
  WorkerProtocols protocols;
  WorkerRounds* rounds;       // the protocol in force
  std::set<WorkerId> far;     // members of other sites
  uint64_t bytes_across = 0;  // sent to them since the last Done
  std::array<std::byte, kChunkHeadBytes> chunk_head{};
};

}  // namespace perigee
