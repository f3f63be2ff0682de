// Which message goes where: what concerns membership, images and the launcher is taken here, the rest by the protocol of rounds.
#include <algorithm>
#include <array>

#include "cluster/membership/coordinator_core.h"
#include "cluster/planted.h"

namespace perigee {
namespace {

// Which frames of a worker are believed: all; those of a member in this generation while it forms or runs; while it heals, too.
enum class Fence : uint8_t { none, active, healing };
using Node = CoordinatedWorker;
using NodeRoute = Route<CoordinatorCore, Node&, Fence>;

template <class M, auto handler>
constexpr NodeRoute row(Fence fence = Fence::none) {
  return route<M, handler, CoordinatorCore, Node&>(fence);
}

constexpr std::array kFromWorkers = {
    row<Beat, &CoordinatorCore::on_beat>(),
    row<Acknowledge, &CoordinatorCore::on_acknowledge_or_open>(),
    row<CaughtUp, &CoordinatorCore::on_caught_up>(Fence::healing),
    row<LinkLost, &CoordinatorCore::on_link_lost>(Fence::active),
    row<Fetch, &CoordinatorCore::on_fetch>(Fence::active),
    row<Evaluated, &CoordinatorCore::on_evaluated>(),
    row<Image, &CoordinatorCore::on_image>(),
    row<Read, &CoordinatorCore::on_read>(),
    row<Traced, static_cast<void (CoordinatorCore::*)(const Node&, const Traced&)>(&CoordinatorCore::on_traced)>(),
    row<Witness, &CoordinatorCore::on_witness>(),
    row<Leave, &CoordinatorCore::on_leave>(),
    row<Failed, &CoordinatorCore::on_failed>(),
};

template <class M, auto handler>
constexpr Route<CoordinatorCore, PeerId, Fence> stranger_row() {
  return route<M, handler, CoordinatorCore, PeerId>(Fence::none);
}

constexpr std::array kFromStrangers = {
    stranger_row<Status, &CoordinatorCore::on_status>(), stranger_row<Steer, &CoordinatorCore::on_steer>(),
    stranger_row<Follow, &CoordinatorCore::on_follow>(), stranger_row<TakenOver, &CoordinatorCore::on_taken_over>(),
    stranger_row<Join, &CoordinatorCore::on_join>(),
};

}  // namespace

void CoordinatorCore::on_frame(PeerId peer, std::span<const std::byte> frame) {
  if (phase == Phase::stopped) return on_late_frame(peer, frame);
  FrameHeader h;
  const auto known = peers.find(peer);
  if (!read_header(frame, &h) || frame.size() != kHeaderBytes + h.length) {
    ++dropped.malformed;
    if (known != peers.end()) return evict(known->second, Eviction::to_join_again, "it sent a malformed frame");
    strangers.erase(peer);
    return transport.close(peer);
  }
  if (h.protocol != kProtocol) {
    strangers.erase(peer);
    return refuse(peer, {.kind = 5,
                         .what = "the worker speaks another version of the protocol",
                         .got = std::to_string(h.protocol),
                         .expected = std::to_string(kProtocol),
                         .hint = "install the same version on every machine"});
  }
  const auto payload = frame.subspan(kHeaderBytes);
  if (peer == follower.peer) return on_standby_frame(h, payload);
  if (known == peers.end()) return on_stranger_frame(peer, h, payload);
  Node& node = nodes.at(known->second);
  node.heard_ns = clock.now_ns();
  if (h.job != options.job_id) {
    ++dropped.job;
    return;
  }
  if (h.generation > generation) return fail(superseded_by(h.generation, follower.address, generation));
  on_node_frame(node, h, payload);
}

// The run is over: a process that comes late hears it, too.
void CoordinatorCore::on_late_frame(PeerId peer, std::span<const std::byte> frame) {
  FrameHeader h;
  if (const auto worker = peers.find(peer); worker != peers.end() && options.trace) {
    Traced traced;
    if (read_header(frame, &h) && h.type == MessageType::traced && decode(frame.subspan(kHeaderBytes), &traced))
      on_traced(worker->second, traced);
  }
  if (strangers.erase(peer) == 0) return;
  Join join;
  const bool joins = read_header(frame, &h) && h.type == MessageType::join && decode(frame.subspan(kHeaderBytes), &join);
  if (joins) forget_earlier(join.name);
  if (last_word.why.empty() || closed) return transport.close(peer);  // another coordinator speaks for the run now; or it has been told
  peers[peer] = 0;
  if (joins) untold[peer] = {.name = join.name, .pid = join.pid};
  transport.send(peer, encode(last_word, header(books.round())));
}

void CoordinatorCore::on_stranger_frame(PeerId peer, const FrameHeader& h, std::span<const std::byte> payload) {
  if (!strangers.contains(peer)) return;                                                                // closed by now
  if (h.type == MessageType::status || h.type == MessageType::steer) strangers[peer] = clock.now_ns();  // one that asks may stay
  const Received received = dispatch<CoordinatorCore, PeerId, Fence>(kFromStrangers, *this, peer, h, payload, [](Fence) { return true; });
  if (received == Received::taken || h.type == MessageType::status) return;
  ++(received == Received::unknown ? dropped.unexpected : dropped.malformed);
  strangers.erase(peer);
  transport.close(peer);
}

void CoordinatorCore::on_status(PeerId peer, const Status&) {
  transport.send(peer, encode(Report{.json = status().dump()}, header(books.round())));
}

bool CoordinatorCore::believes(const FrameHeader& h, const Node& node, bool in_phase) const {
  return (h.generation == generation || planted(Bug::dropped_fence)) && node.member && in_phase;
}

void CoordinatorCore::on_node_frame(Node& node, const FrameHeader& h, std::span<const std::byte> payload) {
  const WorkerId id = node.id;
  const bool active = phase == Phase::forming || phase == Phase::running;
  Received received = dispatch<CoordinatorCore, Node&, Fence>(kFromWorkers, *this, node, h, payload, [&](Fence fence) {
    return fence == Fence::none || believes(h, node, active && (fence == Fence::active || node.state == Node::State::healing));
  });
  if (received == Received::unknown)
    received = believes(h, node, phase == Phase::running) ? rounds->on_frame(node, h, payload) : Received::fenced;
  switch (received) {
    case Received::taken: return;
    case Received::fenced: ++(h.generation < generation ? dropped.stale : dropped.unexpected); return;
    case Received::unknown: ++dropped.unexpected; return;
    case Received::malformed: break;
  }
  ++dropped.malformed;
  evict(id, Eviction::to_join_again, "it sent a malformed frame");
}

void CoordinatorCore::on_acknowledge_or_open(Node& node, const FrameHeader& h, Acknowledge formed) {
  if (node.state == Node::State::opening || node.state == Node::State::waiting) return worker_is_open(node, formed);
  if (believes(h, node, phase == Phase::forming && !node.formed)) return on_acknowledge(node, std::move(formed));
  ++(h.generation < generation ? dropped.stale : dropped.unexpected);
}

void CoordinatorCore::on_read(Node& node, const FrameHeader& h, Read read) {
  if (options.example_service && options.example_service->on_read(node.peer, h, std::move(read))) return;
  ++dropped.reads;
  evict(node.id, Eviction::for_good, "it asked for examples that are not served");
}

void CoordinatorCore::on_leave(Node& node, const Leave& leave) { lose(node.id, "worker_left", leave.why); }

}  // namespace perigee
