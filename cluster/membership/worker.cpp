#include "cluster/membership/worker.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "cluster/membership/worker_impl.h"
#include "cluster/planted.h"
#include "cluster/rounds/inner_plan.h"

namespace perigee {
namespace {

constexpr uint64_t kTickNs = 100'000'000;
constexpr uint64_t kConnectNs = 5'000'000'000;
constexpr uint64_t kAnswerNs = 100'000'000;  // the coordinator only answers beats: its answer to the last one may be on the way
constexpr int kProbes = 8;
constexpr int kTracedAtOnce = 8;  // frames
constexpr size_t kMaxCoordinators = 8;

}  // namespace

Worker::Impl::Impl(WorkerOptions given, Clock& c, Rng& r, Transport& t, Replica& rep, WorkerEvents& e)
    : options(std::move(given)),
      clock(c),
      rng(r),
      transport(t),
      replica(rep),
      events(e),
      job(options.job_id),
      times(options.trace, kLoopRow),
      links(t, c),
      sender(t, kMaxWorkers + kMaxTransfers),
      inner_exchange([this](WorkerId to, int64_t number, Chunk chunk, std::span<const std::byte> body) {
        chunk.inner = static_cast<uint32_t>(number % inner.count) + 1;
        return send_chunk(to, number / inner.count, chunk, body);
      }),
      exchange([this](WorkerId to, int64_t round, const Chunk& chunk, std::span<const std::byte> body) {
        return send_chunk(to, round, chunk, body);
      }) {
  assert(!options.coordinators.empty());
}

void Worker::Impl::start() {
  assert(state == State::idle);
  ticked_ns = alone_since_ns = clock.now_ns();
  transport.start_timer(kTick, ticked_ns + kTickNs);
  connect();
}

void Worker::Impl::connect() {
  const std::string& address = options.coordinators[attempt % options.coordinators.size()];
  state = State::connecting;
  coordinator = transport.connect(address, clock.now_ns() + kConnectNs);
}

void Worker::Impl::schedule_retry() {
  backoff_ms = backoff_ms == 0 ? options.retry_ms : std::min(backoff_ms * 2, options.retry_max_ms);
  const double jitter = 0.5 + static_cast<double>(rng.next() % 1024) / 2048;  // so that many do not come at the same moment
  ++attempt;
  state = State::idle;
  if (!planted(Bug::no_retry)) transport.start_timer(kRetry, clock.now_ns() + ns(backoff_ms * jitter));
}

// Result, contribution and log are kept; the exchange ends, since who takes part in what comes next is not known.
void Worker::Impl::lose_coordinator(const std::string& why) {
  assert(state != State::stopped);
  const bool was_joined = state != State::connecting && state != State::idle;
  if (coordinator != 0) {
    sender.forget(coordinator);
    transport.close(coordinator);
  }
  coordinator = 0;
  if (was_joined) {
    events.on_coordinator_lost();
    alone_since_ns = clock.now_ns();
    event("coordinator_lost", Json(Json::Object{{"cause", why}, {"done", "keeps its result and tries the coordinators in turn"}}));
  }
  stop_work(true);
  marked_ns = 0;
  formed_due = false;
  healing.reset();
  receiver.cancel();
  go.reset();
  schedule_retry();
}

void Worker::Impl::on_coordinator_frame(const FrameHeader& h, std::span<const std::byte> payload) {
  heard_ns = clock.now_ns();
  if (job != 0 && h.job != job && h.type != MessageType::refuse) {
    ++dropped.job;
    return;
  }
  const auto read = [&](auto& message) {
    if (decode(payload, &message)) return true;
    ++dropped.malformed;
    lose_coordinator("the coordinator sent a malformed frame");
    return false;
  };
  const bool current = h.generation == generation && (state == State::forming || state == State::running);
  const auto fenced = [&] {
    if (current) return true;
    ++(h.generation < generation ? dropped.stale : dropped.unexpected);
    return false;
  };
  switch (h.type) {
    case MessageType::welcome: {
      Welcome m;
      if (read(m)) on_welcome(h, m);
      return;
    }
    case MessageType::refuse: {
      Refuse m;
      if (read(m)) on_refuse(m);
      return;
    }
    case MessageType::form: {
      Form m;
      if (read(m)) on_form(h, std::move(m));
      return;
    }
    case MessageType::heal: {
      Heal m;
      if (fenced() && read(m)) on_heal(m);
      return;
    }
    case MessageType::go: {
      Go m;
      if (fenced() && read(m)) on_go(h, std::move(m));
      return;
    }
    case MessageType::lease: {
      Lease m;
      if (fenced() && read(m)) on_lease(std::move(m));
      return;
    }
    case MessageType::begin: {
      Begin m;
      if (fenced() && read(m)) on_begin(h, std::move(m));
      return;
    }
    case MessageType::commit: {
      Commit m;
      if (fenced() && read(m)) on_commit(h, m);
      return;
    }
    case MessageType::evaluate: {
      Evaluate m;
      if (fenced() && read(m)) on_evaluate(m);
      return;
    }
    case MessageType::snapshot: {
      Snapshot m;
      if (fenced() && read(m)) request_snapshot(m.what == "checkpoint", coordinator, m.request);
      return;
    }
    case MessageType::beat: {
      Beat m;
      if (!read(m)) return;
      echo_ns = m.sent_ns, echo_heard_ns = heard_ns;
      if (probes > 0) --probes, beat();
      return;
    }
    case MessageType::examples: {
      Examples m;
      std::span<const std::byte> body;
      if (decode(payload, &m, &body) && events.on_examples(m, body)) return;
      ++dropped.malformed;
      return lose_coordinator("the coordinator sent examples that were not asked for");
    }
    case MessageType::image: {
      Image m;
      std::span<const std::byte> body;
      if (!decode(payload, &m, &body)) {
        ++dropped.malformed;
        lose_coordinator("the coordinator sent a malformed frame");
      } else {
        on_image(coordinator, m, body);
      }
      return;
    }
    case MessageType::coordinators: {
      Coordinators m;
      if (read(m)) on_coordinators(m);
      return;
    }
    case MessageType::stop: {
      Stop m;
      if (!read(m)) return;
      send_trace();
      end();
      events.on_stopped(m.why, m.finished);
      return;
    }
    default: ++dropped.unexpected;
  }
}

void Worker::Impl::on_welcome(const FrameHeader& h, const Welcome& welcome) {
  if (state != State::joining) {
    ++dropped.unexpected;
    return;
  }
  if (h.generation < generation) {  // an old coordinator that was stopped for a while: another one has taken over
    ++dropped.stale;
    tell(Refuse{.retry = false,
                .what = "the coordinator's generation is old",
                .got = std::to_string(h.generation),
                .expected = std::to_string(generation)},
         -1);
    return lose_coordinator("its generation " + std::to_string(h.generation) + " is older than " + std::to_string(generation));
  }
  if (welcome.version != PERIGEE_VERSION)
    return fail(Error(ErrorKind::cluster, {.what = "the coordinator runs another version",
                                           .got = welcome.version,
                                           .expected = PERIGEE_VERSION,
                                           .hint = "install the same version on every machine"}),
                false);
  job = h.job;
  id = welcome.id;
  links.join(id);
  backoff_ms = 0;
  alone_since_ns = 0;
  if (welcome.trace && options.trace) {
    options.trace->turn_on();
    probes = kProbes;
    beat();
  }
  state = opened ? State::ready : State::opening;
  events.on_joined();
  if (state != (opened ? State::ready : State::opening)) return;  // lost while it asked
  if (opened) return send_formed();
  if (opening) return;  // asked for before the coordinator was lost
  opening = true;
  try {
    const Json description = Json::parse(welcome.job, "job");
    policy = read_policy(description.find("averaging"), "job");
    inner.count = inner_exchanges(policy);
    if (const Json* seed = description.find("seed"); seed && seed->is_int()) inner.seed = static_cast<uint64_t>(seed->as_int());
    Welcome own = welcome;
    if (own.threads <= 0) own.threads = static_cast<int>(options.threads);
    work.threads = static_cast<uint32_t>(std::max<int64_t>(1, own.threads));
    if (options.server) events.on_opening(own);
    replica.open(own);
  } catch (const Error& error) {
    fail(error, true);
  }
}

void Worker::Impl::on_refuse(const Refuse& refuse) {
  std::string text = refuse.what;
  if (!refuse.got.empty()) text += ", got " + refuse.got;
  if (refuse.retry) return lose_coordinator("refused: " + text);
  end();
  events.on_failed(
      Error(static_cast<ErrorKind>(std::clamp<uint16_t>(refuse.kind, 2, 7)),
            {.where = options.name, .what = refuse.what, .got = refuse.got, .expected = refuse.expected, .hint = refuse.hint}));
}

// The first stays where it is: what this worker was started with may be another name of it.
void Worker::Impl::on_coordinators(const Coordinators& where) {
  std::vector<std::string> standbys;
  for (const std::string& address : where.addresses) {
    const bool usable = !address.empty() && address.size() <= kMaxText && standbys.size() < kMaxCoordinators;
    if (usable && address != options.coordinators.front()) standbys.push_back(address);
  }
  options.coordinators.resize(1);
  options.coordinators.insert(options.coordinators.end(), standbys.begin(), standbys.end());
}

// Where a standby may take over, coordinators must know of each other's memberships.
void Worker::Impl::bear_witness() {
  if (options.coordinators.size() > 1 && !memberships.empty()) tell(Witness{memberships}, held_round);
}

void Worker::Impl::beat() {
  beat_ns = clock.now_ns();
  if (planted(Bug::no_beats)) return;
  tell(Beat{.sent_ns = beat_ns,
            .echo_ns = echo_ns != 0 ? echo_ns + (beat_ns - echo_heard_ns) : 0,  // less the time that it lay here
            .step = replica.steps(),
            .evaluated = replica.evaluated(),
            .examples_per_s = examples_per_s,
            .bytes_up = bytes_up,
            .bytes_down = bytes_down,
            .waits_for = waits_for()},
       held_round);
  echo_ns = 0;
}

// The time since the last mark, or since whatever set `marked_ns`, went into `phase`.
void Worker::Impl::mark(TracePhase phase) {
  const uint64_t now = clock.now_ns();
  if (marked_ns != 0) times.add(phase, marked_ns, now);
  marked_ns = now;
}

// What the threads of this process have put into the ring since the last time.
void Worker::Impl::send_trace() {
  if (!options.trace || !options.trace->on() || !connected()) return;
  std::array<PhaseSpan, 256> spans;
  size_t taken = spans.size();
  for (int frame = 0; frame < kTracedAtOnce && taken == spans.size(); ++frame) {
    Traced message{.dropped = options.trace->dropped()};
    while (message.spans.size() + spans.size() <= kMaxTraced && (taken = options.trace->take(spans)) > 0)
      for (const PhaseSpan& s : std::span(spans).first(taken))
        message.spans.push_back({s.begin_ns, s.end_ns, s.round, s.count, static_cast<uint8_t>(s.phase), s.row});
    if (!message.spans.empty()) tell(message, held_round);
  }
}

void Worker::Impl::tick() {
  const uint64_t now = clock.now_ns();
  // This process itself stood still: what it has not heard since may be waiting in its sockets.
  if (now - ticked_ns > 5 * kTickNs) heard_ns = std::min(now, heard_ns + (now - ticked_ns - kTickNs));
  ticked_ns = now;
  transport.start_timer(kTick, now + kTickNs);
  links.expire();
  if (connected() && now - beat_ns >= ns(options.beat_ms)) beat();
  send_trace();
  if (connected() && now - heard_ns > ns(options.silent_ms) + kAnswerNs)
    return lose_coordinator("silent for " + std::to_string((now - heard_ns) / 1'000'000) + " ms");
  if (alone_since_ns != 0 && now - alone_since_ns > ns(options.give_up_ms))
    return fail(Error(ErrorKind::cluster, {.where = options.name,
                                           .what = "no coordinator could be reached",
                                           .got = std::to_string((now - alone_since_ns) / 1'000'000'000) + " s without one",
                                           .hint = "the first address tried was " + options.coordinators[0]}),
                false);
  check_deadlines(now);
  check_served(now);
}

// Whoever keeps this worker waiting for too long is named to the coordinator.
void Worker::Impl::check_deadlines(uint64_t now) {
  if (planted(Bug::no_deadline)) return;
  const uint64_t deadline = ns(policy.deadline_ms);
  if (healing && healing->progress_ns != 0 && now - healing->progress_ns > deadline && !loading) {
    healing->progress_ns = now;
    lose_link(healing->order.donor, "no image came from it for " + std::to_string(static_cast<int64_t>(policy.deadline_ms)) + " ms");
  } else if (healing && !healing->fetching) {
    fetch_if_possible();
  }
  check_apply(now);
  if (state == State::stopped) return;
  const bool between = inner_exchange.active();
  const Exchange& open = between ? inner_exchange : exchange;
  if (!open.active() || !open.started() || open.done()) return;
  const uint64_t bytes = open.bytes_up() + open.bytes_down();
  if (bytes != progress_bytes || (training && training->gradient)) {
    progress_bytes = bytes;
    progress_ns = now;
  }
  const std::vector<WorkerId> missing = open.waits_for();
  for (const WorkerId peer : missing)
    if (peer != id) links.to(peer);  // a link that the other side should have made is made from here
  if (now - progress_ns > deadline && !missing.empty()) {
    progress_ns = now;
    const std::string what =
        (between ? "inner exchange " + std::to_string(inner.index) + " of round " : "round ") + std::to_string(held_round + 1);
    lose_link(missing.front(),
              "nothing of " + what + " came from it for " + std::to_string(static_cast<int64_t>(policy.deadline_ms)) + " ms");
  }
}

std::string Worker::Impl::waits_for() const {
  const auto name = [&](WorkerId peer) {
    for (const Member& m : members)
      if (m.id == peer) return m.name;
    return std::string("coordinator");
  };
  switch (state) {
    case State::opening: return "data and trainer";
    case State::ready: return "other workers";
    case State::forming:
      if (loading) return "loading an image";
      if (healing) return "an image from " + name(healing->order.donor);
      if (evaluating > 0) break;  // at an epoch's end, before Go
      return applying ? "apply" : "other workers";
    case State::running: break;
    default: return "coordinator";
  }
  if (is_server() && !applying && evaluating == 0) return "contributions";
  if (work.exchange || work.taking) return "the server";
  const bool computing = (training && !waits_for_result()) || evaluating > 0;
  if (computing && replica.waits_for_examples()) return "examples";
  if (computing || applying || inner.applying) return "";
  const Exchange& open = inner_exchange.active() ? inner_exchange : exchange;
  if (open.active() && open.started() && !open.done()) {
    std::string names;
    const auto missing = open.waits_for();
    for (size_t i = 0; i < missing.size() && i < 3; ++i) names += (i ? ", " : "") + name(missing[i]);
    if (missing.size() > 3) names += " and " + std::to_string(missing.size() - 3) + " more";
    return names.empty() ? "the network" : names;
  }
  if (exchange.done()) return "commit";
  if (paused) return "evaluation";
  return staged ? "the round" : "work";
}

void Worker::Impl::event(const char* name, Json details) {
  Json line = Json::object();
  line.set("event", name);
  line.set("worker", options.name);
  line.set("host", host_name_in(options.host));
  if (details.is_object())
    for (auto& [key, value] : details.as_object()) line.set(key, value);
  events.on_event(line);
}

void Worker::Impl::fail(const Error& error, bool for_all) {
  if (state == State::stopped) return;
  tell(Failed{.kind = static_cast<uint16_t>(error.kind()), .for_all = for_all, .text = error.what(), .ranges = pending()}, held_round);
  end();
  events.on_failed(error);
}

void Worker::Impl::leave(const std::string& why) {
  if (state == State::stopped) return;
  send_trace();
  if (connected()) tell(Leave{.why = why}, held_round);
  end();
  events.on_stopped(why, false);
}

void Worker::Impl::end() {
  stop_work(false);
  if (coordinator != 0) transport.close(coordinator);
  coordinator = 0;
  links.close_all();
  transport.stop_timer(kTick);
  transport.stop_timer(kRetry);
  state = State::stopped;
}

// ---- the public face ----

Worker::Worker(WorkerOptions options, Clock& clock, Rng& rng, Transport& transport, Replica& replica, WorkerEvents& events)
    : impl_(std::make_unique<Impl>(std::move(options), clock, rng, transport, replica, events)) {}
Worker::~Worker() = default;

void Worker::start() { impl_->start(); }
void Worker::leave(const std::string& why) { impl_->leave(why); }

uint64_t Worker::generation() const { return impl_->generation; }
bool Worker::ask(const Read& read) {
  const bool joined = impl_->state >= Impl::State::opening && impl_->state < Impl::State::stopped;
  return joined && impl_->transport.send(impl_->coordinator, encode(read, impl_->header(impl_->held_round)));
}

Json Worker::status() const {
  static constexpr const char* kNames[] = {"connecting", "connecting", "joining", "opening", "waiting", "forming", "training", "stopped"};
  Json json = Json::object();
  json.set("state", kNames[static_cast<size_t>(impl_->state)]);
  json.set("id", int64_t{impl_->id});
  json.set("generation", static_cast<int64_t>(impl_->generation));
  json.set("round", impl_->held_round);
  json.set("hash", static_cast<int64_t>(impl_->held_hash));
  json.set("members", static_cast<int64_t>(impl_->members.size()));
  json.set("waits_for", impl_->waits_for());
  return json;
}

Json Worker::counters() const {
  const auto& d = impl_->dropped;
  Json json = Json::object();
  json.set("stale", static_cast<int64_t>(d.stale));
  json.set("job", static_cast<int64_t>(d.job));
  json.set("malformed", static_cast<int64_t>(d.malformed));
  json.set("unexpected", static_cast<int64_t>(d.unexpected));
  return json;
}

void Worker::on_connected(PeerId peer, const std::string&) {
  Impl& w = *impl_;
  if (w.state == Impl::State::stopped) return w.transport.close(peer);
  if (peer != w.coordinator) {
    if (w.links.on_connected(peer)) w.link_ready(w.links.who(peer));
    return;
  }
  assert(w.state == Impl::State::connecting);
  w.state = Impl::State::joining;
  w.heard_ns = w.clock.now_ns();
  w.echo_ns = 0;
  w.tell(Join{.version = PERIGEE_VERSION,
              .name = w.options.name,
              .host = w.options.host,
              .address = w.options.address,
              .site = w.options.site,
              .id = w.id,
              .fingerprint = w.fingerprint,
              .round = w.held_round,
              .hash = w.held_hash,
              .threads = w.options.threads,
              .server = w.options.server},
         w.held_round);
  w.bear_witness();
}

void Worker::on_frame(PeerId peer, std::span<const std::byte> frame) {
  Impl& w = *impl_;
  if (w.state == Impl::State::stopped) return;
  FrameHeader header;
  const bool from_coordinator = peer == w.coordinator;
  if (!read_header(frame, &header) || header.protocol != kProtocol || frame.size() != kHeaderBytes + header.length) {
    ++w.dropped.malformed;
    if (from_coordinator) return w.lose_coordinator("it speaks another protocol");
    const WorkerId id = w.links.who(peer);
    w.links.close(peer);
    if (id != 0) w.lose_link(id, "it sent a malformed frame");
    return;
  }
  const auto payload = frame.subspan(kHeaderBytes);
  if (from_coordinator) w.on_coordinator_frame(header, payload);
  else if (header.type == MessageType::chunk) w.on_chunk(peer, header, payload);
  else w.on_worker_frame(peer, header, payload);
}

Placement Worker::place(PeerId peer, std::span<const std::byte> head) {
  Impl& w = *impl_;
  FrameHeader header;
  Chunk chunk;
  if (w.state == Impl::State::stopped || peer == w.coordinator) return {};
  if (!read_header(head, &header) || !decode(head.subspan(kHeaderBytes), &chunk)) return {};
  return w.place_chunk(peer, header, chunk);
}

void Worker::on_placed(PeerId peer, std::span<const std::byte> head, std::span<const std::byte> body) {
  Impl& w = *impl_;
  FrameHeader header;
  Chunk chunk;
  [[maybe_unused]] const bool sound = read_header(head, &header) && decode(head.subspan(kHeaderBytes), &chunk);
  assert(sound && kHeaderBytes + header.length == head.size() + body.size());  // place() has seen it
  if (w.state != Impl::State::stopped) w.on_chunk(peer, header, &chunk, body);
}

void Worker::on_lost(PeerId peer, PeerLoss why) {
  Impl& w = *impl_;
  if (w.state == Impl::State::stopped) return;
  if (peer == w.coordinator) {
    w.coordinator = 0;
    w.sender.forget(peer);
    return w.lose_coordinator(to_string(why));
  }
  w.sender.forget(peer);
  if (const WorkerId id = w.links.on_lost(peer)) w.lose_link(id, std::string("connection ") + to_string(why));
}

void Worker::on_timer(uint64_t timer) {
  Impl& w = *impl_;
  if (w.state == Impl::State::stopped) return;
  if (timer == Impl::kTick) return w.tick();
  assert(timer == Impl::kRetry);
  if (w.state == Impl::State::idle) w.connect();
}

void Worker::on_bytes(PeerId peer) {
  if (peer == impl_->coordinator) impl_->heard_ns = impl_->clock.now_ns();
}

void Worker::on_writable(PeerId peer) {
  Impl& w = *impl_;
  if (w.state == Impl::State::stopped) return;
  w.sender.on_writable(peer);
  if (peer == w.coordinator) return w.events.on_writable();
  if (const WorkerId id = w.links.who(peer)) {
    w.exchange.on_writable(id);
    w.after_exchange();
    w.inner_exchange.on_writable(id);
    w.after_inner();
  }
  w.try_push();
}

void Worker::on_opened(uint64_t fingerprint) {
  Impl& w = *impl_;
  if (w.state == Impl::State::stopped) return;
  w.opened = true;
  w.fingerprint = fingerprint;
  if (w.state != Impl::State::opening) return;  // between two coordinators
  w.state = Impl::State::ready;
  w.send_formed();
}

void Worker::on_loaded(int64_t round, uint64_t hash) {
  if (impl_->state != Impl::State::stopped) impl_->on_loaded(round, hash);
}
void Worker::on_bucket(int64_t round, uint32_t bucket) {
  if (impl_->state != Impl::State::stopped) impl_->on_bucket(round, bucket);
}
void Worker::on_contribution(const Contribution& contribution) {
  if (impl_->state != Impl::State::stopped) impl_->on_contribution(contribution);
}
void Worker::on_applied(int64_t round, uint64_t hash) {
  if (impl_->state != Impl::State::stopped) impl_->on_applied(round, hash);
}
void Worker::on_payload_refused(int64_t round, size_t payload) {
  if (impl_->state != Impl::State::stopped) impl_->on_payload_refused(round, payload);
}
void Worker::on_served(int64_t round, uint64_t hash, SharedBytes reply, bool change) {
  if (impl_->state != Impl::State::stopped) impl_->on_served(round, hash, reply, change);
}
void Worker::on_taken(int64_t round, bool ok) {
  if (impl_->state != Impl::State::stopped) impl_->on_taken(round, ok);
}
void Worker::on_inner_applied(int64_t round, int64_t index, int refused) {
  if (impl_->state != Impl::State::stopped) impl_->on_inner_applied(round, index, refused);
}
void Worker::on_snapshot(uint64_t request, int64_t round, uint64_t hash, SharedBytes image) {
  if (impl_->state != Impl::State::stopped) impl_->on_snapshot(request, round, hash, image);
}
void Worker::on_evaluated(uint64_t request, std::string state) {
  if (impl_->state == Impl::State::stopped) return;
  --impl_->evaluating;
  assert(impl_->evaluating >= 0);
  impl_->tell(Evaluated{.request = request, .state = std::move(state)}, impl_->held_round);
}
void Worker::on_failed(const Error& error, bool for_all) { impl_->fail(error, for_all); }

}  // namespace perigee
