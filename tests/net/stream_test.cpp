// src/net as a server uses it that is not the cluster: lines that come back, with TLS and without, from peers that are slow, many,
// half open or wrong.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>

#include "src/core/error.h"
#include "src/net/listener.h"
#include "src/net/timer.h"
#include "tests/net/line_server.h"
#include "tests/net/raw_socket.h"

namespace perigee::test {
namespace {

class NetTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<const TlsCredentials> credentials(uint8_t number = 1) const {
    return GetParam() ? key(number) : std::unique_ptr<const TlsCredentials>();
  }
  UvLoop loop_;
};

INSTANTIATE_TEST_SUITE_P(Net, NetTest, testing::Bool(), [](const auto& info) { return info.param ? "tls" : "plain"; });

TEST_P(NetTest, LinesComeBackInOrder) {
  EchoServer server(loop_, credentials());
  LineNode client(loop_, credentials());
  const uint64_t id = client.dial(server.streams.listen("127.0.0.1:0"));
  ASSERT_TRUE(run_until(loop_, [&] { return !client.ready.empty(); }));
  std::vector<std::string> said;
  for (int i = 0; i < 2000; ++i) said.push_back(std::to_string(i) + std::string(static_cast<size_t>(i % 700), 'x'));
  for (const std::string& line : said) ASSERT_TRUE(client.at(id).say(line));
  ASSERT_TRUE(run_until(loop_, [&] { return client.lines[id].size() == said.size(); }));
  EXPECT_EQ(client.lines[id], said);
}

// Both ends within the machine, from their first packet on: pacing that has begun stays.
TEST_P(NetTest, NothingIsPacedWithinTheMachine) {
  EchoServer server(loop_, credentials());
  LineNode client(loop_, credentials());
  client.dial(server.streams.listen("127.0.0.1:0"));
  ASSERT_TRUE(run_until(loop_, [&] { return !client.ready.empty(); }));
  int sockets = 0;
  for (int fd = 3; fd < 100; ++fd) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 || address.ss_family != AF_INET) continue;
    std::array<char, 16> congestion{};
    size = congestion.size();
    ASSERT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion.data(), &size), 0);
    EXPECT_STREQ(congestion.data(), "reno");
    int room = 0;
    size = sizeof room;
    ASSERT_EQ(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, &size), 0);
    EXPECT_EQ(room, 2 * 512 << 10);
    ++sockets;
  }
  EXPECT_EQ(sockets, 3);  // the listener's, the server's and the client's
}

TEST_P(NetTest, AUnixSocketIsAStreamToo) {
  const std::string path = testing::TempDir() + "perigee_net_" + std::to_string(getpid()) + ".sock";
  {
    EchoServer server(loop_, credentials());
    LineNode client(loop_, credentials());
    EXPECT_EQ(server.streams.listen("unix:" + path), "unix:" + path);
    const uint64_t id = client.dial("unix:" + path);
    ASSERT_TRUE(run_until(loop_, [&] { return !client.ready.empty(); }));
    ASSERT_TRUE(client.at(id).say("hello"));
    ASSERT_TRUE(run_until(loop_, [&] { return client.lines[id].size() == 1; }));
    EXPECT_EQ(client.lines[id][0], "hello");
  }
  pass(loop_, 20);
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "the socket's file is left behind";
  LineNode late(loop_, credentials());
  const uint64_t id = late.dial("unix:" + path);
  ASSERT_TRUE(run_until(loop_, [&] { return late.lost.contains(id); }));
  EXPECT_EQ(late.lost[id].first, StreamEnd::refused);
}

TEST_P(NetTest, ASlowReaderMakesTheServerWaitAndIsServedLater) {
  EchoServer server(loop_, credentials());
  LineNode client(loop_, credentials());
  const uint64_t id = client.dial(server.streams.listen("127.0.0.1:0"));
  ASSERT_TRUE(run_until(loop_, [&] { return !client.ready.empty(); }));
  client.at(id).pause_reading();
  const std::string line(4000, 'a');
  constexpr size_t kLines = 6000;  // 24 MB: more than the system's buffers take
  size_t said = 0;
  const auto speak = [&] {
    while (said < kLines && client.at(id).say(line, size_t{1} << 20)) ++said;
  };
  ASSERT_TRUE(run_until(loop_, [&] { return speak(), server.pauses > 0; }));
  pass(loop_, 100);
  speak();
  EXPECT_LT(said, kLines) << "the client was not made to wait";
  // At most one read of 128 KB had been received when the bound was reached.
  EXPECT_LE(server.most_waiting, EchoServer::kBound + (size_t{192} << 10));
  client.at(id).resume_reading();
  ASSERT_TRUE(run_until(loop_, [&] { return speak(), client.lines[id].size() == kLines; }));
  EXPECT_TRUE(client.lost.empty());
}

TEST_P(NetTest, AReaderThatNeverReadsIsEndedAtItsDeadline) {
  EchoServer server(loop_, credentials());
  server.patience_ms = 100;
  LineNode client(loop_, credentials());
  const uint64_t id = client.dial(server.streams.listen("127.0.0.1:0"));
  ASSERT_TRUE(run_until(loop_, [&] { return !client.ready.empty(); }));
  client.at(id).pause_reading();
  const std::string line(4000, 'a');
  ASSERT_TRUE(run_until(loop_, [&] {
    if (Stream* stream = client.streams.find(id); stream && stream->state() == Stream::State::open)
      while (client.at(id).say(line, size_t{1} << 20)) {}
    return !server.lost.empty();
  }));
  EXPECT_EQ(server.lost.begin()->second.first, StreamEnd::timed_out);
  EXPECT_EQ(server.streams.ready(), 0u);
}

TEST_P(NetTest, AFloodOfStrangersKeepsNobodyOut) {
  EchoServer server(loop_, credentials(), {.max_pending = 8, .handshake_ms = 60'000});
  const std::string address = server.streams.listen("127.0.0.1:0");
  const auto port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  std::vector<RawSocket> strangers;
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(RawSocket::connected(port));
    loop_.poll();
  }
  ASSERT_TRUE(run_until(loop_, [&] { return server.streams.counters().accepted == 100; }));
  EXPECT_EQ(server.streams.pending(), 8u);
  EXPECT_EQ(server.streams.counters().pending_dropped, 92u);
  LineNode client(loop_, credentials());
  const uint64_t id = client.dial(address);
  ASSERT_TRUE(run_until(loop_, [&] { return !client.ready.empty(); }));
  client.at(id).say("still there");
  ASSERT_TRUE(run_until(loop_, [&] { return client.lines[id].size() == 1; }));
  EXPECT_TRUE(server.lost.empty()) << "the user heard of strangers";
}

TEST_P(NetTest, WhoHasBegunToSpeakKeepsItsPlaceBeforeTheSilent) {
  EchoServer server(loop_, credentials(), {.max_pending = 4, .handshake_ms = 60'000});
  const std::string address = server.streams.listen("127.0.0.1:0");
  const auto port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  RawSocket begun = RawSocket::connected(port);
  const std::string_view words = GetParam() ? std::string_view("\x16\x03\x01\x02\x00\x01", 6) : "half a li";
  begun.write(std::as_bytes(std::span(words)));
  std::vector<RawSocket> silent;  // all of them wait to be accepted, in one go
  for (int i = 0; i < 20; ++i) silent.push_back(RawSocket::connected(port));
  ASSERT_TRUE(run_until(loop_, [&] { return server.streams.counters().accepted == 21; }));
  EXPECT_FALSE(begun.ended());
  EXPECT_EQ(server.streams.pending(), 4u);
  EXPECT_EQ(server.streams.counters().pending_dropped, 17u);
}

TEST_P(NetTest, AHalfOpenPeerIsEndedAtTheHandshakesDeadline) {
  EchoServer server(loop_, credentials(), {.handshake_ms = 100});
  const std::string address = server.streams.listen("127.0.0.1:0");
  RawSocket peer = RawSocket::connected(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  // The beginning of a line, or of a TLS record of 512 bytes.
  const std::string_view words = GetParam() ? std::string_view("\x16\x03\x01\x02\x00\x01", 6) : "half a li";
  peer.write(std::as_bytes(std::span(words)));
  const uint64_t begin = loop_.now_ns();
  ASSERT_TRUE(run_until(loop_, [&] { return peer.ended(); }));
  EXPECT_GT(loop_.now_ns() - begin, uint64_t{50'000'000}) << "it was not waited for";
  EXPECT_EQ(server.streams.pending(), 0u);
  EXPECT_EQ(server.streams.counters().connected, 0u);
}

TEST_P(NetTest, AnAddressThatKeepsFailingIsShutOut) {
  EchoServer server(loop_, credentials(), {.handshake_ms = 20, .failures_per_address = 3, .forgiven_per_s = 0});
  const std::string address = server.streams.listen("127.0.0.1:0");
  const auto port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  for (int i = 0; i < 3; ++i) {
    RawSocket peer = RawSocket::connected(port);
    ASSERT_TRUE(run_until(loop_, [&] { return peer.ended(); }));
  }
  RawSocket fourth = RawSocket::connected(port);
  ASSERT_TRUE(run_until(loop_, [&] { return fourth.ended(); }));
  EXPECT_EQ(server.streams.counters().accepted, 3u);
  EXPECT_EQ(server.streams.counters().shut_out, 1u);
}

TEST_P(NetTest, CloseSendsWhatWaitsAndIsNoLossHere) {
  EchoServer server(loop_, credentials());
  LineNode client(loop_, credentials());
  const uint64_t id = client.dial(server.streams.listen("127.0.0.1:0"));
  ASSERT_TRUE(run_until(loop_, [&] { return !client.ready.empty(); }));
  const std::string line(4000, 'b');
  constexpr size_t kLines = 500;
  for (size_t i = 0; i < kLines; ++i) ASSERT_TRUE(client.at(id).say(line));
  client.streams.close(id);
  ASSERT_TRUE(run_until(loop_, [&] { return !server.lost.empty() && !client.streams.find(id); }));
  EXPECT_EQ(server.lost.begin()->second.first, StreamEnd::closed);
  EXPECT_EQ(server.echoed, kLines);
  EXPECT_TRUE(client.lost.empty());
}

TEST_P(NetTest, AProtocolEndsAStreamWithTheReason) {
  EchoServer server(loop_, credentials());
  LineNode client(loop_, credentials());
  const uint64_t id = client.dial(server.streams.listen("127.0.0.1:0"));
  ASSERT_TRUE(run_until(loop_, [&] { return !client.ready.empty(); }));
  client.at(id).say("first");
  client.at(id).say("bad");
  client.at(id).say("never heard");
  ASSERT_TRUE(run_until(loop_, [&] { return !client.lost.empty(); }));
  EXPECT_EQ(client.lines[id], std::vector<std::string>{"first"});
  EXPECT_EQ(client.lost[id].first, StreamEnd::closed);
  EXPECT_EQ(server.echoed, 1u);
  ASSERT_EQ(server.lost.size(), 1u);
  EXPECT_EQ(server.lost.begin()->second.first, StreamEnd::protocol_error);
}

TEST_P(NetTest, ANameIsLookedUpAndAPortWithoutAServerRefuses) {
  EchoServer server(loop_, credentials());
  LineNode client(loop_, credentials());
  const std::string address = server.streams.listen("127.0.0.1:0");
  const std::string port = address.substr(address.rfind(':'));
  client.dial("localhost" + port);
  ASSERT_TRUE(run_until(loop_, [&] { return client.ready.size() == 1; }));
  const uint64_t nobody = client.dial("127.0.0.1:1"), wrong = client.dial("no port");
  ASSERT_TRUE(run_until(loop_, [&] { return client.lost.size() == 2; }));
  EXPECT_EQ(client.lost[nobody].first, StreamEnd::refused);
  EXPECT_EQ(client.lost[wrong].first, StreamEnd::refused);
}

TEST(Net, AnotherKeyIsRefusedOnBothSides) {
  UvLoop loop;
  EchoServer server(loop, key(1));
  LineNode client(loop, key(2));
  const uint64_t id = client.dial(server.streams.listen("127.0.0.1:0"));
  ASSERT_TRUE(run_until(loop, [&] { return client.lost.contains(id); }));
  EXPECT_EQ(client.lost[id].first, StreamEnd::unauthenticated);
  ASSERT_TRUE(run_until(loop, [&] { return server.streams.counters().unauthenticated == 1; }));
  EXPECT_TRUE(server.ready.empty());
}

TEST(Net, PlainTextIsNoTls) {
  UvLoop loop;
  EchoServer server(loop, key(1));
  LineNode client(loop);
  const uint64_t id = client.dial(server.streams.listen("127.0.0.1:0"));
  ASSERT_TRUE(run_until(loop, [&] { return !client.ready.empty(); }));
  client.at(id).say("hello");
  ASSERT_TRUE(run_until(loop, [&] { return client.lost.contains(id); }));
  EXPECT_EQ(server.echoed, 0u);
}

TEST(Net, ATimerFiresAgainUntilItIsStopped) {
  UvLoop loop;
  int count = 0;
  UvTimer timer(loop, [&] { ++count; });
  timer.start(1, 1);
  ASSERT_TRUE(run_until(loop, [&] { return count == 3; }));
  timer.stop();
  pass(loop, 20);
  EXPECT_EQ(count, 3);
  timer.start(1);
  pass(loop, 20);
  EXPECT_EQ(count, 4);
}

TEST(Net, ASetOfStreamsHasTimersOfItsUsers) {
  UvLoop loop;
  LineNode node(loop);
  node.streams.start_timer(7, loop.now_ns() + 2'000'000);
  node.streams.start_timer(8, loop.now_ns() + 1'000'000);
  node.streams.start_timer(9, loop.now_ns() + 1'000'000);
  node.streams.stop_timer(9);
  ASSERT_TRUE(run_until(loop, [&] { return node.timers.size() == 2; }));
  EXPECT_EQ(node.timers, (std::vector<uint64_t>{8, 7}));
}

TEST(Net, AnAddressThatIsTakenIsRefusedWithTheReason) {
  UvLoop loop;
  const auto ignore = [](uv_stream_s*, int) {};
  const Listener first(loop, "127.0.0.1:0", ignore);
  for (const std::string& address : {first.address(), std::string("unix:/nowhere/at/all.sock")}) {
    try {
      const Listener second(loop, address, ignore, "--serve");
      FAIL() << address;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::resources);
      EXPECT_NE(std::string(error.what()).find("--serve " + address + ": cannot listen here"), std::string::npos) << error.what();
      EXPECT_FALSE(error.parts().hint.empty()) << error.what();
    }
  }
}

}  // namespace
}  // namespace perigee::test
