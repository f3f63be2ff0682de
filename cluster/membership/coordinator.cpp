#include "cluster/membership/coordinator.h"

#include <algorithm>
#include <cassert>

#include "cluster/membership/coordinator_impl.h"
#include "cluster/planted.h"
#include "src/io/digest.h"

namespace perigee {
namespace {

constexpr uint64_t kTickNs = 100'000'000;
constexpr uint64_t kHelloNs = 5'000'000'000;  // from a connection to its Join
constexpr uint64_t kCloseNs = 1'000'000'000;  // from Stop to the end of connections that are still there
constexpr uint64_t kSyncNs = 200'000'000;     // the ledger goes to disk at most this much later
constexpr uint64_t kToldNs = 60'000'000'000;  // between two lines about the same trouble
constexpr size_t kMaxStrangers = 1024;
constexpr uint64_t kGenerationsBetween = 1000;  // above what the ledger knows: forming leaves no record

ShardedOrder order_of(const CoordinatorOptions& options) {
  return options.shards > 1 ? ShardedOrder(options.examples, options.shards, options.batch) : ShardedOrder();
}

}  // namespace

Coordinator::Impl::Impl(CoordinatorOptions given, Clock& c, Rng& r, Transport& t, LedgerStore& ledger, CoordinatorEvents& e)
    : options(std::move(given)),
      clock(c),
      rng(r),
      transport(t),
      events(e),
      mirror(ledger, [this](std::span<const std::byte> record) { on_appended(record); }),
      books(mirror, options.examples, options.planned, order_of(options)),
      in_force(options.memberships),
      sender(t),
      pace(options.policy),
      guard(options.policy.guard) {
  assert(options.examples > 0 && options.batch > 0 && options.min_workers > 0);
  lease = options.lease != nullptr ? options.lease : !options.standby.empty() || options.is_standby ? &votes : nullptr;
}

void Coordinator::Impl::start() {
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
  transport.start_timer(kTick, ticked_ns + kTickNs);
}

void Coordinator::Impl::tick() {
  const uint64_t now = clock.now_ns();
  // This process itself stood still: what the workers said since may be waiting in its sockets.
  if (now - ticked_ns > 5 * kTickNs) {
    const uint64_t gap = now - ticked_ns - kTickNs;
    const auto forgive = [&](uint64_t& since) {
      if (since != 0) since = std::min(now, since + gap);  // never later than now: some of it may have come since this process goes on
    };
    for (auto& [id, node] : nodes) forgive(node.heard_ns), forgive(node.stepped_ns), forgive(node.leased_ns), forgive(node.heal_ns);
    forgive(forming_since_ns), forgive(first_done_ns), forgive(first_ready_ns), forgive(image_ns);
  }
  ticked_ns = now;
  transport.start_timer(kTick, now + kTickNs);

  std::vector<PeerId> late;
  for (const auto& [peer, since] : strangers)
    if (now - since > kHelloNs) late.push_back(peer);
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
  tell_old(now);
  tell_finished();

  check_silence(now);
  if (phase == Phase::stopped) return;
  beat_unasked(now);
  if ((phase == Phase::recovering || gathering()) && first_join_ns != 0) form_if_calm();
  if (phase == Phase::forming) check_forming(now);
  if (phase == Phase::forming || phase == Phase::running) check_healing(now);
  if (phase == Phase::running) check_progress(now);
  if (phase == Phase::running) check_evaluation(now);
  if (phase == Phase::running) check_rounds(now);
  if (phase == Phase::running) check_images(now);
  if (phase == Phase::waiting && options.give_up_ms > 0 && now - short_since_ns > ns(options.give_up_ms))
    fail(Error(ErrorKind::cluster, {.what = "too few workers for " + std::to_string(static_cast<int64_t>(options.give_up_ms)) + " ms",
                                    .got = std::to_string(nodes.size()),
                                    .expected = "at least " + std::to_string(options.min_workers)}));
  if (options.is_standby && lease != nullptr && options.take_over_ms > 0 && now - started_ns > ns(options.take_over_ms))
    fail(Error(ErrorKind::cluster, {.what = "the standby could not take over: fewer than half of the workers came",
                                    .got = std::to_string(nodes.size()),
                                    .hint = "the coordinator may be alive with the others"}));
}

void Coordinator::Impl::on_frame(PeerId peer, std::span<const std::byte> frame) {
  FrameHeader h;
  if (phase == Phase::stopped) {  // whoever comes late hears it too
    if (const auto worker = peers.find(peer); worker != peers.end() && options.trace) {
      Traced last;
      if (read_header(frame, &h) && h.type == MessageType::traced && decode(frame.subspan(kHeaderBytes), &last))
        on_traced(worker->second, last);
    }
    if (strangers.erase(peer) == 0) return;
    if (last_word.why.empty()) return transport.close(peer);  // another coordinator speaks for the run now
    peers[peer] = 0;
    transport.send(peer, encode(last_word, header(books.round())));
    return;
  }
  const auto known = peers.find(peer);
  if (!read_header(frame, &h) || frame.size() != kHeaderBytes + h.length) {
    ++dropped.malformed;
    if (known != peers.end()) return evict(known->second, "worker_lost", "it sent a malformed frame", true);
    strangers.erase(peer);
    return transport.close(peer);
  }
  if (h.protocol != kProtocol) {
    strangers.erase(peer);
    return refuse(peer, {.kind = 5,
                         .what = "another protocol version",
                         .got = std::to_string(h.protocol),
                         .expected = std::to_string(kProtocol),
                         .hint = "install the same version on every machine"});
  }
  const auto payload = frame.subspan(kHeaderBytes);
  if (peer == follower.peer) return on_standby_frame(h, payload);
  if (known == peers.end()) {
    if (!strangers.contains(peer)) return;  // closed by now
    if (h.type == MessageType::status) {
      strangers[peer] = clock.now_ns();  // whoever asks may stay
      Status question;
      if (decode(payload, &question)) transport.send(peer, encode(Report{.json = status().dump()}, header(books.round())));
      return;
    }
    if (Steer wish; h.type == MessageType::steer && decode(payload, &wish)) {
      strangers[peer] = clock.now_ns();
      return on_steer(peer, wish);
    }
    if (Follow follow; h.type == MessageType::follow && decode(payload, &follow)) return on_follow(peer, h, follow);
    if (TakenOver over; h.type == MessageType::taken_over && decode(payload, &over)) return on_taken_over(peer, h, over);
    Join join;
    if (h.type != MessageType::join || !decode(payload, &join)) {
      ++(h.type != MessageType::join ? dropped.unexpected : dropped.malformed);
      strangers.erase(peer);
      return transport.close(peer);
    }
    return on_join(peer, h, std::move(join));
  }
  Node& node = nodes.at(known->second);
  node.heard_ns = clock.now_ns();
  if (h.job != options.job_id) {
    ++dropped.job;
    return;
  }
  if (h.generation > generation) return fail(superseded_by(h.generation, follower.address, generation));
  on_node_frame(node, h, payload);
}

void Coordinator::Impl::on_node_frame(Node& node, const FrameHeader& h, std::span<const std::byte> payload) {
  const WorkerId id = node.id;
  const auto read = [&](auto& message, std::span<const std::byte>* body = nullptr) {
    if (decode(payload, &message, body)) return true;
    ++dropped.malformed;
    evict(id, "worker_lost", "it sent a malformed frame", true);
    return false;
  };
  const auto fenced = [&](bool in_phase) {
    if ((h.generation == generation || planted(Bug::dropped_fence)) && node.member && in_phase) return true;
    ++(h.generation < generation ? dropped.stale : dropped.unexpected);
    return false;
  };
  const bool active = phase == Phase::forming || phase == Phase::running;
  switch (h.type) {
    case MessageType::beat: {
      Beat m;
      if (read(m)) on_beat(node, m);
      return;
    }
    case MessageType::done: {
      Done m;
      if (fenced(phase == Phase::running) && read(m)) on_done(node, h, std::move(m));
      return;
    }
    case MessageType::ready: {
      Ready m;
      if (fenced(phase == Phase::running) && read(m)) on_ready(node, h, std::move(m));
      return;
    }
    case MessageType::served: {
      Served m;
      if (fenced(phase == Phase::running) && read(m)) on_served(node, h, std::move(m));
      return;
    }
    case MessageType::formed: {
      Formed m;
      if (!read(m)) return;
      if (node.state == Node::State::opening || node.state == Node::State::waiting) return worker_is_open(node, m);
      if (fenced(phase == Phase::forming && !node.formed)) on_formed(node, std::move(m));
      return;
    }
    case MessageType::healed: {
      Healed m;
      if (fenced(active && node.state == Node::State::healing) && read(m)) on_healed(node, m);
      return;
    }
    case MessageType::link_lost: {
      LinkLost m;
      if (fenced(active) && read(m)) on_link_lost(node, m);
      return;
    }
    case MessageType::fetch: {
      Fetch m;
      if (fenced(active) && read(m)) on_fetch(node, m);
      return;
    }
    case MessageType::evaluated: {
      Evaluated m;
      if (read(m)) on_evaluated(node, std::move(m));
      return;
    }
    case MessageType::image: {
      Image m;
      std::span<const std::byte> body;
      if (read(m, &body)) on_image(node, m, body);
      return;
    }
    case MessageType::read: {
      Read m;
      if (!read(m)) return;
      if (options.example_service && options.example_service->on_read(node.peer, h, std::move(m))) return;
      ++dropped.reads;
      return evict(id, "worker_lost", "it asked for examples that are not served", false);
    }
    case MessageType::traced: {
      Traced m;
      if (read(m)) on_traced(id, m);
      return;
    }
    case MessageType::witness: {
      Witness m;
      if (read(m)) on_witness(m);
      return;
    }
    case MessageType::leave: {
      Leave m;
      if (read(m)) lose(id, "worker_left", m.why);
      return;
    }
    case MessageType::failed: {
      Failed m;
      if (read(m)) on_failed(node, m);
      return;
    }
    default: ++dropped.unexpected;
  }
}

void Coordinator::Impl::refuse(PeerId peer, Refuse message) {
  transport.send(peer, encode(message, header(-1)));
  transport.close(peer);
}

void Coordinator::Impl::on_join(PeerId peer, const FrameHeader& h, Join join) {
  strangers.erase(peer);
  const auto deny = [&](Refuse r) {
    Json line = Json::object();
    line.set("event", "worker_refused");
    line.set("worker", join.name);
    line.set("host", host_name_in(join.host));
    line.set("cause", r.what);
    line.set("got", r.got);
    line.set("expected", r.expected);
    events.on_event(line);
    refuse(peer, std::move(r));
  };
  if (join.version != PERIGEE_VERSION)
    return deny({.kind = 5,
                 .what = "another version",
                 .got = join.version,
                 .expected = PERIGEE_VERSION,
                 .hint = "install the same version on every machine"});
  if (h.job != 0 && h.job != options.job_id)
    return deny({.kind = 5,
                 .what = "another run",
                 .got = hex_digest(h.job),
                 .expected = hex_digest(options.job_id),
                 .hint = "start a new worker for this run"});
  if (join.fingerprint != 0 && fingerprint != 0 && join.fingerprint != fingerprint)
    return deny({.kind = 3, .what = "another data set", .got = hex_digest(join.fingerprint), .expected = hex_digest(fingerprint)});
  if (nodes.size() >= kMaxWorkers)
    return deny({.kind = 7,
                 .retry = true,
                 .what = "too many workers",
                 .got = std::to_string(nodes.size() + 1),
                 .expected = "at most " + std::to_string(kMaxWorkers)});
  if (const std::string why = why_no_server(join); !why.empty()) return deny({.kind = 5, .retry = options.policy.served, .what = why});
  if (h.generation > generation) {
    if (formed_once) return fail(superseded_by(h.generation, follower.address, generation));
    generation = options.is_standby ? next_term(h.generation) : h.generation;
  }
  if (const auto same = nodes.find(join.id); same != nodes.end() && same->second.address != join.address) join.id = 0;  // another one's
  if (join.id != 0 && nodes.contains(join.id)) lose(join.id, "worker_lost", "it came again on another connection");
  if (phase == Phase::stopped) return;
  const WorkerId id = join.id != 0 ? join.id : next_id;
  next_id = std::max(next_id, id + 1);
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

void Coordinator::Impl::on_beat(Node& node, const Beat& beat) {
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
  if (!node.waits_for.empty()) node.stepped_ns = now;  // it is somebody else's turn
  node.told_ns = now;
  tell(node, Beat{.sent_ns = now, .echo_ns = beat.sent_ns}, books.round());
}

void Coordinator::Impl::on_failed(Node& node, const Failed& failed) {
  if (!failed.for_all) return lose(node.id, "worker_failed", failed.text);
  const std::string name = node.name;
  fail(Error(static_cast<ErrorKind>(std::clamp<uint16_t>(failed.kind, 2, 7)), {.where = "worker " + name, .what = failed.text}));
}

// The worker is gone: its work goes back, and the others go on without it.
void Coordinator::Impl::lose(WorkerId id, const std::string& event_name, const std::string& cause) {
  const auto it = nodes.find(id);
  assert(it != nodes.end());
  Node node = std::move(it->second);
  const bool was_member = node.member;
  const int64_t given = examples_of(node.leased);
  if (was_member) note_lost_work(node);
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
  pace.forget(id);
  std::string done = given > 0 ? std::to_string(given) + " examples go back to be done by others; " : "";
  done += was_member ? std::to_string(members.size()) + " workers go on" : "it was not taking part";
  event(event_name.c_str(), &node, cause, done);
  if (was_member && (phase == Phase::forming || phase == Phase::running)) form();
}

void Coordinator::Impl::evict(WorkerId id, const std::string& event_name, const std::string& cause, bool come_back) {
  const Node& node = nodes.at(id);
  transport.send(node.peer, encode(Refuse{.kind = 5, .retry = come_back, .what = cause}, header(-1)));
  lose(id, event_name, cause);
}

// Who has much to send answers late: it must not take this side for dead because it is slow itself.
void Coordinator::Impl::beat_unasked(uint64_t now) {
  for (auto& [id, node] : nodes)
    if (now - node.told_ns > ns(1.5 * options.beat_ms)) node.told_ns = now, tell(node, Beat{.sent_ns = now}, books.round());
}

void Coordinator::Impl::check_silence(uint64_t now) {
  if (planted(Bug::silence_ignored)) return;
  std::vector<WorkerId> silent;
  for (const auto& [id, node] : nodes)
    if (now > node.heard_ns && now - node.heard_ns > ns(options.silent_ms)) silent.push_back(id);
  for (const WorkerId id : silent) {
    if (phase == Phase::stopped || !nodes.contains(id)) continue;
    evict(id, "worker_lost", "silent for " + std::to_string((now - nodes.at(id).heard_ns) / 1'000'000) + " ms", true);
  }
}

double Coordinator::Impl::median_step_s() const {
  std::vector<double> steps;
  for (const WorkerId id : members)
    if (nodes.at(id).step_s > 0) steps.push_back(nodes.at(id).step_s);
  const auto middle = steps.begin() + static_cast<ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return steps.empty() ? 0 : *middle;
}

// A worker that beats but does not step.
void Coordinator::Impl::check_progress(uint64_t now) {
  if (go_held || border || finished || planted(Bug::stuck_ignored)) return;
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
WorkerId Coordinator::Impl::keeps_others_waiting(uint64_t now) const {
  if (planted(Bug::stuck_ignored)) return 0;
  for (const WorkerId id : members) {
    const Node& node = nodes.at(id);
    if (node.state == Node::State::training && node.waits_for.empty() && now > node.stepped_ns &&
        now - node.stepped_ns >= ns(0.9 * options.policy.deadline_ms))
      return id;
  }
  return 0;
}

void Coordinator::Impl::event(const char* name, const Node* node, const std::string& cause, const std::string& done) {
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

void Coordinator::Impl::fail(const Error& error) {
  if (phase == Phase::stopped) return;
  // Workers of a run that somebody else has taken over are not told to stop; nor those that this one never had.
  if (is_superseded(error) || (options.is_standby && !established)) abandon();
  else stop(error.what(), false);
  events.on_failed(error);
}

void Coordinator::Impl::abandon() {
  if (phase == Phase::stopped) return;
  if (options.example_service)
    for (const auto& [peer, id] : peers) options.example_service->on_lost(peer);
  for (const auto& [peer, id] : peers) transport.close(peer);
  for (const auto& [peer, since] : strangers) transport.close(peer);
  for (const PeerId peer : {follower.peer, old.peer})
    if (peer != 0) transport.close(peer);
  follower.peer = old.peer = 0;
  peers.clear(), strangers.clear(), nodes.clear(), members.clear();
  for (const uint64_t timer : {kTick, kJoin, kGrace, kLink}) transport.stop_timer(timer);
  phase = Phase::stopped;
  books.sync(clock.now_ns(), 0);
}

void Coordinator::Impl::stop(const std::string& why, bool is_finished) {
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

// ---- the public face ----

Coordinator::Coordinator(CoordinatorOptions options, Clock& clock, Rng& rng, Transport& transport, LedgerStore& ledger,
                         CoordinatorEvents& events)
    : impl_(std::make_unique<Impl>(std::move(options), clock, rng, transport, ledger, events)) {}
Coordinator::~Coordinator() = default;

void Coordinator::start() { impl_->start(); }
void Coordinator::request_evaluation(const std::string& part, int64_t examples) { impl_->request_evaluation(part, examples); }
void Coordinator::expect_workers(int count) { impl_->expect_workers(count); }
void Coordinator::release() { impl_->release(); }
uint64_t Coordinator::request_image(const std::string& what) { return impl_->request_image(what); }
void Coordinator::set_resume(int64_t round, SharedBytes image) { impl_->set_resume(round, std::move(image)); }
void Coordinator::set_session(std::string json) { impl_->set_session(std::move(json)); }
void Coordinator::steer(const Json& command) { impl_->steer(command); }
void Coordinator::describe(const std::string& key, Json value) { impl_->about.set(key, std::move(value)); }
void Coordinator::stop(const std::string& why, bool finished) { impl_->stop(why, finished); }
void Coordinator::abandon() { impl_->abandon(); }
bool Coordinator::established() const { return impl_->established; }
int64_t Coordinator::round() const { return impl_->books.round(); }
std::optional<uint64_t> Coordinator::hash_of(int64_t round) const { return impl_->books.hash_of(round); }
uint64_t Coordinator::generation() const { return impl_->generation; }
int64_t Coordinator::examples_done() const { return impl_->books.examples_done(); }

std::vector<WorkerView> Coordinator::workers() const { return impl_->views(); }
RoundView Coordinator::round_view() const { return impl_->round_view(); }
Json Coordinator::status() const { return impl_->status(); }
Json Coordinator::counters() const { return impl_->counters(); }

void Coordinator::on_connected(PeerId peer, const std::string&) {
  if (peer == impl_->old.peer && peer != 0) {
    impl_->transport.send(peer, encode(TakenOver{.address = impl_->options.address}, impl_->header(impl_->books.round())));
    return;
  }
  if (impl_->closed) impl_->transport.send(peer, encode(impl_->last_word, impl_->header(impl_->books.round())));
  if (impl_->closed || impl_->strangers.size() >= kMaxStrangers) return impl_->transport.close(peer);
  impl_->strangers[peer] = impl_->clock.now_ns();
}

void Coordinator::on_frame(PeerId peer, std::span<const std::byte> frame) { impl_->on_frame(peer, frame); }

void Coordinator::on_lost(PeerId peer, PeerLoss why) {
  impl_->strangers.erase(peer);
  if (peer == impl_->old.peer) impl_->old.peer = 0;
  if (impl_->phase == Impl::Phase::stopped) impl_->peers.erase(peer);
  else if (peer == impl_->follower.peer) impl_->lose_standby(std::string("connection ") + to_string(why));
  else if (const auto it = impl_->peers.find(peer); it != impl_->peers.end())
    impl_->lose(it->second, "worker_lost", std::string("connection ") + to_string(why));
}

void Coordinator::on_timer(uint64_t timer) {
  if (timer == Impl::kClose) {
    for (const auto& [peer, id] : impl_->peers) impl_->transport.close(peer);
    for (const auto& [peer, since] : impl_->strangers) impl_->transport.close(peer);
    impl_->peers.clear(), impl_->strangers.clear();
    impl_->closed = true;
  }
  if (impl_->phase == Impl::Phase::stopped) return;
  switch (timer) {
    case Impl::kTick: return impl_->tick();
    case Impl::kJoin: impl_->joining_timer = false; return impl_->form_if_calm();
    case Impl::kGrace: return impl_->check_begin();
    case Impl::kLink: return impl_->judge_links();
    default: assert(false);
  }
}

void Coordinator::on_bytes(PeerId peer) {
  Impl& c = *impl_;
  if (peer == c.follower.peer) c.follower.heard_ns = c.clock.now_ns();
  const auto known = c.peers.find(peer);
  if (known == c.peers.end()) return;
  // Once stopped, a connection may be known longer than its worker.
  if (const auto node = c.nodes.find(known->second); node != c.nodes.end()) node->second.heard_ns = c.clock.now_ns();
}

void Coordinator::on_writable(PeerId peer) {
  impl_->sender.on_writable(peer);
  if (impl_->options.example_service) impl_->options.example_service->on_writable(peer);
  if (peer == impl_->follower.peer) impl_->catch_up_standby();
}

}  // namespace perigee
