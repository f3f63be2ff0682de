#include "cluster/membership/worker_core.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "cluster/planted.h"

namespace perigee {
namespace {

constexpr uint64_t kWorkerTickNs = 100'000'000;
constexpr uint64_t kFirstLinkNs = 2'000'000'000, kLinkNs = 5'000'000'000;  // for an attempt to connect; later ones have more time
constexpr uint64_t kToldAloneNs = 10'000'000'000;
constexpr uint64_t kAnswerNs = 100'000'000;  // the coordinator only answers beats: its answer to the last one may be on the way
constexpr int kProbes = 8;
constexpr int kTracedAtOnce = 8;  // frames
constexpr size_t kMaxCoordinators = 8;

}  // namespace

WorkerCore::WorkerCore(WorkerOptions given, Clock& c, Rng& r, Transport& t, Replica& rep, WorkerEvents& e)
    : options(std::move(given)),
      clock(c),
      rng(r),
      transport(t),
      replica(rep),
      events(e),
      job(options.job_id),
      times(options.trace, kLoopRow),
      links(t, c),
      sender(t, c, kMaxWorkers + kMaxTransfers),
      round([this](WorkerId to, int64_t number, const Chunk& chunk, std::span<const std::byte> body) {
        return send_chunk(to, number, chunk, body);
      }),
      protocols(*this),
      rounds(&protocols.first()) {
  assert(!options.coordinators.empty());
}

void WorkerCore::start() {
  assert(state == State::idle);
  ticked_ns = alone_since_ns = clock.now_ns();
  transport.start_timer(kTick, ticked_ns + kWorkerTickNs);
  connect();
}

void WorkerCore::connect() {
  const std::string& address = options.coordinators[attempt % options.coordinators.size()];
  state = State::connecting;
  // A relay that forwards nothing for a while loses what passes: the first attempts after a loss are short, so that the next one comes soon.
  const uint64_t allowed = std::min(kLinkNs, kFirstLinkNs + tries++ * 1'000'000'000);
  coordinator = transport.connect(address, clock.now_ns() + allowed);
}

void WorkerCore::schedule_retry() {
  backoff_ms = backoff_ms == 0 ? options.retry_ms : std::min(backoff_ms * 2, options.retry_max_ms);
  const double jitter = 0.5 + static_cast<double>(rng.next() % 1024) / 2048;  // so that many do not come at the same moment
  ++attempt;
  state = State::idle;
  if (!planted(Bug::no_retry)) transport.start_timer(kRetry, clock.now_ns() + ns(backoff_ms * jitter));
}

// Result, contribution and log are kept; the exchange ends, since who takes part in what comes next is not known.
void WorkerCore::lose_coordinator(const std::string& why) {
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
  epoch_start.reset();
  schedule_retry();
}

void WorkerCore::on_welcome(const FrameHeader& h, const Welcome& welcome) {
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
  tries = 0;
  alone_since_ns = 0;
  told_alone = false;
  if (welcome.trace && options.trace) {
    options.trace->turn_on();
    probes = kProbes;
    beat();
  }
  state = opened ? State::ready : State::opening;
  events.on_welcome(welcome);
  events.on_joined();
  if (state != (opened ? State::ready : State::opening)) return;  // lost while it asked
  if (opened) return send_formed();
  if (opening) return;  // asked for before the coordinator was lost
  opening = true;
  try {
    const Json description = Json::parse(welcome.job, "job");
    policy = read_policy(description.find("averaging"), "job");
    rounds = &protocols.first();
    if (const Json* given = description.find("seed"); given && given->is_int()) seed = static_cast<uint64_t>(given->as_int());
    Welcome own = welcome;
    if (own.threads <= 0) own.threads = static_cast<int>(options.threads);
    threads = static_cast<uint32_t>(std::max<int64_t>(1, own.threads));
    if (options.server) events.on_opening(own);
    replica.open(own);
  } catch (const Error& error) {
    fail(error, true);
  }
}

void WorkerCore::on_refuse(const Refuse& refuse) {
  std::string text = refuse.what;
  if (!refuse.got.empty()) text += ", got " + refuse.got;
  if (refuse.retry) return lose_coordinator("refused: " + text + (refuse.hint.empty() ? "" : "; " + refuse.hint));
  end();
  events.on_failed(
      Error(static_cast<ErrorKind>(std::clamp<uint16_t>(refuse.kind, 2, 7)),
            {.where = options.name, .what = refuse.what, .got = refuse.got, .expected = refuse.expected, .hint = refuse.hint}));
}

// The first stays where it is: what this worker was started with may be another name of it.
void WorkerCore::on_coordinators(const Coordinators& where) {
  std::vector<std::string> standbys;
  for (const std::string& address : where.addresses) {
    const bool usable = !address.empty() && address.size() <= kMaxText && standbys.size() < kMaxCoordinators;
    if (usable && address != options.coordinators.front()) standbys.push_back(address);
  }
  options.coordinators.resize(1);
  options.coordinators.insert(options.coordinators.end(), standbys.begin(), standbys.end());
}

// Where a standby may take over, coordinators must know of each other's memberships.
void WorkerCore::send_memberships() {
  if (options.coordinators.size() > 1 && !memberships.empty()) tell(Witness{memberships}, held_round);
}

void WorkerCore::beat() {
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
void WorkerCore::mark(TracePhase phase) {
  const uint64_t now = clock.now_ns();
  if (marked_ns != 0) times.add(phase, marked_ns, now);
  marked_ns = now;
}

// The spans that the threads of this process have put into the ring since the last call.
void WorkerCore::send_trace() {
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

void WorkerCore::tick() {
  const uint64_t now = clock.now_ns();
  // This process itself stood still: what it has not heard since may be waiting in its sockets.
  if (const uint64_t gap = now - ticked_ns - kWorkerTickNs; now - ticked_ns > 5 * kWorkerTickNs)
    heard_ns = std::min(now, heard_ns + gap), links.forgive(gap);
  ticked_ns = now;
  transport.start_timer(kTick, now + kWorkerTickNs);
  links.expire();
  if (connected() && now - beat_ns >= ns(options.beat_ms)) beat();
  check_links(now);
  send_trace();
  if (connected() && now - heard_ns > ns(options.silent_ms) + kAnswerNs)
    return lose_coordinator("silent for " + std::to_string((now - heard_ns) / 1'000'000) + " ms");
  if (alone_since_ns != 0 && now - alone_since_ns > ns(options.give_up_ms))
    return fail(Error(ErrorKind::cluster, {.where = options.name,
                                           .what = "no coordinator could be reached",
                                           .got = std::to_string((now - alone_since_ns) / 1'000'000'000) + " s without one",
                                           .hint = "the run may have ended while this worker was cut off; the first address tried was " +
                                                   options.coordinators[0]}),
                false);
  if (alone_since_ns != 0 && now - alone_since_ns > kToldAloneNs && !std::exchange(told_alone, true)) tell_alone();
  check_deadlines(now);
  if (state != State::stopped) rounds->tick(now);
}

// It waits because a coordinator that died may come back with --resume, and wants what this worker holds.
void WorkerCore::tell_alone() {
  const auto seconds = std::to_string(static_cast<int64_t>(options.give_up_ms / 1000));
  event("coordinator_missed", Json(Json::Object{{"cause", "no coordinator answers at " + options.coordinators[0]},
                                                {"done", "looks for one until it has been without for " + seconds + " s, then ends"}}));
}

// A connection whose other end is gone without a word, or that a firewall has forgotten, looks alive for long.
void WorkerCore::check_links(uint64_t now) {
  if (now - links_beat_ns >= ns(options.beat_ms)) {
    links_beat_ns = now;
    links.beat(encode(Beat{.sent_ns = now, .step = replica.steps()}, header(held_round)));
  }
  if (planted(Bug::silent_links_kept)) return;
  for (const auto& [peer, id] : links.end_silent(ns(options.silent_ms))) {
    sender.forget(peer);
    if (id != 0) lose_link(id, "silent for " + std::to_string(static_cast<int64_t>(options.silent_ms)) + " ms", false, true);
  }
}

void WorkerCore::on_link_beat(PeerId peer, const Beat& beat) {
  const WorkerId id = links.who(peer);
  if (std::ranges::none_of(members, [id](const Member& m) { return m.id == id; })) return;
  if (Stepped& last = stepped[id]; last.step != beat.step) last = {beat.step, clock.now_ns()};
}

// A donor that keeps this worker waiting for too long is named to the coordinator; so is a member, by the protocol.
void WorkerCore::check_deadlines(uint64_t now) {
  if (healing && !planted(Bug::donor_not_named) && healing->progress_ns != 0 && now - healing->progress_ns > ns(policy.deadline_ms) &&
      !loading) {
    healing->progress_ns = now;
    lose_link(healing->order.donor, "no image came from it for " + std::to_string(static_cast<int64_t>(policy.deadline_ms)) + " ms");
  } else if (healing && !healing->fetching) {
    fetch_if_possible();
  }
  if (!planted(Bug::no_deadline)) rounds->check_deadlines(now);
}

std::string WorkerCore::name_of(WorkerId peer) const {
  for (const Member& m : members)
    if (m.id == peer) return m.name;
  return "coordinator";
}

std::string WorkerCore::waits_for() const {
  switch (state) {
    case State::opening: return "data and trainer";
    case State::ready: return "other workers";
    case State::forming:
      if (loading) return "loading an image";
      if (healing) return "an image from " + name_of(healing->order.donor);
      if (evaluating == 0) return round.applying ? "apply" : "other workers";
      [[fallthrough]];  // at an epoch's end, before StartEpoch
    case State::running: return rounds->waits_for();
    default: return "coordinator";
  }
}

void WorkerCore::event(const char* name, Json details) {
  Json line = Json::object();
  line.set("event", name);
  line.set("worker", options.name);
  line.set("host", host_name_in(options.host));
  if (details.is_object())
    for (auto& [key, value] : details.as_object()) line.set(key, value);
  events.on_event(line);
}

void WorkerCore::fail(const Error& error, bool for_all) {
  if (state == State::stopped) return;
  tell(Failed{.kind = static_cast<uint16_t>(error.kind()), .for_all = for_all, .text = error.what(), .ranges = pending()}, held_round);
  end();
  events.on_failed(error);
}

void WorkerCore::leave(const std::string& why) {
  if (state == State::stopped) return;
  send_trace();
  if (connected()) tell(Leave{.why = why}, held_round);
  end();
  events.on_stopped(why, false);
}

std::vector<Range> WorkerCore::pending() const { return planted(Bug::pending_untold) ? std::vector<Range>{} : rounds->pending(); }

// Ends what is going on in the generation.
void WorkerCore::stop_work(bool keep) {
  rounds->stop(keep);
  if (!keep || state != State::running) healing.reset(), receiver.cancel();
}

void WorkerCore::end() {
  stop_work(false);
  if (coordinator != 0) transport.close(coordinator);
  coordinator = 0;
  links.close_all();
  transport.stop_timer(kTick);
  transport.stop_timer(kRetry);
  state = State::stopped;
}

}  // namespace perigee
