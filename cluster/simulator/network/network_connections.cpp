// The life of a connection in the simulated network: from the request to connect to its end, and what is sent in between.
#include <cstring>

#include "cluster/protocol/message.h"
#include "cluster/simulator/network/network_process.h"

namespace perigee::sim {
namespace {

constexpr size_t kControlBytes = size_t{4} << 20;  // so small bounds for data do not make control frames fail, which real ones never do

}  // namespace

Network::Connection* Network::find(uint64_t number) const {
  if (number < first_connection_ || number >= first_connection_ + connections_.size()) return nullptr;
  return connections_[number - first_connection_].get();
}

void Network::forget_if_over(uint64_t number) {
  Connection* c = find(number);
  if (c == nullptr) return;
  for (const Side& side : c->sides)
    if (side.open || !side.sent.empty()) return;
  connections_[number - first_connection_].reset();
  while (!connections_.empty() && connections_.front() == nullptr) connections_.pop_front(), ++first_connection_;
}

std::vector<std::byte> Network::buffer() {
  if (spare_.empty()) return {};
  std::vector<std::byte> bytes = std::move(spare_.back());
  spare_.pop_back();
  return bytes;
}

PeerId Network::connect(int process, const std::string& address, uint64_t deadline_ns) {
  auto c = std::make_unique<Connection>();
  c->address = address;
  c->deadline = deadline_ns;
  c->sides[0].process = process;
  c->sides[0].incarnation = processes_[static_cast<size_t>(process)]->incarnation;
  c->sides[0].open = true;
  const uint64_t number = first_connection_ + connections_.size();
  connections_.push_back(std::move(c));
  push(now_ + static_cast<uint64_t>(2 * quality_.latency_ms * 1e6) + 50'000, Kind::reach, -1, 0, number, 0);
  return peer_of(number, 0);
}

// A connection request gets to where it goes, or tries again until its deadline.
void Network::unlisten(int process) {
  std::erase_if(addresses_, [&](const auto& one) { return one.second == process; });
}

void Network::reach(uint64_t number) {
  Connection* c = find(number);
  if (c == nullptr || !c->sides[0].open) return;
  Side& from = c->sides[0];
  if (now_ >= c->deadline) {
    ++reached_.timeouts;
    return lose(number, 0, PeerLoss::timed_out);
  }
  const auto again = [&](uint64_t delay) { push(std::min(now_ + delay, std::max(now_, c->deadline)), Kind::reach, -1, 0, number, 0); };
  const auto it = addresses_.find(c->address);
  if (it == addresses_.end()) return lose(number, 0, PeerLoss::refused);
  Process& target = *processes_[static_cast<size_t>(it->second)];
  const int host = host_of(from);
  if (blocked(host, target.host) || blocked(target.host, host)) return again(1000 * kMs);
  if (target.handler == nullptr) {
    ++reached_.refused;
    return lose(number, 0, PeerLoss::refused);
  }
  const auto swallowed = swallowed_.find(std::minmax(host, target.host));
  if (swallowed != swallowed_.end() && now_ < swallowed->second) return again(c->deadline - now_);
  if (target.is_paused) return again(50 * kMs);  // its kernel accepts, but the handshake gets no answer
  Side& to = c->sides[1];
  to.process = it->second;
  to.incarnation = target.incarnation;
  to.open = true;
  const auto half = static_cast<uint64_t>(latency_ns(from, to));
  to.last_arrival = now_ + 2 * half;  // who asked knows by then; what is said to it before is not lost
  push(now_ + half, Kind::established, to.process, to.incarnation, number, 1);
  push(now_ + 2 * half, Kind::established, from.process, from.incarnation, number, 0);
}

bool Network::send(int process, PeerId peer, std::span<const std::byte> head, std::span<const std::byte> body) {
  const uint64_t number = peer / 2;
  const auto s = static_cast<size_t>(peer % 2);
  Connection* c = find(number);
  if (c == nullptr || c->sides[s].process != process || !c->sides[s].open || !c->sides[s].established) return false;
  Side& side = c->sides[s];
  const size_t bytes = head.size() + body.size();
  if (side.queued > 0 && side.queued + bytes > (body.empty() ? std::max(4 * queue_bytes_, kControlBytes) : queue_bytes_)) {
    side.refused = true;
    ++reached_.full_queues;
    return false;
  }
  std::vector<std::byte> frame = buffer();
  const bool counted = counts_chunks_ && body.size() > kCountedBody && head.size() == kChunkHeadBytes;
  if (counted) body = body.first(kCountedBody);
  frame.resize(head.size() + body.size());
  if (!head.empty()) std::memcpy(frame.data(), head.data(), head.size());
  if (!body.empty()) std::memcpy(frame.data() + head.size(), body.data(), body.size());
  side.queued += bytes;
  peak_queue_ = std::max<uint64_t>(peak_queue_, side.queued);
  ++reached_.frames;
  const bool again = quality_.duplicates > 0 && rng_.chance(quality_.duplicates);
  if (again && s == 0)
    for (const std::vector<std::byte>& earlier : c->remembered)
      side.sent.push_back(earlier), side.queued += size_of(earlier), ++reached_.duplicates;
  if (quality_.duplicates > 0 && s == 0) {
    const bool anew = rng_.chance(0.2);
    if (anew) c->remembered.clear();
    const size_t most = c->remembered.empty() ? 0 : static_cast<size_t>(quality_.repeated);
    if (anew || c->remembered.size() < most) c->remembered.push_back(frame);
  }
  side.sent.push_back(std::move(frame));
  schedule(number, static_cast<int>(s));
  return true;
}

void Network::arrive(uint64_t number, int from) {
  Connection* c = find(number);
  if (c == nullptr) return;
  Side& side = c->sides[static_cast<size_t>(from)];
  Side& to = c->sides[static_cast<size_t>(1 - from)];
  if (side.sent.empty() || side.scheduled == 0) return;
  std::vector<std::byte> frame = std::move(side.sent.front());
  side.sent.pop_front();
  --side.scheduled;
  if (frame.empty()) {  // the end
    if (to.open) lose(number, 1 - from, side.end_as);
    return forget_if_over(number);
  }
  side.queued -= std::min<uint64_t>(side.queued, size_of(frame));
  if (side.refused && side.open && side.queued < queue_bytes_ / 2) {
    side.refused = false;
    push(now_, Kind::writable, side.process, side.incarnation, number, static_cast<uint64_t>(from));
  }
  if (to.open && to.established) {
    note(now_, mix(number * 2 + static_cast<uint64_t>(from), size_of(frame)));
    to.heard_at = now_;
    if (watch) watch(side.process, to.process, frame);
    hand_over(*processes_[static_cast<size_t>(to.process)]->handler, peer_of(number, 1 - from), frame);
  } else if (side.open && !to.open) {  // the connection has no owner any more: RST
    if (!blocked(host_of(to), host_of(side))) lose(number, from, PeerLoss::reset);
  }
  if (spare_.size() < 64) spare_.push_back(std::move(frame));
  forget_if_over(number);
}

// The end of what this side sends: the other hears it behind everything else.
void Network::finish(Connection& connection, uint64_t number, int s, PeerLoss as) {
  Side& side = connection.sides[static_cast<size_t>(s)];
  Side& other = connection.sides[static_cast<size_t>(1 - s)];
  side.end_as = as;
  if (!other.open) return;
  side.sent.emplace_back();
  schedule(number, s);
}

void Network::lose(uint64_t number, int s, PeerLoss why) {
  Connection* c = find(number);
  if (c == nullptr) return;
  Side& side = c->sides[static_cast<size_t>(s)];
  if (!side.open) return;
  side.open = false;
  side.sent.clear();
  side.scheduled = 0;
  push(now_, Kind::lost, side.process, side.incarnation, number, static_cast<uint64_t>(s) | static_cast<uint64_t>(why) << 1);
}

void Network::close(int process, PeerId peer) {
  Connection* c = find(peer / 2);
  if (c == nullptr) return;
  const auto s = static_cast<size_t>(peer % 2);
  Side& side = c->sides[s];
  if (side.process != process || !side.open) return;
  side.open = false;
  finish(*c, peer / 2, static_cast<int>(s), PeerLoss::closed);
  forget_if_over(peer / 2);
}

size_t Network::open_connections(int process) const {
  size_t count = 0;
  for (const auto& c : connections_)
    if (c)
      for (size_t s = 0; s < 2; ++s) count += c->sides[s].open && c->sides[s].process == process && (s == 0 || c->sides[s].established);
  return count;
}

}  // namespace perigee::sim
