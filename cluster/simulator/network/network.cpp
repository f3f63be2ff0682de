#include "cluster/simulator/network/network.h"

#include <algorithm>
#include <cassert>

#include "cluster/simulator/network/network_process.h"

namespace perigee::sim {
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
size_t Network::running_timers(int process) const { return processes_[static_cast<size_t>(process)]->timers.size(); }
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

}  // namespace perigee::sim
