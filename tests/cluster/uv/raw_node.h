// A node that says what a test tells it to say, to find out what the others make of it.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "cluster/protocol/message.h"
#include "cluster/simulator/network/network.h"

namespace perigee {

class RawNode : public TransportEvents {
 public:
  RawNode(sim::Network& network, int host, const std::string& address) : network_(network), process_(network.add_process(host, address)) {
    network_.boot(process_, this);
  }

  PeerId connect(const std::string& address) {
    peer = network_.transport(process_).connect(address, network_.now_ns() + 1'000'000'000);
    return peer;
  }
  template <class M>
  void say(const M& message, const FrameHeader& header) {
    network_.transport(process_).send(peer, encode(message, header));
  }
  void say_bytes(const std::vector<std::byte>& bytes) { network_.transport(process_).send(peer, bytes); }
  void hang_up() { network_.transport(process_).close(peer); }

  // The first frame of that type that has come and was not taken yet.
  template <class M>
  bool take(M* message, FrameHeader* header = nullptr) {
    for (auto it = frames.begin(); it != frames.end(); ++it) {
      FrameHeader h;
      if (!read_header(*it, &h) || h.type != M::kType) continue;
      std::span<const std::byte> body;
      if (!decode(std::span<const std::byte>(*it).subspan(kHeaderBytes), message, &body)) return false;
      if (header) *header = h;
      frames.erase(it);
      return true;
    }
    return false;
  }

  void on_connected(PeerId who, const std::string&) override { peer = who, connected = true, ++connections; }
  void on_frame(PeerId, std::span<const std::byte> frame) override { frames.emplace_back(frame.begin(), frame.end()); }
  void on_lost(PeerId who, PeerLoss) override { lost = true, connected = connected && who != peer; }
  void on_timer(uint64_t) override {}
  void on_writable(PeerId) override {}

  PeerId peer = 0;
  bool connected = false, lost = false;
  int connections = 0;
  std::deque<std::vector<std::byte>> frames;

 private:
  sim::Network& network_;
  int process_;
};

}  // namespace perigee
