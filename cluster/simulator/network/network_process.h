// A process as the network knows it: its host, clock, timers, and what waits while it is stopped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cluster/simulator/network/network.h"

namespace perigee::sim {

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

}  // namespace perigee::sim
