#include "cluster/membership/coordinator.h"

#include <algorithm>
#include <cassert>

#include "cluster/membership/coordinator_core.h"
#include "cluster/planted.h"
#include "src/io/digest.h"

namespace perigee {
namespace {

constexpr uint64_t kTickNs = 100'000'000;
constexpr uint64_t kJoinNs = 5'000'000'000;   // from a connection to its Join
constexpr uint64_t kCloseNs = 1'000'000'000;  // from Stop to the end of connections that are still there
constexpr uint64_t kSyncNs = 200'000'000;     // the ledger goes to disk at most this much later
constexpr uint64_t kToldNs = 60'000'000'000;  // between two lines about the same trouble
constexpr size_t kMaxStrangers = 1024;
constexpr uint64_t kGenerationsBetween = 1000;  // above what the ledger knows: forming leaves no record

ShardedOrder order_of(const CoordinatorOptions& options) {
  return options.shards > 1 ? ShardedOrder(options.examples, options.shards, options.batch) : ShardedOrder();
}

}  // namespace

CoordinatorCore::CoordinatorCore(CoordinatorOptions given, Clock& c, Rng& r, Transport& t, LedgerStore& ledger, CoordinatorEvents& e)
    : options(std::move(given)),
      clock(c),
      rng(r),
      transport(t),
      events(e),
      mirror(ledger, [this](std::span<const std::byte> record) { on_appended(record); }),
      books(mirror, options.examples, options.planned, order_of(options)),
      in_force(options.memberships),
      sender(t, c),
      protocols(*this),
      rounds(&protocols.first()),
      control(options.policy) {
  assert(options.examples > 0 && options.batch > 0 && options.min_workers > 0);
  lease = options.lease != nullptr ? options.lease : !options.standby.empty() || options.is_standby ? &votes : nullptr;
}

void CoordinatorCore::start() {
  Json job = Json::object();
  job.set("examples", options.examples);
  job.set("planned", options.planned);
  job.set("accounting", options.policy.inner.active() ? "bounded" : "exact");
  books.load(job.dump());
  const bool continues = books.round() >= 0 || options.takes_over;
  generation = books.generation() + (continues ? kGenerationsBetween : 0);
  if (options.is_standby) generation = next_term(std::max(books.generation(), options.generation));
  started_term = term_of(generation);
  next_id = books.highest_id() + 1 + (continues ? static_cast<WorkerId>(rng.next() >> 35) : 0);
  if (planted(Bug::ids_again)) next_id = 1;  // above those that left no record
  fingerprint = options.fingerprint;
  phase = options.takes_over ? Phase::recovering : Phase::waiting;
  started_ns = ticked_ns = short_since_ns = clock.now_ns();
  if (!options.steering.empty()) take_over_steering();
  transport.start_timer(kTick, ticked_ns + kTickNs);
}

void CoordinatorCore::tick() {
  const uint64_t now = clock.now_ns();
  // This process itself stood still: what the workers said since may be waiting in its sockets. Or nothing may be committed for a while, and
  // the workers wait for it.
  const bool stood_still = now - ticked_ns > 5 * kTickNs, waits = phase == Phase::running && !may_commit();
  if (stood_still || waits) {
    const uint64_t gap = now - ticked_ns - (waits ? 0 : kTickNs);
    const auto forgive = [&](uint64_t& since) {
      if (since != 0) since = std::min(now, since + gap);  // never later than now: some of it may have come since this process goes on
    };
    for (auto& [id, node] : nodes) forgive(node.heard_ns), forgive(node.stepped_ns), forgive(node.leased_ns), forgive(node.heal_ns);
    forgive(forming_since_ns), forgive(image_ns);
    rounds->forgive(forgive);
  }
  ticked_ns = now;
  transport.start_timer(kTick, now + kTickNs);

  std::vector<PeerId> late;
  for (const auto& [peer, since] : strangers)
    if (now - since > kJoinNs) late.push_back(peer);
  for (const PeerId peer : late) strangers.erase(peer), transport.close(peer);

  const bool written = books.sync(now, kSyncNs);
  if (!written && (!ledger_troubled || now - ledger_told_ns > kToldNs)) {
    ledger_told_ns = now;
    event("ledger_unwritable", nullptr, "the ledger could not be written",
          "training goes on; the records are kept and written when there is room");
  }
  ledger_troubled = !written;
  check_standby(now);
  if (phase == Phase::stopped) return;
  notify_superseded(now);
  tell_finished();

  check_silence(now);
  if (phase == Phase::stopped) return;
  beat_unasked(now);
  if ((phase == Phase::recovering || gathering()) && first_join_ns != 0) form_if_calm();
  if (phase == Phase::forming) check_forming(now);
  if (phase == Phase::forming || phase == Phase::running) check_healing(now);
  if (phase == Phase::running) check_progress(now);
  if (phase == Phase::running) check_evaluation(now);
  if (phase == Phase::running) rounds->check(now);
  if (phase == Phase::running) check_images(now);
  if (phase == Phase::waiting && options.give_up_ms > 0 && now - short_since_ns > ns(options.give_up_ms))
    fail(Error(ErrorKind::cluster, {.where = "cluster",
                                    .what = "too few workers for " + std::to_string(static_cast<int64_t>(options.give_up_ms / 1000)) + " s",
                                    .got = std::to_string(nodes.size()),
                                    .expected = "at least " + std::to_string(options.min_workers),
                                    .hint = "start more of them, by an agent or `perigee worker`, or lower --min-workers"}));
  if (options.is_standby && !established && lease != nullptr && options.take_over_ms > 0 && now - started_ns > ns(options.take_over_ms))
    fail(Error(ErrorKind::cluster, {.where = "standby",
                                    .what = "the standby could not take over: fewer than half of the workers came" + missing(),
                                    .got = std::to_string(nodes.size()),
                                    .hint = "the coordinator may be alive with the others"}));
}

void CoordinatorCore::refuse(PeerId peer, Refuse message) {
  transport.send(peer, encode(message, header(-1)));
  transport.close(peer);
}

// The answer to a worker that may not join.
std::optional<Refuse> CoordinatorCore::why_refused(const FrameHeader& h, const Join& join) const {
  if (join.version != PERIGEE_VERSION)
    return Refuse{.kind = 5,
                  .what = "the worker is of another version",
                  .got = join.version,
                  .expected = PERIGEE_VERSION,
                  .hint = "install the same version on every machine"};
  if (h.job != 0 && h.job != options.job_id)
    return Refuse{.kind = 5,
                  .what = "the worker is of another run",
                  .got = hex_digest(h.job),
                  .expected = hex_digest(options.job_id),
                  .hint = "start a new worker for this run"};
  if (join.fingerprint != 0 && fingerprint != 0 && join.fingerprint != fingerprint)
    return Refuse{.kind = 3,
                  .what = "the worker has another data set",
                  .got = "data with hash " + hex_digest(join.fingerprint),
                  .expected = hex_digest(fingerprint),
                  .hint = "give every machine the same files, or set data.at = \"coordinator\""};
  if (nodes.size() >= kMaxWorkers)
    return Refuse{.kind = 7,
                  .retry = true,
                  .what = "too many workers",
                  .got = std::to_string(nodes.size() + 1),
                  .expected = "at most " + std::to_string(kMaxWorkers),
                  .hint = "it asks again by itself, should one leave"};
  if (const std::string why = rounds->why_not(join); !why.empty()) return Refuse{.kind = 5, .retry = options.policy.served, .what = why};
  return std::nullopt;
}

void CoordinatorCore::on_join(PeerId peer, const FrameHeader& h, Join join) {
  strangers.erase(peer);
  if (stays_away(join)) {
    away[join.name] = clock.now_ns();
    return refuse(peer, {.kind = 5,
                         .retry = true,
                         .what = "no link between it and " + cut_off.at(join.name).from + " held a moment ago",
                         .hint = "it asks again by itself; a firewall between the two may be the reason"});
  }
  if (std::optional<Refuse> refused = why_refused(h, join)) {
    Json line = Json::object();
    line.set("event", "worker_refused");
    line.set("worker", join.name);
    line.set("host", host_name_in(join.host));
    line.set("cause", refused->what);
    line.set("got", refused->got);
    line.set("expected", refused->expected);
    if (!refused->hint.empty()) line.set("advice", refused->hint);
    events.on_event(line);
    return refuse(peer, *std::move(refused));
  }
  if (h.generation > generation) {
    if (formed_once) return fail(superseded_by(h.generation, follower.address, generation));
    generation = options.is_standby ? next_term(h.generation) : h.generation;
  }
  if (const auto same = nodes.find(join.id); same != nodes.end() && same->second.address != join.address) join.id = 0;  // another one's
  if (join.id != 0 && nodes.contains(join.id)) lose(join.id, "worker_lost", "it came again on another connection");
  if (phase == Phase::stopped) return;
  const WorkerId id = join.id != 0 ? join.id : next_id;
  next_id = std::max(next_id, id + 1);
  welcome(peer, id, std::move(join));
}

void CoordinatorCore::welcome(PeerId peer, WorkerId id, Join join) {
  Node& node = nodes[id];
  node.id = id;
  node.name = std::move(join.name);
  node.host = std::move(join.host);
  node.site = std::move(join.site);
  node.address = std::move(join.address);
  node.peer = peer;
  node.joined = ++joins;
  node.heard_ns = node.stepped_ns = node.beat_ns = node.told_ns = clock.now_ns();
  node.round = join.round;
  node.hash = join.hash;
  node.server = join.server;
  peers[peer] = id;
  away.erase(node.name);
  if (options.trace) timelines[id] = {.name = node.name};
  tell(node,
       Welcome{.version = PERIGEE_VERSION,
               .id = id,
               .job = options.job,
               .folder = options.folder,
               .tuning = options.tuning,
               .threads = options.threads,
               .sources = options.sources,
               .trace = options.trace},
       books.round());
  tell_where(node);
}

void CoordinatorCore::on_beat(Node& node, const Beat& beat) {
  const uint64_t now = clock.now_ns();
  if (beat.echo_ns != 0 && beat.echo_ns <= now) node.round_trip_ms = static_cast<double>(now - beat.echo_ns) * 1e-6;
  if (beat.step != node.step) {
    if (node.step >= 0 && beat.step > node.step) {
      const double mean = static_cast<double>(now - node.stepped_ns) * 1e-9 / static_cast<double>(beat.step - node.step);
      node.step_s = node.step_s == 0 ? mean : 0.7 * node.step_s + 0.3 * mean;
      node.stepped = true;
    }
    node.step = beat.step;
    node.stepped_ns = now;
  }
  if (beat.evaluated != node.evaluated) {
    node.evaluated = beat.evaluated;
    node.stepped_ns = now;
  }
  if (const auto t = timelines.find(node.id); t != timelines.end() && beat.echo_ns != 0)
    t->second.moved |= t->second.clock.add(beat.echo_ns, beat.sent_ns, now);
  node.rate = beat.examples_per_s;
  node.bytes_up = beat.bytes_up;
  node.bytes_down = beat.bytes_down;
  node.waits_for = beat.waits_for;
  if (!node.waits_for.empty()) node.stepped_ns = now;  // it is another node's turn
  node.told_ns = now;
  tell(node, Beat{.sent_ns = now, .echo_ns = beat.sent_ns}, books.round());
}

void CoordinatorCore::on_failed(Node& node, const Failed& failed) {
  if (!failed.for_all) return lose(node.id, "worker_failed", failed.text);
  const std::string name = node.name;
  fail(Error(static_cast<ErrorKind>(std::clamp<uint16_t>(failed.kind, 2, 7)), {.where = "worker " + name, .what = failed.text}));
}

// The worker is gone: its work goes back, and the others go on without it.
void CoordinatorCore::lose(WorkerId id, const std::string& event_name, const std::string& cause) {
  const auto it = nodes.find(id);
  assert(it != nodes.end());
  Node node = std::move(it->second);
  const bool was_member = node.member;
  const int64_t given = examples_of(node.leased);
  if (was_member) rounds->on_losing(node);
  take_back(node);
  peers.erase(node.peer);
  sender.forget(node.peer);
  if (options.example_service) options.example_service->on_lost(node.peer);
  transport.close(node.peer);
  nodes.erase(it);
  if (const auto t = timelines.find(id); t != timelines.end() && t->second.clock.known()) tell_spans(id);
  timelines.erase(id);
  std::erase(members, id);
  forget_image(id);
  control.pace.forget(id);
  if (event_name == "worker_lost") away[node.name] = clock.now_ns();
  while (away.size() > kMaxWorkers) away.erase(away.begin());
  std::string done = given > 0 ? std::to_string(given) + " examples go back to be done by others; " : "";
  done += was_member ? std::to_string(members.size()) + " workers go on" : "it was not taking part";
  event(event_name.c_str(), &node, cause, done);
  if (was_member && (phase == Phase::forming || phase == Phase::running)) form();
}

void CoordinatorCore::evict(WorkerId id, const std::string& event_name, const std::string& cause, bool come_back) {
  const Node& node = nodes.at(id);
  transport.send(node.peer, encode(Refuse{.kind = 5, .retry = come_back, .what = cause}, header(-1)));
  lose(id, event_name, cause);
}

// Who has much to send answers late: it must not take this side for dead because it is slow itself.
void CoordinatorCore::beat_unasked(uint64_t now) {
  for (auto& [id, node] : nodes)
    if (now - node.told_ns > ns(1.5 * options.beat_ms)) node.told_ns = now, tell(node, Beat{.sent_ns = now}, books.round());
}

void CoordinatorCore::check_silence(uint64_t now) {
  if (planted(Bug::silence_ignored)) return;
  std::vector<WorkerId> silent;
  for (const auto& [id, node] : nodes)
    if (now > node.heard_ns && now - node.heard_ns > ns(options.silent_ms)) silent.push_back(id);
  for (const WorkerId id : silent) {
    if (phase == Phase::stopped || !nodes.contains(id)) continue;
    evict(id, "worker_lost", "silent for " + std::to_string((now - nodes.at(id).heard_ns) / 1'000'000) + " ms", true);
  }
}

double CoordinatorCore::median_step_s() const {
  std::vector<double> steps;
  for (const WorkerId id : members)
    if (nodes.at(id).step_s > 0) steps.push_back(nodes.at(id).step_s);
  const auto middle = steps.begin() + static_cast<ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return steps.empty() ? 0 : *middle;
}

// A worker that beats but does not step.
void CoordinatorCore::check_progress(uint64_t now) {
  if (start_held || border || finished || planted(Bug::stuck_ignored)) return;
  const double median_s = median_step_s();
  for (const WorkerId id : members) {
    const Node& node = nodes.at(id);
    if (node.state != Node::State::training || !node.waits_for.empty() || now < node.stepped_ns) continue;
    const double still_s = static_cast<double>(now - node.stepped_ns) * 1e-9;
    const double least_s = (node.stepped ? 2 * options.silent_ms : options.policy.deadline_ms) * 1e-3;  // the first step tunes
    if (still_s <= std::max(least_s, static_cast<double>(options.stuck_steps) * median_s)) continue;
    evict(id, "worker_stuck",
          "no step for " + std::to_string(static_cast<int64_t>(still_s * 1e3)) + " ms; the median step takes " +
              std::to_string(static_cast<int64_t>(median_s * 1e3)) + " ms",
          false);
    return;
  }
}

// Who waits in an exchange names its neighbour, which may itself wait for another: at the end of the chain is one that computes.
WorkerId CoordinatorCore::keeps_others_waiting(uint64_t now) const {
  if (planted(Bug::stuck_ignored)) return 0;
  for (const WorkerId id : members) {
    const Node& node = nodes.at(id);
    if (node.state == Node::State::training && node.waits_for.empty() && now > node.stepped_ns &&
        now - node.stepped_ns >= ns(0.9 * options.policy.deadline_ms))
      return id;
  }
  return 0;
}

void CoordinatorCore::event(const char* name, const Node* node, const std::string& cause, const std::string& done) {
  Json line = Json::object();
  line.set("event", name);
  if (node) {
    line.set("worker", node->name);
    line.set("host", host_name_in(node->host));
    line.set("id", int64_t{node->id});
  }
  line.set("cause", cause);
  line.set("done", done);
  line.set("generation", static_cast<int64_t>(generation));
  line.set("round", books.round());
  recent.push_back(line);
  recent.back().set("number", ++told_events);
  if (recent.size() > kRecent) recent.pop_front();
  events.on_event(line);
}

void CoordinatorCore::fail(const Error& error) {
  if (phase == Phase::stopped) return;
  // Workers of a run that another coordinator has taken over are not told to stop; nor those that this one never had.
  if (is_superseded(error) || (options.is_standby && !established)) abandon();
  else stop(error.what(), false);
  events.on_failed(error);
}

void CoordinatorCore::abandon() {
  if (phase == Phase::stopped) return;
  if (options.example_service)
    for (const auto& [peer, id] : peers) options.example_service->on_lost(peer);
  for (const auto& [peer, id] : peers) transport.close(peer);
  for (const auto& [peer, since] : strangers) transport.close(peer);
  for (const PeerId peer : {follower.peer, old.peer})
    if (peer != 0) transport.close(peer);
  follower.peer = old.peer = 0;
  peers.clear(), strangers.clear(), nodes.clear(), members.clear(), away.clear();
  for (const uint64_t timer : {kTick, kJoin, kGrace, kLink}) transport.stop_timer(timer);
  phase = Phase::stopped;
  books.sync(clock.now_ns(), 0);
}

void CoordinatorCore::stop(const std::string& why, bool is_finished) {
  if (phase == Phase::stopped) return;
  phase = Phase::stopped;
  last_word = {.why = why, .finished = is_finished};
  if (options.example_service)
    for (const auto& [peer, id] : peers) options.example_service->on_lost(peer);
  const std::vector<std::byte> frame = encode(last_word, header(books.round()));
  for (const auto& [peer, id] : peers) transport.send(peer, frame);
  for (const auto& [peer, since] : strangers) transport.send(peer, frame);  // who watches
  if (follower.peer != 0) transport.send(follower.peer, frame), peers[follower.peer] = 0;
  if (old.peer != 0) transport.close(old.peer);
  follower.peer = old.peer = 0;
  // The workers close. To close here at once could lose the word to those who are just sending something.
  transport.start_timer(kClose, clock.now_ns() + kCloseNs);
  nodes.clear(), members.clear();
  for (const uint64_t timer : {kTick, kJoin, kGrace, kLink}) transport.stop_timer(timer);
  books.sync(clock.now_ns(), 0);
}

// ---- work ----

double CoordinatorCore::progress() const {
  return options.planned > 0 ? static_cast<double>(books.examples_done()) / static_cast<double>(options.planned) : 0;
}

int64_t CoordinatorCore::local_batch() const {
  const auto workers = std::max<int64_t>(1, static_cast<int64_t>(trainers()));
  return options.global_batch > 0 ? std::max<int64_t>(1, options.global_batch / workers) : options.batch;
}

size_t CoordinatorCore::trainers() const {
  return static_cast<size_t>(std::count_if(members.begin(), members.end(), [&](WorkerId id) { return !nodes.at(id).server; }));
}

WorkerId CoordinatorCore::server() const {
  for (const WorkerId id : members)
    if (nodes.at(id).server) return id;
  return 0;
}

void CoordinatorCore::take_back(Node& node) {
  if (!planted(Bug::lost_leases))
    for (const Range& range : node.leased) books.pool().put_back(range);
  node.leased.clear();
  node.lease_last = false;
  node.lease_steps = 0;
  node.ready.reset();
}

// It holds the right result, but its local work is of no use any more.
void CoordinatorCore::drop_local_work(Node& node) {
  take_back(node);
  node.state = Node::State::healing;
  node.heal_ns = clock.now_ns();
  tell(node, CatchUp{.donor = node.id, .round = node.round, .hash = node.hash}, node.round);
}

// ---- the public face ----

Coordinator::Coordinator(CoordinatorOptions options, Clock& clock, Rng& rng, Transport& transport, LedgerStore& ledger,
                         CoordinatorEvents& events)
    : core_(std::make_unique<CoordinatorCore>(std::move(options), clock, rng, transport, ledger, events)) {}
Coordinator::~Coordinator() = default;

void Coordinator::start() { core_->start(); }
void Coordinator::request_evaluation(const std::string& part, int64_t examples, bool whole) {
  core_->request_evaluation(part, examples, whole);
}
void Coordinator::expect_workers(int count) { core_->expect_workers(count); }
void Coordinator::release() { core_->release(); }
uint64_t Coordinator::request_image(const std::string& what) { return core_->request_image(what); }
std::pair<uint64_t, uint64_t> Coordinator::image_progress() const { return {core_->receiver.received(), core_->receiver.total()}; }
void Coordinator::set_resume(int64_t round, SharedBytes image) { core_->set_resume(round, std::move(image)); }
void Coordinator::set_session(std::string json) { core_->set_session(std::move(json)); }
void Coordinator::steer(const Json& command) { core_->steer(command); }
void Coordinator::describe(const std::string& key, Json value) { core_->about.set(key, std::move(value)); }
void Coordinator::stop(const std::string& why, bool finished) { core_->stop(why, finished); }
void Coordinator::abandon() { core_->abandon(); }
bool Coordinator::established() const { return core_->established; }
bool Coordinator::expects_back() const { return core_->expects_back(); }
int64_t Coordinator::round() const { return core_->books.round(); }
std::optional<uint64_t> Coordinator::hash_of(int64_t round) const { return core_->books.hash_of(round); }
uint64_t Coordinator::generation() const { return core_->generation; }
int64_t Coordinator::examples_done() const { return core_->books.examples_done(); }

std::vector<WorkerView> Coordinator::workers() const { return core_->views(); }
RoundView Coordinator::round_view() const { return core_->round_view(); }
Json Coordinator::status() const { return core_->status(); }
Json Coordinator::counters() const { return core_->counters(); }

void Coordinator::on_connected(PeerId peer, const std::string&) {
  if (peer == core_->old.peer && peer != 0) {
    core_->transport.send(peer, encode(TakenOver{.address = core_->options.address}, core_->header(core_->books.round())));
    return;
  }
  if (core_->closed) core_->transport.send(peer, encode(core_->last_word, core_->header(core_->books.round())));
  if (core_->closed || core_->strangers.size() >= kMaxStrangers) return core_->transport.close(peer);
  core_->strangers[peer] = core_->clock.now_ns();
}

void Coordinator::on_frame(PeerId peer, std::span<const std::byte> frame) { core_->on_frame(peer, frame); }

void Coordinator::on_lost(PeerId peer, PeerLoss why) {
  core_->strangers.erase(peer);
  if (peer == core_->old.peer) core_->old.peer = 0;
  if (core_->phase == CoordinatorCore::Phase::stopped) core_->peers.erase(peer);
  else if (peer == core_->follower.peer) core_->lose_standby(std::string("connection ") + to_string(why));
  else if (const auto it = core_->peers.find(peer); it != core_->peers.end())
    core_->lose(it->second, "worker_lost", std::string("connection ") + to_string(why));
}

void Coordinator::on_timer(uint64_t timer) {
  if (timer == CoordinatorCore::kClose) {
    for (const auto& [peer, id] : core_->peers) core_->transport.close(peer);
    for (const auto& [peer, since] : core_->strangers) core_->transport.close(peer);
    core_->peers.clear(), core_->strangers.clear();
    core_->closed = true;
  }
  if (core_->phase == CoordinatorCore::Phase::stopped) return;
  switch (timer) {
    case CoordinatorCore::kTick: return core_->tick();
    case CoordinatorCore::kJoin: core_->joining_timer = false; return core_->form_if_calm();
    case CoordinatorCore::kGrace: return core_->rounds->on_grace();
    case CoordinatorCore::kLink: return core_->judge_links();
    default: assert(false);
  }
}

void Coordinator::on_bytes(PeerId peer) {
  CoordinatorCore& c = *core_;
  if (peer == c.follower.peer) c.follower.heard_ns = c.clock.now_ns();
  const auto known = c.peers.find(peer);
  if (known == c.peers.end()) return;
  // Once stopped, a connection may be known longer than its worker.
  if (const auto node = c.nodes.find(known->second); node != c.nodes.end()) node->second.heard_ns = c.clock.now_ns();
}

void Coordinator::on_writable(PeerId peer) {
  core_->sender.on_writable(peer);
  if (core_->options.example_service) core_->options.example_service->on_writable(peer);
  if (peer == core_->follower.peer) core_->catch_up_standby();
}

}  // namespace perigee
