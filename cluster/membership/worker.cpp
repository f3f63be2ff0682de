#include "cluster/membership/worker.h"

#include <cassert>
#include <utility>

#include "cluster/membership/worker_core.h"

namespace perigee {

Worker::Worker(WorkerOptions options, Clock& clock, Rng& rng, Transport& transport, Replica& replica, WorkerEvents& events)
    : core_(std::make_unique<WorkerCore>(std::move(options), clock, rng, transport, replica, events)) {}
Worker::~Worker() = default;

void Worker::start() { core_->start(); }
void Worker::leave(const std::string& why) { core_->leave(why); }

uint64_t Worker::generation() const { return core_->generation; }
uint64_t Worker::job() const { return core_->job; }
bool Worker::ask(const Read& read) {
  const bool joined = core_->state >= WorkerCore::State::opening && core_->state < WorkerCore::State::stopped;
  return joined && core_->transport.send(core_->coordinator, encode(read, core_->header(core_->held_round)));
}

Json Worker::status() const {
  static constexpr const char* kNames[] = {"connecting", "connecting", "joining", "opening", "waiting", "forming", "training", "stopped"};
  Json json = Json::object();
  json.set("state", kNames[static_cast<size_t>(core_->state)]);
  json.set("id", int64_t{core_->id});
  json.set("generation", static_cast<int64_t>(core_->generation));
  json.set("round", core_->held_round);
  json.set("hash", static_cast<int64_t>(core_->held_hash));
  json.set("members", static_cast<int64_t>(core_->members.size()));
  json.set("waits_for", core_->waits_for());
  return json;
}

Json Worker::counters() const {
  const auto& d = core_->dropped;
  Json json = Json::object();
  json.set("stale", static_cast<int64_t>(d.stale));
  json.set("job", static_cast<int64_t>(d.job));
  json.set("malformed", static_cast<int64_t>(d.malformed));
  json.set("unexpected", static_cast<int64_t>(d.unexpected));
  return json;
}

void Worker::on_connected(PeerId peer, const std::string&) {
  WorkerCore& w = *core_;
  if (w.state == WorkerCore::State::stopped) return w.transport.close(peer);
  if (peer != w.coordinator) {
    if (w.links.on_connected(peer)) w.link_ready(w.links.who(peer));
    return;
  }
  assert(w.state == WorkerCore::State::connecting);
  w.state = WorkerCore::State::joining;
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
              .pid = w.options.pid,
              .server = w.options.server,
              .serves = w.options.serves,
              .held = w.options.held},
         w.held_round);
  w.send_memberships();
}

void Worker::on_frame(PeerId peer, std::span<const std::byte> frame) {
  WorkerCore& w = *core_;
  if (w.state == WorkerCore::State::stopped) return;
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
  if (from_coordinator) return w.on_coordinator_frame(header, payload);
  w.links.heard(peer);
  if (header.type == MessageType::chunk) w.on_chunk(peer, header, payload);
  else w.on_worker_frame(peer, header, payload);
}

Placement Worker::place(PeerId peer, std::span<const std::byte> head) {
  WorkerCore& w = *core_;
  FrameHeader header;
  Chunk chunk;
  if (w.state == WorkerCore::State::stopped || peer == w.coordinator) return {};
  if (!read_header(head, &header) || !decode(head.subspan(kHeaderBytes), &chunk)) return {};
  return w.place_chunk(peer, header, chunk);
}

void Worker::on_placed(PeerId peer, std::span<const std::byte> head, std::span<const std::byte> body) {
  WorkerCore& w = *core_;
  FrameHeader header;
  Chunk chunk;
  [[maybe_unused]] const bool sound = read_header(head, &header) && decode(head.subspan(kHeaderBytes), &chunk);
  assert(sound && kHeaderBytes + header.length == head.size() + body.size());  // place() has seen it
  w.links.heard(peer);
  if (w.state != WorkerCore::State::stopped) w.on_chunk(peer, header, &chunk, body);
}

void Worker::on_lost(PeerId peer, PeerLoss why) {
  WorkerCore& w = *core_;
  if (w.state == WorkerCore::State::stopped) return;
  if (peer == w.coordinator) {
    w.coordinator = 0;
    w.sender.forget(peer);
    return w.lose_coordinator(to_string(why));
  }
  w.sender.forget(peer);
  const bool was_up = w.links.who(peer) != 0;
  if (const WorkerId id = w.links.on_lost(peer)) w.lose_link(id, std::string("connection ") + to_string(why), false, !was_up);
}

void Worker::on_timer(uint64_t timer) {
  WorkerCore& w = *core_;
  if (w.state == WorkerCore::State::stopped) return;
  if (timer == WorkerCore::kTick) return w.tick();
  assert(timer == WorkerCore::kRetry);
  if (w.state == WorkerCore::State::idle) w.connect();
}

void Worker::on_bytes(PeerId peer) {
  if (peer == core_->coordinator) core_->heard_ns = core_->clock.now_ns();
  else core_->links.heard(peer);
}

void Worker::on_writable(PeerId peer) {
  WorkerCore& w = *core_;
  if (w.state == WorkerCore::State::stopped) return;
  w.sender.on_writable(peer);
  if (peer == w.coordinator) return w.events.on_writable();
  w.rounds->on_writable(w.links.who(peer));
}

void Worker::on_opened(uint64_t fingerprint) {
  WorkerCore& w = *core_;
  if (w.state == WorkerCore::State::stopped) return;
  w.opened = true;
  w.fingerprint = fingerprint;
  if (w.state != WorkerCore::State::opening) return;  // between two coordinators
  w.state = WorkerCore::State::ready;
  w.send_formed();
}

void Worker::on_loaded(int64_t round, uint64_t hash) {
  if (core_->state != WorkerCore::State::stopped) core_->on_loaded(round, hash);
}
void Worker::on_parts_over(int64_t round) {
  if (core_->state != WorkerCore::State::stopped) core_->rounds->on_parts_over(round);
}

void Worker::on_bucket(int64_t round, uint32_t bucket) {
  if (core_->state != WorkerCore::State::stopped) core_->rounds->on_bucket(round, bucket);
}
void Worker::on_contribution(const Contribution& contribution) {
  if (core_->state != WorkerCore::State::stopped) core_->on_contribution(contribution);
}
void Worker::on_applied(int64_t round, uint64_t hash) {
  if (core_->state != WorkerCore::State::stopped) core_->rounds->on_applied(round, hash);
}
void Worker::on_payload_refused(int64_t round, size_t payload) {
  if (core_->state != WorkerCore::State::stopped) core_->rounds->on_payload_refused(round, payload);
}
void Worker::on_served(int64_t round, uint64_t hash, SharedBytes reply, bool change) {
  if (core_->state != WorkerCore::State::stopped) core_->rounds->on_served(round, hash, reply, change);
}
void Worker::on_taken(int64_t round, bool ok) {
  if (core_->state != WorkerCore::State::stopped) core_->rounds->on_taken(round, ok);
}
void Worker::on_inner_applied(int64_t round, int64_t index, int refused) {
  if (core_->state == WorkerCore::State::stopped) return;
  for (const auto& protocol : core_->protocols.all()) protocol->on_inner_applied(round, index, refused);
}
void Worker::on_snapshot(uint64_t request, int64_t round, uint64_t hash, SharedBytes image) {
  if (core_->state != WorkerCore::State::stopped) core_->on_snapshot(request, round, hash, image);
}
void Worker::on_evaluated(uint64_t request, std::string state) {
  if (core_->state == WorkerCore::State::stopped) return;
  --core_->evaluating;
  assert(core_->evaluating >= 0);
  core_->tell(Evaluated{.request = request, .state = std::move(state)}, core_->held_round);
}
void Worker::on_failed(const Error& error, bool for_all) { core_->fail(error, for_all); }

}  // namespace perigee
