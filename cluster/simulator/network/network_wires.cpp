// The wires of the simulated network: when what was sent arrives, and how it is handed over.
#include <algorithm>
#include <cassert>

#include "cluster/protocol/message.h"
#include "cluster/simulator/network/network.h"

namespace perigee::sim {
namespace {

constexpr uint64_t kUserTimeout = 5000 * kMs;  // TCP_USER_TIMEOUT
constexpr uint64_t kRetransmit = 200 * kMs;
constexpr size_t kPacketBytes = 1500;
constexpr double kInsideRate = 4e9;  // bytes per second, between processes of one host

uint64_t ns_of(size_t bytes, double bytes_per_s) { return static_cast<uint64_t>(static_cast<double>(bytes) / bytes_per_s * 1e9); }

}  // namespace

size_t Network::size_of(std::span<const std::byte> frame) const {
  FrameHeader header;
  const bool counted =
      counts_chunks_ && frame.size() == kChunkHeadBytes + kCountedBody && read_header(frame, &header) && header.type == MessageType::chunk;
  return counted ? kHeaderBytes + header.length : frame.size();
}

double Network::rate_of(int host) { return host_at(host).bytes_per_s > 0 ? host_at(host).bytes_per_s : quality_.bytes_per_s; }

double Network::latency_ns(const Side& from, const Side& to) {
  const int a = host_of(from), b = host_of(to);
  if (a == b) return 20'000 + 5'000 * rng_.uniform();
  const double ms = quality_.latency_ms + host_at(a).extra_ms + host_at(b).extra_ms + quality_.jitter_ms * rng_.uniform();
  return ms * 1e6;
}

// Gives every frame that can travel its arrival; the others wait for the network to work again.
void Network::schedule(uint64_t number, int from) {
  Connection* c = find(number);
  Side& side = c->sides[static_cast<size_t>(from)];
  Side& other = c->sides[static_cast<size_t>(1 - from)];
  if (other.process < 0 || side.scheduled == side.sent.size()) return;
  const int a = host_of(side), b = host_of(other);
  if (c->muted && !side.open) side.sent.resize(side.scheduled);
  if (!clear(side, other) || c->muted) await_acknowledgement(number, from);
  if (blocked(a, b) || c->muted) return;
  if (a != b && quality_.shared) return take_turns(number, from);
  const double rate = a == b ? kInsideRate : std::min({quality_.bytes_per_s, rate_of(a), rate_of(b)});
  while (side.scheduled < side.sent.size()) {
    side.free_at = std::max(side.free_at, now_) + ns_of(size_of(side.sent[side.scheduled]), rate);
    arrive_at(number, from, side.free_at + static_cast<uint64_t>(latency_ns(side, other)));
  }
}

// The next frame of that side, unless it is lost on the way and sent again.
void Network::arrive_at(uint64_t number, int from, uint64_t arrival) {
  Connection* c = find(number);
  Side& side = c->sides[static_cast<size_t>(from)];
  const Side& other = c->sides[static_cast<size_t>(1 - from)];
  const int a = host_of(side), b = host_of(other);
  if (a != b && quality_.loss > 0)
    for (uint64_t wait = kRetransmit; rng_.chance(quality_.loss) && wait < 64 * kRetransmit; wait *= 2)
      arrival += wait, ++reached_.lost_frames;
  if (a != b) {
    const size_t bytes = size_of(side.sent[side.scheduled]);
    host_at(a).traffic.sent += bytes, host_at(b).traffic.received += bytes;
    bytes_ += bytes;
  }
  side.last_arrival = std::max(arrival, side.last_arrival);
  push(side.last_arrival, Kind::frame, other.process, other.incarnation, number, static_cast<uint64_t>(from));
  ++side.scheduled;
}

// A host sends one frame at a time, its connections in turns, as fair queues do it; what fits into a packet waits for no other one.
void Network::take_turns(uint64_t number, int from) {
  Connection* c = find(number);
  Side& side = c->sides[static_cast<size_t>(from)];
  const Side& other = c->sides[static_cast<size_t>(1 - from)];
  if (side.in_turn) return;
  const int host = host_of(side);
  while (side.scheduled < side.sent.size()) {
    const size_t bytes = size_of(side.sent[side.scheduled]);
    if (bytes > kPacketBytes) {
      side.in_turn = true;
      host_at(host).turns.emplace_back(number, from);
      return next_turn(host);
    }
    arrive_at(number, from,
              now_ + ns_of(bytes, std::min(rate_of(host), rate_of(host_of(other)))) + static_cast<uint64_t>(latency_ns(side, other)));
  }
}

void Network::next_turn(int number_of_host) {
  Host& host = host_at(number_of_host);
  while (!host.sending && !host.turns.empty()) {
    const auto [number, from] = host.turns.front();
    host.turns.pop_front();
    Connection* c = find(number);
    if (c == nullptr) continue;
    Side& side = c->sides[static_cast<size_t>(from)];
    side.in_turn = false;
    // Given up since, or cut off: then unblocked() brings it back.
    if (side.scheduled == side.sent.size() || blocked(number_of_host, host_of(c->sides[static_cast<size_t>(1 - from)]))) continue;
    side.in_turn = host.sending = true;
    push(now_ + ns_of(size_of(side.sent[side.scheduled]), rate_of(number_of_host)), Kind::departed, -1, 0, number,
         static_cast<uint64_t>(number_of_host) << 1 | static_cast<uint64_t>(from));
  }
}

// The last byte of a frame has left its host. The receiver takes frames one at a time too, each from when its first byte is there.
void Network::depart(uint64_t number, int from, int number_of_host) {
  host_at(number_of_host).sending = false;
  if (Connection* c = find(number)) {
    Side& side = c->sides[static_cast<size_t>(from)];
    const Side& other = c->sides[static_cast<size_t>(1 - from)];
    side.in_turn = false;
    if (side.scheduled < side.sent.size()) {
      const int to = host_of(other);
      const size_t bytes = size_of(side.sent[side.scheduled]);
      const auto latency = static_cast<uint64_t>(latency_ns(side, other));
      const uint64_t first = now_ - ns_of(bytes, rate_of(number_of_host)) + latency;
      uint64_t& until = host_at(to).receives_until;
      until = std::max(now_ + latency, std::max(until, first) + ns_of(bytes, rate_of(to)));
      arrive_at(number, from, until);
    }
    schedule(number, from);
  }
  next_turn(number_of_host);
}

// Sent, and no acknowledgement can come: after TCP_USER_TIMEOUT the sender's kernel gives up.
void Network::await_acknowledgement(uint64_t number, int from) {
  Side& side = find(number)->sides[static_cast<size_t>(from)];
  if (side.unacknowledged_since != 0 || !side.open) return;
  side.unacknowledged_since = now_;
  push(now_ + kUserTimeout, Kind::check, -1, 0, number, static_cast<uint64_t>(from));
}

void Network::check(uint64_t number, int from) {
  Connection* c = find(number);
  if (c == nullptr) return;
  Side& side = c->sides[static_cast<size_t>(from)];
  if (!side.open || side.unacknowledged_since == 0 || now_ - side.unacknowledged_since < kUserTimeout) return;
  ++reached_.timeouts, ++reached_.half_open;
  lose(number, from, PeerLoss::timed_out);
}

// As a transport may do it: the body of every other chunk is received where it belongs, if its receiver says where.
void Network::hand_over(TransportEvents& handler, PeerId peer, std::span<const std::byte> frame) {
  const size_t bytes = size_of(frame);
  const bool counted = bytes != frame.size();
  if (counted) {  // the rest of its body is zeros
    blank_.resize(std::max(blank_.size(), bytes));
    std::copy(frame.begin(), frame.end(), blank_.begin());
    frame = std::span(blank_).first(bytes);
  }
  FrameHeader header;
  const bool chunk =
      bytes > kChunkHeadBytes && read_header(frame, &header) && header.type == MessageType::chunk && bytes == kHeaderBytes + header.length;
  if (!chunk || (!counted && ++chunks_ % 2 == 0)) return handler.on_frame(peer, frame);
  const auto head = frame.first(kChunkHeadBytes), body = frame.subspan(kChunkHeadBytes);
  const Placement place = handler.place(peer, head);
  if (!place.memory) return handler.on_frame(peer, frame);
  if (!counted) std::copy(body.begin(), body.end(), place.memory);
  handler.on_placed(peer, head, {place.memory, body.size()});
}

}  // namespace perigee::sim
