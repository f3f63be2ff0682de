#include "cluster/simulator/network.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "cluster/protocol/message.h"

namespace perigee::sim {
namespace {

constexpr size_t kControlBytes = size_t{4} << 20;  // so small bounds for data do not make control frames fail, which real ones never do

}  // namespace

class Network::Process final : public Clock, public Transport {
 public:
  Process(Network& network, int number, int host_number, uint64_t seed)
      : host(host_number), rng(seed), network_(network), number_(number) {}

  uint64_t now_ns() const override { return offset_ns + static_cast<uint64_t>(static_cast<double>(network_.now_) * rate); }
  uint64_t world_time(uint64_t own_ns) const {
    if (own_ns <= now_ns()) return network_.now_;
    uint64_t at = static_cast<uint64_t>(static_cast<double>(own_ns - offset_ns) / rate);
    while (offset_ns + static_cast<uint64_t>(static_cast<double>(at) * rate) < own_ns) ++at;
    return std::max(at, network_.now_);
  }
  PeerId connect(const std::string& address, uint64_t deadline_ns) override {
    return network_.connect(number_, address, world_time(deadline_ns));
  }
  bool send(PeerId peer, std::span<const std::byte> head, std::span<const std::byte> body) override {
    return network_.send(number_, peer, head, body);
  }
  void close(PeerId peer) override { network_.close(number_, peer); }
  void start_timer(uint64_t timer, uint64_t deadline_ns) override {
    const uint64_t token = ++network_.order_;
    timer_at(timer) = token;
    network_.push(world_time(deadline_ns), Kind::timer, number_, incarnation, timer, token);
  }
  void stop_timer(uint64_t timer) override {
    std::erase_if(timers, [&](const auto& t) { return t.first == timer; });
  }
  uint64_t& timer_at(uint64_t timer) {
    for (auto& [id, token] : timers)
      if (id == timer) return token;
    return timers.emplace_back(timer, 0).second;
  }

  int host;
  SeededRng rng;
  TransportEvents* handler = nullptr;
  uint64_t incarnation = 0, offset_ns = 0;
  double rate = 1;
  bool is_paused = false;
  std::vector<std::pair<uint64_t, uint64_t>> timers;  // id, token
  std::vector<Event> waiting;                         // while it is stopped

 private:
  Network& network_;
  int number_;
};

Network::Network(uint64_t seed) : rng_(mix(seed, 0x6e6574)) {}
Network::~Network() = default;

void Network::push(uint64_t at, Kind kind, int process, uint64_t incarnation, uint64_t a, uint64_t b) {
  assert(at >= now_);
  heap_.push_back({at, ++order_, a, b, kind, process, incarnation});
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

bool Network::step() {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
  const Event event = heap_.back();
  heap_.pop_back();
  assert(event.at >= now_);
  now_ = event.at;
  ++events_;
  run(event);
  return true;
}

// Events for a stopped process wait for it; events for a dead one are dropped.
void Network::run(const Event& event) {
  if (event.process >= 0) {
    Process& p = *processes_[static_cast<size_t>(event.process)];
    if (p.incarnation != event.incarnation || p.handler == nullptr) {
      if (event.kind == Kind::call) calls_[event.a] = nullptr, free_calls_.push_back(event.a);
      if (event.kind == Kind::frame) arrive(event.a, static_cast<int>(event.b));
      return;
    }
    if (p.is_paused) {
      p.waiting.push_back(event);
      return;
    }
  }
  deliver(event);
}

void Network::deliver(const Event& event) {
  Process* p = event.process >= 0 ? processes_[static_cast<size_t>(event.process)].get() : nullptr;
  switch (event.kind) {
    case Kind::timer: {
      const auto it =
          std::find_if(p->timers.begin(), p->timers.end(), [&](const auto& t) { return t.first == event.a && t.second == event.b; });
      if (it == p->timers.end()) return;
      p->timers.erase(it);
      note(now_, mix(static_cast<uint64_t>(event.process), event.a));
      p->handler->on_timer(event.a);
      return;
    }
    case Kind::call: {
      const auto what = std::move(calls_[event.a]);
      calls_[event.a] = nullptr;
      free_calls_.push_back(event.a);
      what();
      return;
    }
    case Kind::frame: return arrive(event.a, static_cast<int>(event.b));
    case Kind::reach: return reach(event.a);
    case Kind::check: return check(event.a, static_cast<int>(event.b));
    case Kind::departed: return depart(event.a, static_cast<int>(event.b & 1), static_cast<int>(event.b >> 1));
    case Kind::established: {
      Connection* c = find(event.a);
      if (c == nullptr) return;
      Side& side = c->sides[event.b];
      if (!side.open || side.established) return;
      side.established = true;
      note(now_, event.a * 4 + event.b);
      p->handler->on_connected(peer_of(event.a, static_cast<int>(event.b)), std::string(c->address));
      return;
    }
    case Kind::writable: {
      Connection* c = find(event.a);
      if (c == nullptr || !c->sides[event.b].open) return;
      p->handler->on_writable(peer_of(event.a, static_cast<int>(event.b)));
      return;
    }
    case Kind::lost: {  // b: side and reason
      note(now_, event.a * 8 + event.b);
      forget_if_over(event.a);
      p->handler->on_lost(peer_of(event.a, static_cast<int>(event.b & 1)), static_cast<PeerLoss>(event.b >> 1));
      return;
    }
  }
}

void Network::call(uint64_t when_ns, int process, uint64_t incarnation, std::function<void()> what) {
  uint64_t slot = calls_.size();
  if (free_calls_.empty()) {
    calls_.push_back(std::move(what));
  } else {
    slot = free_calls_.back();
    free_calls_.pop_back();
    calls_[slot] = std::move(what);
  }
  push(std::max(when_ns, now_), Kind::call, process, incarnation, slot, 0);
}

void Network::at(uint64_t when_ns, std::function<void()> what) { call(when_ns, -1, 0, std::move(what)); }

void Network::post(int process, uint64_t delay_ns, std::function<void()> what) {
  call(now_ + delay_ns, process, processes_[static_cast<size_t>(process)]->incarnation, std::move(what));
}

// ---- processes ----

Network::Host& Network::host_at(int host) { return hosts_[host]; }

int Network::add_process(int host, const std::string& address) {
  const int number = static_cast<int>(processes_.size());
  processes_.push_back(std::make_unique<Process>(*this, number, host, rng_.next()));
  addresses_[address] = number;
  host_at(host);
  return number;
}

void Network::set_clock(int process, uint64_t offset_ns, double rate) {
  Process& p = *processes_[static_cast<size_t>(process)];
  p.offset_ns = offset_ns, p.rate = rate;
}

void Network::boot(int process, TransportEvents* handler) {
  Process& p = *processes_[static_cast<size_t>(process)];
  assert(p.handler == nullptr && handler != nullptr);
  p.handler = handler;
  ++p.incarnation;
  p.is_paused = false;
  if (host_at(p.host).down) {
    host_at(p.host).down = false;
    unblocked();
  }
}

void Network::kill(int process, bool power) {
  Process& p = *processes_[static_cast<size_t>(process)];
  if (p.handler == nullptr) return;
  note(now_, 0xdead0000 + static_cast<uint64_t>(process));
  for (uint64_t number = first_connection_, end = number + connections_.size(); number < end; ++number) {
    Connection* c = find(number);
    if (c == nullptr) continue;
    for (int s = 0; s < 2; ++s) {
      Side& side = c->sides[static_cast<size_t>(s)];
      if (!side.open || side.process != process) continue;
      side.open = false;
      if (power) {
        side.sent.clear();
        ++reached_.half_open;
      } else {  // what the kernel had not sent yet is lost with some luck
        const auto keep = static_cast<size_t>(rng_.integer(0, static_cast<int64_t>(side.sent.size())));
        side.sent.resize(keep);
        side.scheduled = std::min(side.scheduled, keep);
        finish(*c, number, s, PeerLoss::reset);
      }
    }
    forget_if_over(number);
  }
  p.handler = nullptr;
  p.timers.clear();
  std::vector<Event> waiting;
  waiting.swap(p.waiting);
  for (const Event& event : waiting) run(event);  // as for a dead process
  if (power) host_at(p.host).down = true;
}

void Network::pause(int process) { processes_[static_cast<size_t>(process)]->is_paused = true; }

void Network::resume(int process) {
  Process& p = *processes_[static_cast<size_t>(process)];
  if (!p.is_paused) return;
  p.is_paused = false;
  std::vector<Event> waiting;
  waiting.swap(p.waiting);
  for (const Event& event : waiting) push(now_, event.kind, event.process, event.incarnation, event.a, event.b);
}

bool Network::alive(int process) const { return processes_[static_cast<size_t>(process)]->handler != nullptr; }
bool Network::paused(int process) const { return processes_[static_cast<size_t>(process)]->is_paused; }
Clock& Network::clock(int process) { return *processes_[static_cast<size_t>(process)]; }
Transport& Network::transport(int process) { return *processes_[static_cast<size_t>(process)]; }
Rng& Network::rng(int process) { return processes_[static_cast<size_t>(process)]->rng; }

// ---- wires ----

bool Network::blocked(int from_host, int to_host) const {
  const auto down = [&](int host) {
    const auto it = hosts_.find(host);
    return it != hosts_.end() && it->second.down;
  };
  if (down(from_host) || down(to_host)) return true;
  const auto it = blocks_.find({from_host, to_host});
  return it != blocks_.end() && it->second > 0;
}

int Network::host_of(const Side& side) const { return processes_[static_cast<size_t>(side.process)]->host; }

bool Network::clear(const Side& a, const Side& b) const {
  return b.process < 0 || (!blocked(host_of(a), host_of(b)) && !blocked(host_of(b), host_of(a)));
}

void Network::block(int from_host, int to_host) {
  if (from_host != to_host) ++blocks_[{from_host, to_host}];
}

void Network::unblock(int from_host, int to_host) {
  if (from_host == to_host) return;
  int& count = blocks_[{from_host, to_host}];
  assert(count > 0);
  if (--count == 0) unblocked();
}

// Something got through again: TCP sends what it still has.
void Network::unblocked() {
  for (uint64_t i = 0; i < connections_.size(); ++i) {
    Connection* c = find(first_connection_ + i);
    if (c == nullptr) continue;
    for (int s = 0; s < 2; ++s) {
      Side& side = c->sides[static_cast<size_t>(s)];
      if (side.process < 0 || c->sides[static_cast<size_t>(1 - s)].process < 0) continue;
      if (clear(side, c->sides[static_cast<size_t>(1 - s)])) side.unacknowledged_since = 0;
      schedule(first_connection_ + i, s);
    }
  }
}

void Network::reset_connections(int host_a, int host_b) {
  for (uint64_t i = 0; i < connections_.size(); ++i) {
    const uint64_t number = first_connection_ + i;
    Connection* c = find(number);
    if (c == nullptr || c->sides[1].process < 0) continue;
    const int a = host_of(c->sides[0]), b = host_of(c->sides[1]);
    if (!((a == host_a && b == host_b) || (a == host_b && b == host_a))) continue;
    lose(number, 0, PeerLoss::reset), lose(number, 1, PeerLoss::reset);
    ++reached_.resets;
  }
}

void Network::swallow(int host_a, int host_b, uint64_t until_ns) {
  if (host_a == host_b) return;
  mute_connections(host_a, host_b);
  uint64_t& until = swallowed_[std::minmax(host_a, host_b)];
  until = std::max(until, until_ns);
}

std::vector<uint64_t> Network::connections_between(int host_a, int host_b) const {
  std::vector<uint64_t> found;
  for (uint64_t number = first_connection_; number < first_connection_ + connections_.size(); ++number) {
    const Connection* c = find(number);
    if (c == nullptr || c->sides[1].process < 0) continue;
    const int a = host_of(c->sides[0]), b = host_of(c->sides[1]);
    const bool whole = c->sides[0].open && c->sides[0].established && c->sides[1].open && c->sides[1].established;
    if (whole && ((a == host_a && b == host_b) || (a == host_b && b == host_a))) found.push_back(number);
  }
  return found;
}

std::vector<uint64_t> Network::mute_connections(int host_a, int host_b) {
  const std::vector<uint64_t> found = connections_between(host_a, host_b);
  for (const uint64_t number : found) find(number)->muted = true;
  reached_.half_open += found.size();
  return found;
}

Network::Believer Network::believer(uint64_t number) const {
  const Connection* c = find(number);
  for (size_t s = 0; c != nullptr && s < 2; ++s)
    if (const Side& side = c->sides[s]; side.open && alive(side.process) && (side.heard_at != 0 || s == 0))
      return {side.process, side.heard_at};
  return {};
}

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

size_t Network::running_timers(int process) const { return processes_[static_cast<size_t>(process)]->timers.size(); }

}  // namespace perigee::sim
