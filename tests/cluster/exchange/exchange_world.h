// Members of one exchange in one thread, between them links with bounded queues whose frames arrive in a random order across links,
// sometimes twice.
#pragma once

#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "cluster/exchange/collective.h"

namespace perigee {

struct ExchangeWorld {
  struct Frame {
    Chunk chunk;
    std::vector<std::byte> body;
  };
  struct Link {
    std::deque<Frame> queue;
    bool refused = false;
    double bytes = 0;
    size_t most = 0;  // bytes of body in one frame
  };
  struct Member {
    std::vector<std::vector<std::byte>> rows;
    std::vector<std::byte> result;
    std::unique_ptr<Collective> exchange;
    bool started = false;
  };

  ExchangeWorld(int size, uint64_t seed, size_t bound) : random(seed), bound(bound), members(size), links(size * size) {}

  ChunkSender sender(int from) {
    return [this, from](int to, const Chunk& chunk, std::span<const std::byte> body) {
      Link& link = links[from * size() + to];
      if (link.queue.size() >= bound) {
        link.refused = true;
        return false;
      }
      link.queue.push_back({chunk, {body.begin(), body.end()}});
      link.bytes += static_cast<double>(body.size());
      link.most = std::max(link.most, body.size());
      return true;
    };
  }

  // One event, chosen at random; false: nothing is left to happen.
  bool step(double repeat = 0) {
    std::vector<std::pair<int, int>> ready;  // links with a frame; (member, -1): its start
    for (int from = 0; from < size(); ++from) {
      if (!members[from].started) ready.push_back({from, -1});
      for (int to = 0; to < size(); ++to)
        if (!links[from * size() + to].queue.empty()) ready.push_back({from, to});
    }
    if (ready.empty()) return false;
    const auto [from, to] = ready[random() % ready.size()];
    if (to < 0) {
      members[from].started = true;
      members[from].exchange->start(sender(from));
      return true;
    }
    Link& link = links[from * size() + to];
    const Frame frame = link.queue.front();
    link.queue.pop_front();
    const int times = std::uniform_real_distribution<>()(random) < repeat ? 2 : 1;
    for (int i = 0; i < times; ++i) {
      std::span<const std::byte> body = frame.body;
      // Every other body is received where it belongs, if it belongs somewhere.
      std::byte* const place = ++delivered % 2 ? members[to].exchange->place(from, frame.chunk, body.size()) : nullptr;
      if (place) {
        std::memcpy(place, body.data(), body.size());
        body = {place, body.size()};
        ++placed;
      }
      if (!members[to].exchange->on_chunk(from, frame.chunk, body, sender(to))) ++refused;
    }
    if (link.refused && link.queue.size() <= bound / 2) {
      link.refused = false;
      members[from].exchange->on_writable(to, sender(from));
    }
    return true;
  }

  void run(double repeat = 0) {
    while (step(repeat)) {}
  }

  int size() const { return static_cast<int>(members.size()); }
  double sent_by(int rank) const {
    double bytes = 0;
    for (int to = 0; to < size(); ++to) bytes += links[rank * size() + to].bytes;
    return bytes;
  }

  std::mt19937_64 random;
  size_t bound;  // frames in a link
  std::vector<Member> members;
  std::vector<Link> links;  // [from][to]
  int refused = 0;          // frames that a member took for a fault
  int delivered = 0, placed = 0;
};

}  // namespace perigee
