#include "cluster/membership/standby.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "cluster/membership/coordinator.h"
#include "cluster/membership/votes.h"
#include "src/io/digest.h"

namespace perigee {
namespace {

constexpr uint64_t kWatchTimer = 1;
constexpr uint64_t kWatchNs = 100'000'000;
constexpr uint64_t kConnectNs = 3'000'000'000;
constexpr uint64_t kGuestNs = 5'000'000'000;  // from a connection to its first word
constexpr uint64_t kHoldNs = 3'000'000'000;   // a worker waits at the door for so long; then it looks for the coordinator again
constexpr uint64_t kSeenNs = 10'000'000'000;  // and counts for so long as one that comes
constexpr size_t kMaxGuests = kMaxWorkers + 1024;
constexpr size_t kMaxFrames = 4;                     // of a worker that waits at the door
constexpr size_t kMaxLedgerBytes = size_t{1} << 30;  // of its copy

uint64_t watch_ns(double ms) { return static_cast<uint64_t>(ms * 1e6); }

}  // namespace

Standby::Standby(StandbyOptions options, Clock& clock, Rng& rng, Transport& transport, StandbyEvents& events)
    : options_(std::move(options)), clock_(clock), rng_(rng), transport_(transport), events_(events) {
  assert(!options_.coordinator.empty() && options_.job_id != 0);
}

void Standby::start() {
  assert(state_ == State::idle);
  state_ = State::following;
  ticked_ns_ = lost_ns_ = clock_.now_ns();
  transport_.start_timer(kWatchTimer, ticked_ns_ + kWatchNs);
  connect();
}

// ---- the coordinator ----

void Standby::connect() {
  retry_ns_ = 0;
  coordinator_ = transport_.connect(options_.coordinator, clock_.now_ns() + kConnectNs);
  if (coordinator_ == 0) lose("it cannot be reached", false);
}

void Standby::lose(const std::string& why, bool dead) {
  const uint64_t now = clock_.now_ns();
  if (coordinator_ != 0) transport_.close(coordinator_);
  coordinator_ = 0;
  receiver_.cancel();
  if (connected_ && informed_) {
    lost_ns_ = now;
    why_lost_ = why;
    events_.on_event(Json(Json::Object{
        {"event", "coordinator_lost"}, {"coordinator", options_.coordinator}, {"cause", why}, {"done", "waits for its workers"}}));
  }
  connected_ = false;
  dead_ = dead;
  backoff_ms_ = backoff_ms_ == 0 ? options_.retry_ms : std::min(2 * backoff_ms_, options_.retry_max_ms);
  const double jitter = 0.75 + 0.5 * static_cast<double>(rng_.next() >> 11) * 0x1p-53;
  retry_ns_ = now + watch_ns(backoff_ms_ * jitter);
}

void Standby::on_coordinator_frame(const FrameHeader& h, std::span<const std::byte> payload) {
  heard_ns_ = clock_.now_ns();
  if (h.job != options_.job_id && h.type != MessageType::refuse) return;
  std::span<const std::byte> body;
  if (Replicate m; h.type == MessageType::replicate && decode(payload, &m, &body)) return on_replicate(h, m, body);
  if (Image m; h.type == MessageType::image && decode(payload, &m, &body)) {
    if (receiver_.on_image(coordinator_, m, body) != ImageReceiver::Progress::complete) return;
    checkpoint_round_ = receiver_.round();
    checkpoint_ = std::make_shared<const std::vector<std::byte>>(std::move(receiver_.bytes()));
    return;
  }
  if (Refuse m; h.type == MessageType::refuse && decode(payload, &m)) {
    if (m.retry) return lose("it refuses: " + m.what, false);
    return fail(Error(static_cast<ErrorKind>(std::clamp<uint16_t>(m.kind, 2, 7)),
                      {.where = options_.coordinator, .what = m.what, .got = m.got, .expected = m.expected, .hint = m.hint}));
  }
  if (Stop m; h.type == MessageType::stop && decode(payload, &m)) {
    end();
    return events_.on_stopped(m.why, m.finished);
  }
  lose("it sent a message that makes no sense", false);
}

void Standby::on_replicate(const FrameHeader& h, const Replicate& m, std::span<const std::byte> body) {
  const uint64_t now = clock_.now_ns();
  generation_ = std::max(generation_, h.generation);
  if (m.offset == 0 && !ledger_.empty() && !body.empty()) {  // another ledger than the one this is a copy of
    ledger_.clear();
    decoded_ = 0;
    round_ = -1;
  }
  if (!body.empty() && m.offset != ledger_.size()) return lose("a part of its ledger is missing", false);
  if (body.size() > kMaxLedgerBytes - ledger_.size())
    return fail(Error(ErrorKind::resources, {.where = options_.name,
                                             .what = "the ledger is too large for a standby",
                                             .hint = "train without --standby; `--resume` goes on after a loss"}));
  ledger_.insert(ledger_.end(), body.begin(), body.end());
  LedgerRecord record;
  while (const size_t length = decode_record(std::span(ledger_).subspan(decoded_), &record)) {
    decoded_ += length;
    const bool tells = record.kind == LedgerRecord::Kind::round || record.kind == LedgerRecord::Kind::voided;
    if (tells) round_ = record.round;
  }
  Membership membership = m.membership;
  if (m.consent && membership.generation > consent_) {
    consent_ = membership.generation;
    membership.established = true;  // it is by this word
  }
  remember(&memberships_, membership);
  informed_ = true;
  if (!m.session.empty()) session_ = m.session;
  if (!m.steering.empty()) steering_ = m.steering;
  if (membership.established && !m.who.empty()) who_.clear();  // it makes those before it obsolete
  for (const Named& worker : m.who) who_[worker.id] = worker;
  if (m.image != 0) receiver_.expect(coordinator_, m.image);
  if (m.working) idle_since_ns_ = 0;
  else if (idle_since_ns_ == 0) idle_since_ns_ = now;
  if (m.working || !std::exchange(greeted_, true)) send_away();
  answer();
}

void Standby::answer() { transport_.send(coordinator_, encode(Replicated{.bytes = ledger_.size(), .consent = consent_}, header())); }

// ---- who comes to the door ----

bool Standby::coordinator_is_there(uint64_t now) const {
  return connected_ && !(idle_since_ns_ != 0 && now - idle_since_ns_ > watch_ns(options_.idle_ms));
}

bool Standby::believed_gone(uint64_t now) const {
  if (!informed_ || coordinator_is_there(now)) return false;
  return connected_ || dead_ || (now > heard_ns_ && now - heard_ns_ > watch_ns(options_.silent_ms));
}

// They have a coordinator, or will find it again.
void Standby::send_away(uint64_t longer_than_ns) {
  const uint64_t now = clock_.now_ns();
  for (auto at = guests_.begin(); at != guests_.end();) {
    if (at->second.arrival.frames.empty() || now - at->second.since_ns < longer_than_ns) {
      ++at;
      continue;
    }
    transport_.send(at->first, encode(Refuse{.retry = true, .what = "the standby does not coordinate"}, header()));
    transport_.close(at->first);
    at = guests_.erase(at);
  }
}

void Standby::on_guest_frame(PeerId peer, Guest& guest, const FrameHeader& h, std::span<const std::byte> frame) {
  const std::span<const std::byte> payload = frame.subspan(kHeaderBytes);
  const auto close = [&] {
    transport_.close(peer);
    guests_.erase(peer);
  };
  if (h.type == MessageType::status && guest.arrival.frames.empty()) {
    guest.since_ns = clock_.now_ns();
    Status question;
    if (!decode(payload, &question)) return close();
    transport_.send(peer, encode(Report{.json = status().dump()}, header()));
    return;
  }
  if (Beat beat; h.type == MessageType::beat && decode(payload, &beat)) {  // it waits, and learns that the coordinator lives
    transport_.send(peer, encode(Beat{.sent_ns = clock_.now_ns(), .echo_ns = beat.sent_ns}, header()));
    return;
  }
  Join join;
  Witness witness;
  const bool first = guest.arrival.frames.empty();
  const bool sound = first ? h.type == MessageType::join && h.job == options_.job_id && decode(payload, &join)
                           : h.type == MessageType::witness && decode(payload, &witness);
  if (!sound || guest.arrival.frames.size() >= kMaxFrames) return close();
  guest.arrival.frames.emplace_back(frame.begin(), frame.end());
  if (first) {
    guest.since_ns = clock_.now_ns();
    if (join.id != 0 && seen_.size() < kMaxWorkers) seen_[join.id] = guest.since_ns;
    if (join.id != 0 && came_.size() < kMaxWorkers) came_.insert(join.id);
  }
  for (const Membership& membership : witness.memberships) remember(&memberships_, membership);
  generation_ = std::max(generation_, h.generation);
  if (coordinator_is_there(clock_.now_ns())) return send_away();
  consider();
}

// Enough workers have come, and the coordinator is gone. What is decided here is only whether to try: who coordinates is decided by the
// workers' answers to a new generation.
void Standby::consider() {
  const uint64_t now = clock_.now_ns();
  if (state_ != State::following || !believed_gone(now)) return;
  std::vector<WorkerId> here;
  for (const auto& [id, when] : seen_) here.push_back(id);
  if (options_.lease_outside ? here.empty() : !enough_votes(here, memberships_, true)) return tell_waiting(here);
  state_ = State::ready;
  events_.on_take_over(connected_ ? "it has been without workers" : why_lost_.empty() ? "it could not be reached" : why_lost_);
}

// Once, when those who live should have come; and again when others are missing.
void Standby::tell_waiting(std::span<const WorkerId> here) {
  if (connected_ || clock_.now_ns() - lost_ns_ < kHoldNs) return;
  const std::string missing = who_is_missing({here.begin(), here.end()}, memberships_, who_);
  if (std::exchange(waits_for_, missing) == missing) return;
  events_.on_event(Json(Json::Object{{"event", "waiting"},
                                     {"cause", "the coordinator at " + options_.coordinator +
                                                   " is gone, and fewer than half of its workers are here; missing are " + missing},
                                     {"missing", missing},
                                     {"done", "waits for them: without them nobody knows whether the run goes on elsewhere"}}));
}

// ---- the end ----

void Standby::end() {
  if (coordinator_ != 0) transport_.close(coordinator_);
  coordinator_ = 0;
  connected_ = false;
  transport_.stop_timer(kWatchTimer);
  for (const auto& [peer, guest] : guests_) transport_.close(peer);
  guests_.clear();
  state_ = State::over;
}

void Standby::fail(const Error& error) {
  end();
  events_.on_failed(error);
}

Inheritance Standby::take() {
  assert(state_ == State::ready || state_ == State::over);
  if (coordinator_ != 0) transport_.close(coordinator_);
  coordinator_ = 0;
  transport_.stop_timer(kWatchTimer);
  ledger_.resize(decoded_);  // whole records
  Inheritance all{.ledger = std::move(ledger_),
                  .memberships = std::move(memberships_),
                  .generation = generation_,
                  .session = std::move(session_),
                  .steering = std::move(steering_),
                  .who = std::move(who_),
                  .checkpoint_round = checkpoint_round_,
                  .checkpoint = std::move(checkpoint_)};
  for (auto& [peer, guest] : guests_) {
    guest.arrival.peer = peer;
    all.arrivals.push_back(std::move(guest.arrival));
  }
  std::sort(all.arrivals.begin(), all.arrivals.end(), [](const auto& a, const auto& b) { return a.peer < b.peer; });
  guests_.clear();
  state_ = State::taken;
  return all;
}

Json Standby::status() const {
  const char* const phase = !informed_ ? "joining" : connected_ ? "following" : "waiting for workers";
  return Json(Json::Object{{"role", "standby"},
                           {"name", options_.name},
                           {"phase", state_ == State::following ? phase : "taking over"},
                           {"coordinator", options_.coordinator},
                           {"round", round_},
                           {"generation", static_cast<int64_t>(generation_)},
                           {"ledger_bytes", static_cast<int64_t>(ledger_.size())},
                           {"checkpoint_round", checkpoint_round_},
                           {"workers_seen", static_cast<int64_t>(seen_.size())}});
}

// ---- events ----

void Standby::on_connected(PeerId peer, const std::string& address) {
  if (state_ != State::following && state_ != State::ready) return transport_.close(peer);
  if (peer != coordinator_) {
    if (guests_.size() >= kMaxGuests) return transport_.close(peer);
    Guest& guest = guests_[peer];
    guest.since_ns = clock_.now_ns();
    guest.arrival.address = address;
    return;
  }
  connected_ = true;
  dead_ = greeted_ = false;
  came_.clear();
  waits_for_.clear();
  idle_since_ns_ = 0;
  backoff_ms_ = 0;
  heard_ns_ = clock_.now_ns();
  transport_.send(peer, encode(Follow{.version = PERIGEE_VERSION,
                                      .name = options_.name,
                                      .host = options_.host,
                                      .address = options_.address,
                                      .prepared = true,
                                      .bytes = ledger_.size(),
                                      .hash = xxh3_64(ledger_)},
                               header()));
}

void Standby::on_bytes(PeerId peer) {
  if (peer == coordinator_ && peer != 0) heard_ns_ = clock_.now_ns();
}

void Standby::on_frame(PeerId peer, std::span<const std::byte> frame) {
  FrameHeader h;
  const bool sound = read_header(frame, &h) && h.protocol == kProtocol && frame.size() == kHeaderBytes + h.length;
  if (peer == coordinator_ && peer != 0) {
    if (state_ != State::following) return;  // it is too late
    if (!sound) return lose("it speaks another version of the protocol", false);
    return on_coordinator_frame(h, frame.subspan(kHeaderBytes));
  }
  const auto guest = guests_.find(peer);
  if (guest == guests_.end()) return;
  if (sound) return on_guest_frame(peer, guest->second, h, frame);
  transport_.close(peer);
  guests_.erase(guest);
}

void Standby::on_lost(PeerId peer, PeerLoss why) {
  guests_.erase(peer);
  if (peer != coordinator_ || peer == 0) return;
  coordinator_ = 0;
  if (why == PeerLoss::unauthenticated && !informed_)
    return fail(Error(ErrorKind::authentication, {.where = options_.coordinator,
                                                  .what = "the coordinator does not accept this key",
                                                  .hint = "start its agent with the --secret file of the run"}));
  if (state_ != State::following) return;
  // A broken connection may be the network's fault; a closed port is not.
  lose(std::string("connection ") + to_string(why), why == PeerLoss::refused);
  if (dead_) consider();
}

void Standby::on_timer(uint64_t) {
  if (state_ != State::following) return;
  const uint64_t now = clock_.now_ns();
  if (now - ticked_ns_ > 5 * kWatchNs) heard_ns_ = std::min(now, heard_ns_ + (now - ticked_ns_ - kWatchNs));  // this process stood still
  ticked_ns_ = now;
  transport_.start_timer(kWatchTimer, now + kWatchNs);
  if (connected_ && now - heard_ns_ > watch_ns(options_.silent_ms + options_.beat_ms))
    lose("silent for " + std::to_string((now - heard_ns_) / 1'000'000) + " ms", false);
  else if (coordinator_ == 0 && now >= retry_ns_) connect();
  std::vector<PeerId> late;
  for (const auto& [peer, guest] : guests_)
    if (guest.arrival.frames.empty() && now - guest.since_ns > kGuestNs) late.push_back(peer);
  for (const PeerId peer : late) transport_.close(peer), guests_.erase(peer);
  send_away(kHoldNs);
  std::erase_if(seen_, [&](const auto& s) { return now - s.second > kSeenNs; });
  consider();
  const uint64_t alone_since = std::max(lost_ns_, heard_ns_);  // perhaps a moment after `now`
  if (state_ == State::following && !connected_ && now > alone_since && now - alone_since > watch_ns(options_.give_up_ms)) fail(given_up());
}

Error Standby::given_up() const {
  if (!informed_)
    return Error(ErrorKind::cluster, {.where = options_.name,
                                      .what = "the coordinator could not be reached",
                                      .got = options_.coordinator,
                                      .hint = "start the run with --advertise HOST:PORT, an address under which this machine reaches it"});
  const std::vector<WorkerId> came(came_.begin(), came_.end());
  const std::string missing = who_is_missing(came, memberships_, who_);
  return Error(ErrorKind::cluster,
               {.where = options_.name,
                .what = "the coordinator is gone, and too few of its workers came here",
                .got = options_.coordinator + (missing.empty() ? "" : "; missing are " + missing),
                .expected = "at least half of the workers of the run",
                .hint = "`perigee train --resume RUN` where the coordinator was goes on from its ledger and its newest checkpoint"});
}

}  // namespace perigee
