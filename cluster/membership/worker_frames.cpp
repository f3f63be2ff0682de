// Which message goes where: what concerns the session, the membership and images is taken here, the rest by the protocol of rounds.
#include <algorithm>
#include <array>
#include <cassert>

#include "cluster/membership/worker_core.h"
#include "cluster/planted.h"

namespace perigee {
namespace {

// Which frames are believed: all; those of this generation; those of a worker that has said who it is.
enum class WorkerFence : uint8_t { none, generation, linked };
double worked_s(const Figures& figures) { return figures.load_s + figures.compute_s + figures.encode_s; }

using FrameRoute = Route<WorkerCore, PeerId, WorkerFence>;

template <class M, auto handler>
constexpr FrameRoute worker_row(WorkerFence fence = WorkerFence::none) {
  return route<M, handler, WorkerCore, PeerId>(fence);
}

constexpr std::array kFromCoordinator = {
    worker_row<Welcome, &WorkerCore::on_welcome>(),
    worker_row<Refuse, &WorkerCore::on_refuse>(),
    worker_row<Propose, &WorkerCore::on_propose>(),
    worker_row<CatchUp, &WorkerCore::on_catch_up>(WorkerFence::generation),
    worker_row<StartEpoch, &WorkerCore::on_start_epoch>(WorkerFence::generation),
    worker_row<Commit, &WorkerCore::on_commit>(WorkerFence::generation),
    worker_row<Evaluate, &WorkerCore::on_evaluate>(WorkerFence::generation),
    worker_row<Snapshot, &WorkerCore::on_snapshot_order>(WorkerFence::generation),
    worker_row<Beat, &WorkerCore::on_beat>(),
    worker_row<Examples, &WorkerCore::on_examples>(),
    worker_row<Image, &WorkerCore::on_image>(),
    worker_row<Coordinators, &WorkerCore::on_coordinators>(),
    worker_row<Holders, &WorkerCore::on_holders>(),
    worker_row<Stop, &WorkerCore::on_stop>(),
};

constexpr std::array kFromPeers = {
    worker_row<Link, &WorkerCore::on_link>(),
    worker_row<Fetch, &WorkerCore::on_fetch>(WorkerFence::linked),
    worker_row<Image, &WorkerCore::on_image>(WorkerFence::linked),
    worker_row<Beat, &WorkerCore::on_link_beat>(WorkerFence::linked),
};

}  // namespace

void WorkerCore::on_coordinator_frame(const FrameHeader& h, std::span<const std::byte> payload) {
  heard_ns = clock.now_ns();
  if (job != 0 && h.job != job && h.type != MessageType::refuse) {
    ++dropped.job;
    return;
  }
  const bool current = h.generation == generation && (state == State::forming || state == State::running);
  const auto believes = [&](WorkerFence fence) { return fence == WorkerFence::none || current; };
  Received received = dispatch<WorkerCore, PeerId, WorkerFence>(kFromCoordinator, *this, coordinator, h, payload, believes);
  if (received == Received::unknown) received = current ? rounds->on_coordinator_frame(h, payload) : Received::fenced;
  switch (received) {
    case Received::taken: return;
    case Received::fenced: ++(h.generation < generation ? dropped.stale : dropped.unexpected); return;
    case Received::unknown: ++dropped.unexpected; return;
    case Received::malformed: break;
  }
  ++dropped.malformed;
  lose_coordinator(h.type == MessageType::examples ? "the coordinator sent examples that were not asked for"
                                                   : "the coordinator sent a malformed frame");
}

void WorkerCore::on_beat(const Beat& beat_of_coordinator) {
  echo_ns = beat_of_coordinator.sent_ns, echo_heard_ns = heard_ns;
  if (probes > 0) --probes, beat();
}

bool WorkerCore::on_examples(PeerId, const Examples& examples, std::span<const std::byte> body) {
  return events.on_examples(examples, body);
}

void WorkerCore::on_snapshot_order(const Snapshot& order) { request_snapshot(order.what == "checkpoint", coordinator, order.request); }

void WorkerCore::on_stop(const Stop& stop) {
  send_trace();
  end();
  events.on_stopped(stop.why, stop.finished);
}

// ---- other workers ----

void WorkerCore::on_worker_frame(PeerId peer, const FrameHeader& h, std::span<const std::byte> payload) {
  if (!links.owns(peer)) {
    ++dropped.unexpected;
    return;
  }
  if (job != 0 && h.job != job) {
    ++dropped.job;
    if (links.who(peer) == 0) links.close(peer);
    return;
  }
  const bool linked = links.who(peer) != 0;
  if (h.type != MessageType::beat && h.type != MessageType::link) links.used(peer, h.generation);
  Received received = linked ? rounds->on_worker_frame(peer, h, payload) : Received::unknown;
  if (received == Received::unknown)
    received = dispatch<WorkerCore, PeerId, WorkerFence>(kFromPeers, *this, peer, h, payload,
                                                         [&](WorkerFence fence) { return fence == WorkerFence::none || linked; });
  if (received == Received::taken) return;
  if (received != Received::malformed) {
    ++dropped.unexpected;
    return;
  }
  ++dropped.malformed;
  const WorkerId sender_id = links.who(peer);
  links.close(peer);
  if (sender_id != 0) lose_link(sender_id, "it sent a malformed frame");
}

void WorkerCore::on_link(PeerId peer, const FrameHeader& h, const Link& link) {
  if (links.on_link(peer, link, h.generation)) link_ready(link.from);
}

// ---- chunks ----

bool WorkerCore::expects_chunks(const FrameHeader& h, WorkerId from) const {
  return from != 0 && (h.generation == generation || planted(Bug::worker_fence)) && (state == State::forming || state == State::running);
}

void WorkerCore::on_chunk(PeerId peer, const FrameHeader& h, std::span<const std::byte> payload) {
  Chunk chunk;
  std::span<const std::byte> body;
  const bool sound = decode(payload, &chunk, &body);
  on_chunk(peer, h, sound ? &chunk : nullptr, body);
}

bool WorkerCore::send_chunk(WorkerId to, int64_t at, const Chunk& chunk, std::span<const std::byte> body) {
  const PeerId peer = links.to(to);
  if (peer == 0) return false;
  const size_t head = encode_into(chunk_head, chunk, header(at), body.size());
  if (!transport.send(peer, std::span(chunk_head).first(head), body)) return false;
  bytes_up += head + body.size();
  if (far.contains(to)) bytes_across += body.size();
  return true;
}

// The protocol in force has it, or one that another member may have gone over to already.
std::pair<WorkerRounds*, Exchange*> WorkerCore::exchange_of(const FrameHeader& h, const Chunk& chunk, int64_t* number) const {
  if (Exchange* exchange = rounds->exchange_of(h, chunk, number)) return {rounds, exchange};
  for (const auto& protocol : protocols.all())
    if (Exchange* exchange = protocol->exchange_of(h, chunk, number)) return {protocol.get(), exchange};
  return {};
}

Placement WorkerCore::place_chunk(PeerId peer, const FrameHeader& h, const Chunk& chunk) const {
  const WorkerId from = links.who(peer);
  if (h.job != job || !expects_chunks(h, from)) return {};
  int64_t number = 0;
  const Exchange* exchange = exchange_of(h, chunk, &number).second;
  return exchange ? exchange->place(from, number, chunk, kHeaderBytes + h.length - kChunkHeadBytes) : Placement{};
}

// `chunk` null: it could not be read.
void WorkerCore::on_chunk(PeerId peer, const FrameHeader& h, const Chunk* chunk, std::span<const std::byte> body) {
  if (h.job != job) {
    ++dropped.job;
    return;
  }
  const WorkerId from = links.who(peer);
  if (!expects_chunks(h, from)) {
    ++(h.generation < generation ? dropped.stale : dropped.unexpected);
    return;
  }
  bytes_down += h.length;
  links.used(peer, h.generation);
  int64_t number = 0;
  const auto [protocol, exchange] = chunk ? exchange_of(h, *chunk, &number) : std::pair<WorkerRounds*, Exchange*>{};
  switch (exchange ? exchange->on_chunk(from, number, *chunk, body) : Exchange::Verdict::refused) {
    case Exchange::Verdict::taken: return protocol->after_exchange(*exchange);
    case Exchange::Verdict::stale: ++dropped.stale; return;
    case Exchange::Verdict::refused: break;
  }
  ++(chunk ? dropped.unexpected : dropped.malformed);
  links.close(peer);
  lose_link(from, "it sent a chunk that does not belong to the exchange", true);
}

// ---- what the replica has made ----

void WorkerCore::on_contribution(const Contribution& contribution) {
  if (!round.training || round.training->round != contribution.round) return;  // of an order that was given up
  const TrainOrder order = std::move(*round.training);
  round.training.reset();
  const double worked = worked_s(contribution.figures);
  const double seconds = worked > 0 ? worked : static_cast<double>(clock.now_ns() - round.trained_ns) * 1e-9;
  if (seconds > 0 && !contribution.ranges.empty()) {
    const double rate = static_cast<double>(contribution.examples) / seconds;
    examples_per_s = examples_per_s == 0 ? rate : 0.7 * examples_per_s + 0.3 * rate;
  }
  rounds->on_contribution(order, contribution, seconds);
}

}  // namespace perigee
