// A transport that writes down what happens to it, and a loop that is turned until something is so.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cluster/protocol/message.h"
#include "cluster/uv/uv_transport.h"
#include "tests/net/run_until.h"

namespace perigee::test {

// Turns the loop so often that whatever was to come has come.
inline void settle(UvLoop& loop, int turns = 200) {
  for (int i = 0; i < turns; ++i) loop.poll(), usleep(100);
}

inline int open_descriptors() {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (folder && readdir(folder)) ++count;
  if (folder) closedir(folder);
  return count;
}

class Node final : public TransportEvents {
 public:
  explicit Node(UvLoop& loop, UvTransportOptions options = {}) : loop(loop), transport(loop, std::move(options)) {
    transport.set_events(this);
  }

  void on_connected(PeerId peer, const std::string& address) override {
    connected.push_back(peer);
    addresses[peer] = address;
  }
  void on_frame(PeerId peer, std::span<const std::byte> frame) override {
    ++frames;
    bytes += frame.size();
    if (keep) received[peer].emplace_back(frame.begin(), frame.end());
    if (frame_hook) frame_hook(peer, frame);
  }
  Placement place(PeerId, std::span<const std::byte> head) override {
    return place_hook && head.size() == kChunkHeadBytes ? place_hook(head) : Placement{};
  }
  void on_placed(PeerId peer, std::span<const std::byte> head, std::span<const std::byte> body) override {
    ++placed;
    std::vector<std::byte> frame(head.begin(), head.end());
    frame.insert(frame.end(), body.begin(), body.end());
    on_frame(peer, frame);
  }
  void on_lost(PeerId peer, PeerLoss why) override {
    lost.emplace_back(peer, why);
    detail = transport.loss_detail();
  }
  void on_timer(uint64_t timer) override {
    fired.push_back(timer);
    if (timer_hook) timer_hook(timer);
  }
  void on_bytes(PeerId) override { ++parts; }
  void on_writable(PeerId peer) override {
    ++writable[peer];
    if (writable_hook) writable_hook(peer);
  }

  int64_t count(const char* name) const { return transport.counters().find(name)->as_int(); }
  PeerId dial(const std::string& address) { return transport.connect(address, loop.now_ns() + 20 * kSecond); }
  template <class M>
  bool say(PeerId peer, const M& message, FrameHeader header = {}) {
    return transport.send(peer, encode(message, header));
  }

  UvLoop& loop;
  bool keep = true;
  std::vector<PeerId> connected;
  std::map<PeerId, std::string> addresses;
  std::map<PeerId, std::vector<std::vector<std::byte>>> received;
  std::vector<std::pair<PeerId, PeerLoss>> lost;
  std::string detail;
  std::vector<uint64_t> fired;
  std::map<PeerId, int> writable;
  size_t frames = 0, bytes = 0, placed = 0;  // `placed` of the frames
  size_t parts = 0;                          // on_bytes()
  std::function<Placement(std::span<const std::byte>)> place_hook;
  std::function<void(PeerId, std::span<const std::byte>)> frame_hook;
  std::function<void(uint64_t)> timer_hook;
  std::function<void(PeerId)> writable_hook;
  UvTransport transport;
};

}  // namespace perigee::test
