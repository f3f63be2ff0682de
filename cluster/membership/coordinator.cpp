#include "cluster/membership/coordinator.h"

#include <algorithm>
#include <cassert>

#include "cluster/membership/coordinator_core.h"
#include "cluster/planted.h"

namespace perigee {
namespace {

constexpr uint64_t kTickNs = 100'000'000;
constexpr uint64_t kJoinNs = 5'000'000'000;   // from a connection to its Join
constexpr uint64_t kCloseNs = 1'000'000'000;  // from Stop to the end of connections that are still there: of who watches
constexpr uint64_t kEndNs = 10'000'000'000;   // and of workers that do not close theirs
constexpr uint64_t kSyncNs = 200'000'000;     // the ledger goes to disk at most this much later
constexpr uint64_t kToldNs = 60'000'000'000;  // between two lines about the same trouble
constexpr size_t kMaxStrangers = 1024;
constexpr uint64_t kGenerationsBetween = 1000;  // above what the ledger knows: forming leaves no record

ShardedOrder order_of(const CoordinatorOptions& options) {
  if (options.streams > 0) return ShardedOrder::of_streams(options.examples, options.shards, options.streams);
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
      partitions(options.partitions),
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
  if (options.takes_over)
    for (const WorkerId id : books.last_members()) gone[id] = {.name = "", .pid = 0, .round = books.round()};
  phase = options.takes_over ? Phase::recovering : Phase::waiting;
  started_ns = ticked_ns = clock.now_ns();
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
  if (options.is_standby && !established && lease != nullptr && options.take_over_ms > 0 && now - started_ns > ns(options.take_over_ms))
    fail(Error(ErrorKind::cluster, {.where = "standby",
                                    .what = "the standby could not take over: fewer than half of the workers came" + missing(),
                                    .got = std::to_string(nodes.size()),
                                    .hint = "the coordinator may be alive with the others"}));
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
  // The workers close. To close here at once could lose the word to those who are just sending something, and to close before a worker does
  // could lose it to one that is cut off, or stopped.
  stopped_ns = clock.now_ns();
  transport.start_timer(kClose, stopped_ns + kCloseNs);
  for (auto& [id, node] : nodes) untold[node.peer] = {.name = std::move(node.name), .pid = node.pid};
  nodes.clear(), members.clear();
  for (const uint64_t timer : {kTick, kJoin, kGrace, kLink}) transport.stop_timer(timer);
  books.sync(clock.now_ns(), 0);
}

// Closes what is still open some time after the last word.
void CoordinatorCore::close_rest() {
  closed = true;
  const bool at_last = clock.now_ns() >= stopped_ns + kEndNs;
  for (auto it = peers.begin(); it != peers.end();) {
    const bool waits = !at_last && untold.contains(it->first);
    if (!waits) transport.close(it->first);
    it = waits ? std::next(it) : peers.erase(it);
  }
  for (const auto& [peer, since] : strangers) transport.close(peer);
  strangers.clear();
  if (!peers.empty()) transport.start_timer(kClose, stopped_ns + kEndNs);
}

// A worker that has heard the last word closes its connection; one that ends otherwise may have lost it.
void CoordinatorCore::lose_late(PeerId peer, PeerLoss why) {
  peers.erase(peer);
  const auto worker = untold.find(peer);
  if (worker == untold.end()) return;
  const auto& [name, pid] = worker->second;
  if (why != PeerLoss::closed) away[name] = {.since_ns = clock.now_ns(), .pid = pid, .lives = why == PeerLoss::timed_out};
  untold.erase(worker);
}

// A worker that comes again after the end has given up the connections on which it did not hear of it.
void CoordinatorCore::forget_earlier(const std::string& name) {
  away.erase(name);
  std::vector<PeerId> earlier;
  for (const auto& [peer, worker] : untold)
    if (worker.name == name) earlier.push_back(peer);
  for (const PeerId peer : earlier) {
    untold.erase(peer), peers.erase(peer);
    transport.close(peer);
  }
}

// ---- work ----

double CoordinatorCore::progress() const {
  return options.planned > 0 ? static_cast<double>(books.examples_done()) / static_cast<double>(options.planned) : 0;
}

int64_t CoordinatorCore::local_batch() const {
  if (options.streams > 0) return options.streams / options.shards;
  const auto workers = std::max<int64_t>(1, static_cast<int64_t>(trainers()));
  return options.global_batch > 0 ? std::max<int64_t>(1, options.global_batch / workers) : options.batch;
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
void Coordinator::note_death(const std::string& worker, uint32_t pid) { core_->note_death(worker, pid); }
bool Coordinator::established() const { return core_->established; }
std::vector<std::string> Coordinator::expected_back() const { return core_->expected_back(); }
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
  if (core_->strangers.size() >= kMaxStrangers) return core_->transport.close(peer);
  core_->strangers[peer] = core_->clock.now_ns();
  if (core_->closed) core_->transport.start_timer(CoordinatorCore::kClose, core_->clock.now_ns() + kCloseNs);  // its Join says who it is
}

void Coordinator::on_frame(PeerId peer, std::span<const std::byte> frame) { core_->on_frame(peer, frame); }

void Coordinator::on_lost(PeerId peer, PeerLoss why) {
  core_->strangers.erase(peer);
  if (peer == core_->old.peer) core_->old.peer = 0;
  if (core_->phase == CoordinatorCore::Phase::stopped) core_->lose_late(peer, why);
  else if (peer == core_->follower.peer) core_->lose_standby(std::string("connection ") + to_string(why));
  else if (const auto it = core_->peers.find(peer); it != core_->peers.end())
    core_->lose(it->second, "worker_lost", std::string("connection ") + to_string(why),
                why == PeerLoss::timed_out ? CoordinatorCore::Return::some_time : CoordinatorCore::Return::soon);
}

void Coordinator::on_timer(uint64_t timer) {
  if (timer == CoordinatorCore::kClose) core_->close_rest();
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
