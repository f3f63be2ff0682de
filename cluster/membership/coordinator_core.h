// Members of a run, what is committed, and which images there are: the parts of Coordinator that its files share. coordinator.cpp: a
// coordinator's beginning, clock and end. coordinator_workers.cpp: joining, progress, losing. coordinator_frames.cpp: which message goes where.
// coordinator_forming.cpp: from a change of membership to StartEpoch; coordinator_healing.cpp: on the way, all come to hold one result.
// coordinator_border.cpp: epochs' ends, evaluation, images. coordinator_standby.cpp: who may coordinate, and the standby.
// coordinator_steer.cpp: what people ask for. How a round begins and ends is the business of a protocol (rounds/coordinator_rounds.h).
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "cluster/exchange/guard.h"
#include "cluster/ledger/books.h"
#include "cluster/ledger/ledger_mirror.h"
#include "cluster/membership/coordinated_worker.h"
#include "cluster/membership/coordinator.h"
#include "cluster/membership/partition_desk.h"
#include "cluster/protocol/clock_offset.h"
#include "cluster/protocol/images.h"
#include "cluster/rounds/coordinator_rounds.h"
#include "cluster/rounds/local/pace.h"
#include "src/core/json.h"

namespace perigee {

// The coordinator's conclusions from past rounds.
struct RoundControl {
  explicit RoundControl(const Policy& policy) : pace(policy), guard(policy.guard) {}

  Pace pace;
  Guard guard;
  int64_t told_every = 0;
  bool told_apart = false;
  double gain = 1;  // of the outer step, with so many workers:
  int gain_workers = 0;
  int64_t outliers = 0;  // contributions left out so far
  int64_t inexact = 0;   // examples, of this coordinator's time
};

struct CoordinatorCore {
  using Node = CoordinatedWorker;  // perigee::Node is one of the graph's
  enum class Phase { recovering, waiting, forming, running, stopped };
  enum Timer : uint64_t { kTick = 1, kJoin = 2, kGrace = 3, kClose = 4, kLink = 5 };

  CoordinatorCore(CoordinatorOptions options, Clock& clock, Rng& rng, Transport& transport, LedgerStore& ledger, CoordinatorEvents& events);

  // ---- coordinator.cpp ----
  void start();
  void tick();
  void fail(const Error& error);
  void abandon();
  void stop(const std::string& why, bool finished);
  void close_rest();
  void lose_late(PeerId peer, PeerLoss why);
  void forget_earlier(const std::string& name);
  void event(const char* name, const Node* node, const std::string& cause, const std::string& done);

  // ---- coordinator_workers.cpp ----
  std::optional<Refuse> why_refused(const FrameHeader& header, const Join& join) const;
  void on_join(PeerId peer, const FrameHeader& header, Join join);
  void welcome(PeerId peer, WorkerId id, Join join);
  void on_beat(Node& node, const Beat& beat);
  void on_failed(Node& node, const Failed& failed);
  void refuse(PeerId peer, Refuse refuse);
  // Whether a worker that is lost may come again: no; soon or not at all; or whenever it can be reached, since nothing says that it is dead.
  enum class Return : uint8_t { never, soon, some_time };
  void lose(WorkerId id, const std::string& event_name, const std::string& cause, Return back = Return::never);
  enum class Eviction : uint8_t { to_join_again, for_good, stuck, kicked };
  void evict(WorkerId id, Eviction what, const std::string& cause);
  bool is_quiet(const Node& node) const;
  void note_death(const std::string& name, uint32_t pid);
  bool any_may_live() const;
  void beat_unasked(uint64_t now);
  void check_silence(uint64_t now);
  double median_step_s() const;
  double first_step_ms() const;
  void check_progress(uint64_t now);
  WorkerId keeps_others_waiting(uint64_t now) const;
  void take_back(Node& node);
  void drop_local_work(Node& node);
  size_t trainers() const;
  WorkerId server() const;  // of the members; 0: none

  // ---- coordinator_frames.cpp ----
  void on_frame(PeerId peer, std::span<const std::byte> frame);
  void on_late_frame(PeerId peer, std::span<const std::byte> frame);
  void on_stranger_frame(PeerId peer, const FrameHeader& header, std::span<const std::byte> payload);
  void on_node_frame(Node& node, const FrameHeader& header, std::span<const std::byte> payload);
  void on_status(PeerId peer, const Status& question);
  void on_acknowledge_or_open(Node& node, const FrameHeader& header, Acknowledge formed);
  void on_read(Node& node, const FrameHeader& header, Read read);
  void on_leave(Node& node, const Leave& leave);
  bool believes(const FrameHeader& header, const Node& node, bool in_phase) const;

  // ---- coordinator_trace.cpp ----
  void on_traced(const Node& node, const Traced& traced) { on_traced(node.id, traced); }
  void on_traced(WorkerId id, const Traced& traced);
  void tell_spans(WorkerId id);
  void tell_round(const Figures& figures, int64_t examples, const std::vector<Share>& shares);
  void tell_formed();
  void tell_evaluated();

  // ---- coordinator_view.cpp ----
  std::vector<WorkerView> views() const;
  Json status() const;
  void add_details(Json* json) const;
  Json counters() const;

  // ---- coordinator_forming.cpp ----
  void worker_is_open(Node& node, const Acknowledge& formed);
  void expect_workers(int count);
  bool gathering() const;  // before the first generation: more workers are expected
  void request_form();     // at the next moment at which no work is lost
  void form_if_calm();
  bool recovered() const;
  void tell_missing_workers();
  bool has_gathered();
  void form();
  void pick_members();
  bool may_form();
  void on_acknowledge(Node& node, Acknowledge formed);
  const Node* best_held() const;
  using Holders = std::map<std::pair<int64_t, uint64_t>, std::set<WorkerId>>;  // by round and hash
  Holders holders() const;
  void tell_mismatch(const Node& node, const Node& best);
  void resolve();
  void adopt(const Node* best);
  void ready_to_go();
  void send_start();
  void disband(Phase until);
  void check_forming(uint64_t now);

  // ---- coordinator_healing.cpp ----
  void begin_healing();
  void settle_pending();
  void heal(Node& node, bool keep_local);
  void on_caught_up(Node& node, const CaughtUp& healed);
  void check_healed();
  void catch_up(Node& node);
  void check_healing(uint64_t now);
  void on_fetch(Node& node, const Fetch& fetch);

  // ---- coordinator_links.cpp ----
  void judge_links();
  void on_link_lost(Node& node, const LinkLost& lost);
  void part(const Node& one, const Node& two, const std::string& why);
  bool stays_away(const Join& join);
  std::vector<std::string> expected_back() const;
  void doubt_link(const Node& node);
  bool doubted(WorkerId one, WorkerId two) const;  // the link between them was reported lost before this generation

  // ---- coordinator_standby.cpp ----
  LeaseClaim claim(std::span<const WorkerId> followers) const;
  bool could_claim(std::span<const WorkerId> followers) const;
  // False while it is not certain that no other coordinates: a round that is complete waits.
  bool may_commit() const { return lease == nullptr || lease->renew(generation) == LeaseStore::Answer::granted; }
  void claim_lease();
  void ask_standby();
  void establish();
  void wait_for_votes();
  void on_witness(const Node& node, const Witness& witness);
  void on_follow(PeerId peer, const FrameHeader& header, const Follow& follow);
  void on_standby_frame(const FrameHeader& header, std::span<const std::byte> payload);
  void lose_standby(const std::string& cause);
  bool tell_standby(const Replicate& message, std::span<const std::byte> body = {});
  void on_appended(std::span<const std::byte> record);
  void catch_up_standby();
  void send_checkpoint();
  void set_session(std::string json);
  void tell_steering();
  std::string missing() const;
  void tell_where(const Node& node);
  int64_t safe_round() const;
  void check_standby(uint64_t now);
  void notify_superseded(uint64_t now);
  void on_taken_over(PeerId peer, const FrameHeader& header, const TakenOver& message);
  uint64_t in_force_generation() const { return in_force.size() == 1 && in_force[0].established ? in_force[0].generation : 0; }

  // ---- work (coordinator.cpp) ----
  int64_t local_batch() const;
  double progress() const;
  RoundView round_view() const;

  // ---- coordinator_steer.cpp ----
  void on_steer(PeerId peer, const Steer& message);
  void steer(const Json& command);
  void kick(WorkerId id);
  bool holds_alone(WorkerId id) const;
  void pause(bool on);
  bool pauses();
  void want_border();
  void set_every(int64_t every);
  void set_option(const std::string& option, const Json& value);
  std::string steering() const;
  void take_over_steering();

  // ---- coordinator_border.cpp ----
  bool enter_border();  // true: the workers wait for the launcher
  bool run_complete() const;
  void reopen_border();  // rounds became void
  void tell_finished();
  void release();
  void request_evaluation(const std::string& part, int64_t examples, bool whole);
  void issue_evaluation();
  void on_evaluated(Node& node, Evaluated evaluated);
  void check_evaluation(uint64_t now);
  uint64_t request_image(const std::string& what);
  bool keep_image();  // here in memory, for who has to begin again; false: not now
  void ask_for_image();
  void check_images(uint64_t now);
  void on_image(Node& node, Image& image, std::span<const std::byte> body);
  void image_failed();
  void give_up_image();
  void deliver_image();
  void set_resume(int64_t round, SharedBytes image);
  void forget_image(WorkerId from);

  FrameHeader header(int64_t round) const { return {.job = options.job_id, .generation = generation, .round = round}; }
  template <class M>
  void tell(const Node& node, const M& message, int64_t round) {
    transport.send(node.peer, encode(message, header(round)));
  }
  template <class M>
  void tell_all(const M& message, int64_t round) {
    const std::vector<std::byte> frame = encode(message, header(round));
    for (const WorkerId id : members) transport.send(nodes.at(id).peer, frame);
  }
  uint64_t ns(double ms) const { return static_cast<uint64_t>(ms * 1e6); }
  uint64_t beat_late_ns() const { return ns(1.5 * options.beat_ms); }  // after the last one: the next should have come
  bool start_allowed() const { return phase == Phase::running && !start_held; }

  CoordinatorOptions options;
  Clock& clock;
  Rng& rng;
  Transport& transport;
  CoordinatorEvents& events;
  LedgerMirror mirror;
  Books books;

  Phase phase = Phase::waiting;
  uint64_t generation = 0, started_term = 0;
  bool formed_once = false;
  bool closed = false;  // after the last word
  uint64_t fingerprint = 0;
  uint64_t started_ns = 0, ticked_ns = 0, first_join_ns = 0, stopped_ns = 0;
  Stop last_word;  // once stopped
  bool ledger_troubled = false;
  uint64_t ledger_told_ns = 0;
  struct {
    uint64_t stale = 0, job = 0, malformed = 0, unexpected = 0, reads = 0;
  } dropped;

  // Workers.
  std::map<WorkerId, Node> nodes;
  std::unordered_map<PeerId, WorkerId> peers;      // of those that joined
  std::unordered_map<PeerId, uint64_t> strangers;  // connected, no Join yet: since when
  std::vector<WorkerId> members;                   // of the generation, by rank
  WorkerId next_id = 1;
  uint64_t joins = 0;
  double first_step = 1;  // times the policy's deadline, that a worker's first step may take
  static constexpr double kMostFirstStep = 8;
  struct Complaint {
    WorkerId low, high;  // of a link; low 0: anything that `high` sent, to any peer
    uint64_t at_ns;
  };
  std::deque<Complaint> complaints;
  struct Suspicion {
    uint64_t generation;
    WorkerId from, peer;
    bool at_fault, down;
    std::string why;
  };
  std::vector<Suspicion> suspicions;
  std::vector<DeadLink> dead_links, told_dead;  // to be told with the next Propose; told with the last
  struct CutOff {
    std::string from;  // the worker that it had no link to
    uint64_t until_ns = 0;
    double wait_ms = 0;
  };
  std::map<std::string, CutOff> cut_off;  // workers that went because a link did not hold, by name
  struct SentOff {
    std::string address, cause;
  };
  std::map<WorkerId, SentOff> sent_off;  // for good; who did not hear it comes again under its number
  struct Away {
    uint64_t since_ns;
    uint32_t pid = 0;
    bool lives = false;  // nothing says that its process is dead
  };
  struct Gone {
    std::string name;
    uint32_t pid;
    int64_t round;  // the newest that it can have had a part in
  };
  std::map<WorkerId, Gone> gone;     // workers that were lost: they may live, and hold what no other does
  std::map<std::string, Away> away;  // workers that were lost or sent away and may come again, by name
  struct Untold {
    std::string name;
    uint32_t pid;
  };
  std::unordered_map<PeerId, Untold> untold;  // workers that may not have heard the last word

  // For the timeline: outlives a worker's node until the last of its spans has come.
  struct Timeline {
    std::string name;
    ClockOffset clock;
    bool moved = false;
    uint64_t dropped = 0, told_dropped = 0;
    std::vector<PhaseSpan> spans;  // waiting for the clock to be well known
  };
  std::map<WorkerId, Timeline> timelines;
  // Who may coordinate.
  VoteOfWorkers votes;
  LeaseStore* lease = nullptr;       // null: no other coordinator is possible
  std::vector<Membership> in_force;  // or may be: the established membership and what the standby was asked, or heard of, since
  bool claiming = false, outvoted_told = false, established = false;

  // The standby.
  struct Follower {
    PeerId peer = 0;  // 0: it is not there
    std::string name, host, address;
    uint64_t heard_ns = 0, sent_ns = 0;
    uint64_t sent = 0;     // bytes of the ledger
    bool lagging = false;  // the ledger has more than could be sent
    int64_t round = -1;    // it has said that it has every record up to this round's
    struct Mark {
      uint64_t bytes;
      int64_t round;
    };
    std::deque<Mark> marks;           // what it has with so many bytes
    uint64_t asked = 0, consent = 0;  // generations
  } follower;
  std::string session;
  struct {
    PeerId peer = 0;
    uint64_t again_ns = 0;  // 0: there is nothing to tell
  } old;

  // Forming.
  bool form_wanted = false, joining_timer = false;
  uint64_t forming_since_ns = 0;
  size_t formed_count = 0;
  size_t rotate = 0;
  int64_t target_round = -1;
  uint64_t target_hash = 0;  // 0: not known until a worker has made it
  Holders told_by_lost;      // what lost members had said that they hold, since all held the same
  ImageSender sender;

  // Rounds.
  PartitionDesk partitions;
  CoordinatorProtocols protocols;
  CoordinatorRounds* rounds;  // the protocol in force
  RoundControl control;
  bool start_held = false;  // every member has the result; StartEpoch waits for the launcher's release
  int64_t open = 0;         // the open round
  uint64_t border_ns = 0, opened_ns = 0;

  // The operator's requests.
  bool pause_wanted = false, pause_told = false;
  std::unordered_map<PeerId, uint64_t> steered;  // the last request of each who steers
  Json settings = Json::object();                // options of the job that were set, by name
  static constexpr size_t kRecent = 32;
  std::deque<Json> recent;  // the newest events, numbered
  int64_t told_events = 0;
  Json about = Json::object();
  struct {
    int64_t examples = 0;
    Figures figures;
  } last;  // committed round

  // Contributions that were not finite, or outlying.
  struct Failure {
    Range range;
    std::vector<WorkerId> by;
    bool waiting = false;  // for another worker; it is out of the pool
  };
  std::vector<Failure> failures;
  int64_t skipped_in_a_row = 0;

  std::set<WorkerId> broken_groups;  // the change of membership under way broke off their exchange

  // Between epochs.
  std::optional<uint64_t> border;  // the epoch whose evaluation is due
  bool finished = false, finish_told = false;
  struct Evaluation {
    std::string part;
    int64_t examples;
    bool whole;
  };
  std::deque<Evaluation> evaluations;
  struct Slice {
    uint64_t request;
    WorkerId worker;
    int64_t begin, end;
    uint64_t asked_ns = 0;
    std::optional<std::string> state;
  };
  std::vector<Slice> slices;  // of the first evaluation
  uint64_t next_request = 0;

  // Images.
  struct ImageRequest {
    uint64_t request;
    std::string what;
    bool own = false;  // keep_image()
    int failures = 0;
  };
  std::deque<ImageRequest> images;
  WorkerId image_from = 0;
  uint64_t image_asked_ns = 0, image_ns = 0;
  size_t image_turn = 0;
  ImageReceiver receiver;
  bool image_complete = false;
  struct Delivered {
    int64_t round;
    uint64_t hash;
  };
  std::deque<Delivered> delivered;  // the last images that the launcher was given
};

}  // namespace perigee
