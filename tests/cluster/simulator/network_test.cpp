// The simulated network by itself: what TCP promises, and what it does not.
#include "cluster/simulator/network/network.h"

#include <gtest/gtest.h>

#include <deque>

namespace perigee::sim {
namespace {

struct Peer final : public TransportEvents {
  void on_connected(PeerId peer, const std::string&) override { connected.push_back(peer); }
  void on_frame(PeerId, std::span<const std::byte> frame) override { frames.push_back(static_cast<int>(frame[0])); }
  void on_lost(PeerId, PeerLoss why) override { lost.push_back(why); }
  void on_timer(uint64_t timer) override { timers.push_back(timer); }
  void on_writable(PeerId) override { ++writable; }
  std::vector<PeerId> connected;
  std::vector<int> frames;
  std::vector<PeerLoss> lost;
  std::vector<uint64_t> timers;
  int writable = 0;
};

class NetworkTest : public testing::Test {
 protected:
  NetworkTest() {
    a = network.add_process(1, "a:1"), b = network.add_process(2, "b:1");
    network.boot(a, &at_a), network.boot(b, &at_b);
  }
  void run(double ms) {
    const uint64_t until = network.now_ns() + static_cast<uint64_t>(ms * 1e6);
    bool over = false;
    network.at(until, [&] { over = true; });
    while (!over && network.step()) {}
  }
  void connect() {
    peer_of_a = network.transport(a).connect("b:1", network.now_ns() + 5'000'000'000);
    run(100);
    ASSERT_EQ(at_a.connected.size(), 1u);
    ASSERT_EQ(at_b.connected.size(), 1u);
    peer_of_b = at_b.connected[0];
  }
  bool send_a(int value, size_t bytes = 100) {
    std::vector<std::byte> frame(bytes, static_cast<std::byte>(value));
    return network.transport(a).send(peer_of_a, frame);
  }
  Network network{1};
  Peer at_a, at_b;
  int a = 0, b = 0;
  PeerId peer_of_a = 0, peer_of_b = 0;
};

TEST_F(NetworkTest, FramesComeInOrderWhateverTheJitterAndLoss) {
  network.set_quality({.latency_ms = 5, .jitter_ms = 20, .loss = 0.2});
  connect();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(send_a(i));
  run(60'000);
  ASSERT_EQ(at_b.frames.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(at_b.frames[static_cast<size_t>(i)], i);
}

TEST_F(NetworkTest, ConnectionsOfOneHostShareItsRateInTurns) {
  network.set_quality({.latency_ms = 10, .jitter_ms = 0, .bytes_per_s = 1e6, .shared = true});
  Peer at_c;
  const int c = network.add_process(3, "c:1");
  network.boot(c, &at_c);
  connect();
  const PeerId to_c = network.transport(a).connect("c:1", network.now_ns() + 5'000'000'000);
  run(100);
  // 400 kB to b, then 100 kB to c: in turns, c's last frame leaves second to last but three.
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(send_a(i, 100'000));
  ASSERT_TRUE(network.transport(a).send(to_c, std::vector<std::byte>(100'000)));
  run(205);
  EXPECT_EQ(at_b.frames.size(), 1u);
  EXPECT_EQ(at_c.frames.size(), 0u);
  run(10);
  EXPECT_EQ(at_c.frames.size(), 1u);
  EXPECT_EQ(at_b.frames.size(), 1u);
  ASSERT_TRUE(network.transport(a).send(to_c, std::vector<std::byte>(100)));  // a packet waits for no other connection
  run(11);
  EXPECT_EQ(at_c.frames.size(), 2u);
  run(510 - 226 - 1);
  EXPECT_EQ(at_b.frames.size(), 3u);
  run(2);
  EXPECT_EQ(at_b.frames, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(network.traffic(1).sent, 500'100u);
  EXPECT_EQ(network.traffic(2).received, 400'000u);
}

TEST_F(NetworkTest, WhatSeveralSendToOneHostArrivesAtItsRate) {
  network.set_quality({.latency_ms = 10, .jitter_ms = 0, .bytes_per_s = 1e6, .shared = true});
  Peer at_c;
  const int c = network.add_process(3, "c:1");
  network.boot(c, &at_c);
  connect();
  const PeerId from_c = network.transport(c).connect("b:1", network.now_ns() + 5'000'000'000);
  run(100);
  ASSERT_TRUE(send_a(1, 100'000));
  ASSERT_TRUE(network.transport(c).send(from_c, std::vector<std::byte>(100'000, std::byte{2})));
  run(109);
  EXPECT_EQ(at_b.frames.size(), 0u);
  run(2);
  EXPECT_EQ(at_b.frames.size(), 1u);
  run(98);
  EXPECT_EQ(at_b.frames.size(), 1u);
  run(2);
  EXPECT_EQ(at_b.frames, (std::vector<int>{1, 2}));
}

TEST_F(NetworkTest, AClosedConnectionDeliversWhatWasSentAndThenItsEnd) {
  connect();
  send_a(1), send_a(2);
  network.transport(a).close(peer_of_a);
  run(1000);
  EXPECT_EQ(at_b.frames, (std::vector<int>{1, 2}));
  EXPECT_EQ(at_b.lost, std::vector{PeerLoss::closed});
  EXPECT_TRUE(at_a.lost.empty());
  EXPECT_EQ(network.open_connections(a) + network.open_connections(b), 0u);
}

TEST_F(NetworkTest, ADeadProcessIsNoticedAtOnceAndALostHostOnlyByItsSilence) {
  connect();
  network.kill(b, false);
  run(10);
  EXPECT_EQ(at_a.lost, std::vector{PeerLoss::reset});

  network.boot(b, &at_b);
  at_a.connected.clear(), at_a.lost.clear(), at_b.connected.clear();
  connect();
  network.kill(b, true);
  run(10'000);
  EXPECT_TRUE(at_a.lost.empty()) << "no message was sent";
  send_a(1);
  run(4000);
  EXPECT_TRUE(at_a.lost.empty());
  run(2000);
  EXPECT_EQ(at_a.lost, std::vector{PeerLoss::timed_out});
}

TEST_F(NetworkTest, APartitionDelaysAndThenBreaks) {
  connect();
  network.block(1, 2);
  send_a(1);
  run(3000);
  EXPECT_TRUE(at_b.frames.empty());
  network.unblock(1, 2);
  run(3000);
  EXPECT_EQ(at_b.frames, std::vector{1});
  network.block(1, 2);
  send_a(2);
  run(6000);
  EXPECT_EQ(at_a.lost, std::vector{PeerLoss::timed_out});
  EXPECT_TRUE(at_b.lost.empty()) << "half-open";
}

TEST_F(NetworkTest, OneWayPartitionDeliversButIsNotAcknowledged) {
  connect();
  network.block(2, 1);
  send_a(1);
  run(6000);
  EXPECT_EQ(at_b.frames, std::vector{1});
  EXPECT_EQ(at_a.lost, std::vector{PeerLoss::timed_out});
}

TEST_F(NetworkTest, AStoppedProcessHearsEverythingLater) {
  connect();
  network.pause(b);
  send_a(1), send_a(2);
  network.transport(b).start_timer(7, network.clock(b).now_ns() + 1'000'000);
  run(2000);
  EXPECT_TRUE(at_b.frames.empty());
  EXPECT_TRUE(at_b.timers.empty());
  network.resume(b);
  run(1);
  EXPECT_EQ(at_b.frames, (std::vector<int>{1, 2}));
  EXPECT_EQ(at_b.timers, std::vector<uint64_t>{7});
}

TEST_F(NetworkTest, ConnectingFailsAsItShould) {
  network.transport(a).connect("nowhere:1", network.now_ns() + 1'000'000'000);
  run(100);
  EXPECT_EQ(at_a.lost, std::vector{PeerLoss::refused});
  network.block(1, 2);
  network.transport(a).connect("b:1", network.now_ns() + 1'000'000'000);
  run(900);
  EXPECT_EQ(at_a.lost.size(), 1u);
  run(200);
  EXPECT_EQ(at_a.lost.back(), PeerLoss::timed_out);
}

TEST_F(NetworkTest, AFullQueueRefusesDataAndSaysWhenThereIsRoom) {
  network.set_quality({.bytes_per_s = 1e6});
  network.set_queue_bytes(10'000);
  connect();
  const std::vector<std::byte> head(40), body(4000);
  int taken = 0;
  while (network.transport(a).send(peer_of_a, head, body)) ++taken;
  EXPECT_EQ(taken, 2);
  EXPECT_TRUE(network.transport(a).send(peer_of_a, head)) << "control frames still go";
  run(1000);
  EXPECT_EQ(at_a.writable, 1);
}

TEST_F(NetworkTest, TimersFollowTheProcessesOwnClock) {
  network.set_clock(a, 123'456'789, 1.0002);
  const uint64_t deadline = network.clock(a).now_ns() + 10'000'000'000;
  network.transport(a).start_timer(1, deadline);
  network.transport(a).start_timer(2, deadline);
  network.transport(a).stop_timer(2);
  run(9990);
  EXPECT_TRUE(at_a.timers.empty());
  run(20);
  EXPECT_EQ(at_a.timers, std::vector<uint64_t>{1});
  EXPECT_GE(network.clock(a).now_ns(), deadline);
  EXPECT_EQ(network.running_timers(a), 0u);
}

}  // namespace
}  // namespace perigee::sim
