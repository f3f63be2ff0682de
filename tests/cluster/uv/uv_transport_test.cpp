#include "cluster/uv/uv_transport.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "cluster/uv/frame_reader.h"
#include "src/core/error.h"
#include "src/net/address.h"
#include "tests/cluster/uv/raw_peer.h"
#include "tests/cluster/uv/uv_node.h"

namespace perigee {
namespace {

using test::kSecond;
using test::Node;
using test::RawPeer;
using test::RawSocket;
using test::run_until;

std::string text_of(const std::vector<std::byte>& frame) {
  Leave leave;
  EXPECT_TRUE(decode(std::span(frame).subspan(kHeaderBytes), &leave));
  return leave.why;
}

// A TLS record of a handshake, whose message is of a kind that does not exist.
std::vector<std::byte> hello_of_garbage() {
  std::vector<std::byte> bytes(10, std::byte{0xff});
  size_t at = 0;
  for (const uint8_t head : {0x16, 3, 1, 0, 5}) bytes[at++] = std::byte{head};
  return bytes;
}

// Everything that is true of frames is true with and without a key.
class UvTransportTest : public testing::TestWithParam<bool> {
 protected:
  UvTransportOptions options() const {
    UvTransportOptions given;
    if (GetParam()) given.key = key_;
    return given;
  }
  UvTransportOptions over_socket() const {
    UvTransportOptions given = options();
    given.share_memory = false;
    return given;
  }
  UvLoop loop_;
  const Secret key_ = Secret::random();
};
INSTANTIATE_TEST_SUITE_P(PlainAndTls, UvTransportTest, testing::Bool(), [](const auto& info) { return info.param ? "Tls" : "Plain"; });

TEST_P(UvTransportTest, FramesArriveWholeAndInOrder) {
  Node server(loop_, options()), client(loop_, options());
  const PeerId peer = client.dial(server.transport.listen("127.0.0.1:0"));
  ASSERT_TRUE(run_until(loop_, [&] { return client.connected.size() == 1; }));
  EXPECT_EQ(client.connected[0], peer);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(client.say(peer, Leave{.why = std::to_string(i)}));
  ASSERT_TRUE(run_until(loop_, [&] { return server.frames == 100; }));
  ASSERT_EQ(server.connected.size(), 1u);
  const PeerId back = server.connected[0];
  EXPECT_TRUE(server.addresses[back].starts_with("127.0.0.1:"));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(text_of(server.received[back][static_cast<size_t>(i)]), std::to_string(i));
  EXPECT_TRUE(server.say(back, Leave{.why = "back"}));
  ASSERT_TRUE(run_until(loop_, [&] { return client.frames == 1; }));
  EXPECT_EQ(text_of(client.received[peer][0]), "back");
}

TEST_P(UvTransportTest, ClosingSendsWhatIsQueuedAndTellsOnlyTheOther) {
  Node server(loop_, options()), client(loop_, options());
  const PeerId peer = client.dial(server.transport.listen("127.0.0.1:0"));
  ASSERT_TRUE(run_until(loop_, [&] { return client.connected.size() == 1; }));
  const std::vector<std::byte> body(size_t{3} << 20, std::byte{7});
  const auto head = encode(Chunk{}, {}, body.size());
  EXPECT_TRUE(client.transport.send(peer, head, body));
  client.transport.close(peer);
  EXPECT_FALSE(client.say(peer, Leave{}));
  ASSERT_TRUE(run_until(loop_, [&] { return server.lost.size() == 1; }));
  EXPECT_EQ(server.frames, 1u);
  EXPECT_EQ(server.lost[0].second, PeerLoss::closed);
  EXPECT_TRUE(client.lost.empty());
}

TEST_P(UvTransportTest, FramesOfAnySizeUpToSixteenMegabytes) {
  Node server(loop_, options()), client(loop_, options());
  client.keep = server.keep = false;
  const PeerId peer = client.dial(server.transport.listen("127.0.0.1:0"));
  ASSERT_TRUE(run_until(loop_, [&] { return client.connected.size() == 1; }));
  size_t expected = 0;
  server.frame_hook = [&](PeerId, std::span<const std::byte> frame) {
    Chunk chunk;
    std::span<const std::byte> body;
    ASSERT_TRUE(decode(frame.subspan(kHeaderBytes), &chunk, &body));
    ASSERT_EQ(body.size(), expected);
    ASSERT_EQ(chunk.offset, expected);
    for (size_t i = 0; i < body.size(); i += 997) ASSERT_EQ(body[i], std::byte(i * 7 % 253)) << i;
  };
  size_t sent = 0;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{16383}, size_t{16384}, size_t{65536}, size_t{131072 - 60}, size_t{131072},
                            kChunkBytes, size_t{5} << 20, kMaxFrameBytes - kChunkHeadBytes}) {
    std::vector<std::byte> body(size);
    for (size_t i = 0; i < size; ++i) body[i] = std::byte(i * 7 % 253);
    expected = size;
    ASSERT_TRUE(client.transport.send(peer, encode(Chunk{.offset = size}, {}, size), body)) << size;  // one frame may always wait
    std::fill(body.begin(), body.end(), std::byte{0});                                                // nothing of it is kept
    ++sent;
    ASSERT_TRUE(run_until(loop_, [&] { return server.frames == sent; })) << size;
    ASSERT_TRUE(run_until(loop_, [&] { return client.transport.queued_bytes(peer) == 0; }));
  }
}

TEST_P(UvTransportTest, TheQueueIsBoundedAndToldWhenThereIsRoom) {
  UvTransportOptions small = options();
  small.queue_bytes = size_t{1} << 20;
  Node server(loop_, options()), client(loop_, small);
  server.keep = false;
  const PeerId peer = client.dial(server.transport.listen("127.0.0.1:0"));
  ASSERT_TRUE(run_until(loop_, [&] { return client.connected.size() == 1; }));
  const std::vector<std::byte> body(kChunkBytes, std::byte{1});
  const auto head = encode(Chunk{}, {}, body.size());
  size_t taken = 0;  // no reader: the loop does not turn
  while (taken < 1000 && client.transport.send(peer, head, body)) ++taken;
  ASSERT_LT(taken, 1000u);
  EXPECT_LE(client.transport.queued_bytes(peer), small.queue_bytes + small.queue_bytes / 8);  // TLS adds a little
  EXPECT_EQ(client.count("queue_full"), 1);
  const auto beat = encode(Beat{.waits_for = std::string(4000, 'x')}, {});
  size_t beats = 0;
  while (beats < 10000 && client.transport.send(peer, beat)) ++beats;  // heartbeats still pass, but not without end
  ASSERT_LT(beats, 10000u);
  EXPECT_GT(beats, 100u);
  EXPECT_LE(client.transport.queued_bytes(peer), 4 * small.queue_bytes + small.queue_bytes / 8);
  EXPECT_EQ(client.writable[peer], 0);
  ASSERT_TRUE(run_until(loop_, [&] { return client.writable[peer] == 1; }));
  EXPECT_LT(client.transport.queued_bytes(peer), small.queue_bytes / 2);
  ASSERT_TRUE(run_until(loop_, [&] { return server.frames == taken + beats; }));
  test::settle(loop_);
  EXPECT_EQ(client.writable[peer], 1);  // once for each time that something was refused
  EXPECT_TRUE(client.transport.send(peer, head, body));
}

TEST_P(UvTransportTest, ManyConnectionsTalkAtOnce) {
  Node server(loop_, options()), client(loop_, options());
  server.frame_hook = [&](PeerId peer, std::span<const std::byte> frame) { server.transport.send(peer, frame); };  // an echo
  const std::string address = server.transport.listen("127.0.0.1:0");
  std::vector<PeerId> peers;
  for (int i = 0; i < 50; ++i) peers.push_back(client.dial(address));
  ASSERT_TRUE(run_until(loop_, [&] { return client.connected.size() == 50; }));
  for (int round = 0; round < 5; ++round)
    for (const PeerId peer : peers) ASSERT_TRUE(client.say(peer, Leave{.why = std::to_string(peer) + "/" + std::to_string(round)}));
  ASSERT_TRUE(run_until(loop_, [&] { return client.frames == 250; }));
  for (const PeerId peer : peers)
    for (size_t round = 0; round < 5; ++round)
      EXPECT_EQ(text_of(client.received[peer][round]), std::to_string(peer) + "/" + std::to_string(round));
  EXPECT_EQ(server.transport.peers(), 50u);
}

TEST_P(UvTransportTest, NamesAreLookedUp) {
  Node server(loop_, options()), client(loop_, options());
  const HostPort real = parse_host_port(server.transport.listen("127.0.0.1:0"));
  client.dial("localhost:" + std::to_string(real.port));  // ::1 may come first, where no process listens
  ASSERT_TRUE(run_until(loop_, [&] { return client.connected.size() == 1 || !client.lost.empty(); }));
  EXPECT_TRUE(client.lost.empty());
  client.dial("no.such.host.invalid:1");
  ASSERT_TRUE(run_until(loop_, [&] { return client.lost.size() == 1; }));
  EXPECT_EQ(client.lost[0].second, PeerLoss::refused);
  client.dial("not an address");
  ASSERT_TRUE(run_until(loop_, [&] { return client.lost.size() == 2; }));
  client.dial("another.host.invalid:1");  // its answer comes when the transport is gone
}

TEST_P(UvTransportTest, ConnectHasItsDeadline) {
  Node client(loop_, options());
  RawSocket silent = RawSocket::listening();
  const PeerId late = client.transport.connect("127.0.0.1:" + std::to_string(silent.port()), loop_.now_ns());
  EXPECT_TRUE(client.lost.empty());  // never from within the call
  ASSERT_TRUE(run_until(loop_, [&] { return client.lost.size() == 1; }));
  EXPECT_EQ(client.lost[0], std::pair(late, PeerLoss::timed_out));
  uint16_t free_port = 0;
  {
    RawSocket gone = RawSocket::listening();
    free_port = gone.port();
  }
  const PeerId refused = client.dial("127.0.0.1:" + std::to_string(free_port));
  ASSERT_TRUE(run_until(loop_, [&] { return client.lost.size() == 2; }));
  EXPECT_EQ(client.lost[1], std::pair(refused, PeerLoss::refused));
  if (GetParam()) {  // connected, but no handshake
    client.transport.connect("127.0.0.1:" + std::to_string(silent.port()), loop_.now_ns() + kSecond / 5);
    ASSERT_TRUE(run_until(loop_, [&] { return client.lost.size() == 3; }));
    EXPECT_EQ(client.lost[2].second, PeerLoss::timed_out);
  }
  const PeerId cancelled = client.dial("127.0.0.1:" + std::to_string(silent.port()));
  client.transport.close(cancelled);
  test::settle(loop_);
  EXPECT_FALSE(std::ranges::any_of(client.lost, [&](const auto& entry) { return entry.first == cancelled; }));
}

TEST_P(UvTransportTest, InheritedSocketsNeedNoHandshake) {
  for (const int family : {AF_UNIX, AF_INET}) {
    int ends[2];
    if (family == AF_UNIX) {
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    } else {
      RawSocket listener = RawSocket::listening();
      RawSocket dialled = RawSocket::connected(listener.port());
      ends[0] = ::accept(listener.fd(), nullptr, nullptr), ends[1] = dup(dialled.fd());
    }
    Node parent(loop_, options()), child(loop_, options());
    const PeerId a = parent.transport.adopt(ends[0]), b = child.transport.adopt(ends[1]);
    EXPECT_TRUE(parent.connected.empty());
    ASSERT_TRUE(run_until(loop_, [&] { return parent.connected.size() == 1 && child.connected.size() == 1; }));
    EXPECT_TRUE(parent.say(a, Leave{.why = "down"}) && child.say(b, Leave{.why = "up"}));
    const std::vector<std::byte> body(size_t{2} << 20, std::byte{3});
    EXPECT_TRUE(parent.transport.send(a, encode(Chunk{}, {}, body.size()), body));
    ASSERT_TRUE(run_until(loop_, [&] { return parent.frames == 1 && child.frames == 2; }));
    parent.transport.close(a);
    ASSERT_TRUE(run_until(loop_, [&] { return child.lost.size() == 1; }));
  }
  Node node(loop_, options());
  try {
    node.transport.adopt(0x7FFFFFF);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the inherited descriptor 134217727 is no connected socket"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("an agent gives it; start the worker by itself with an address"), std::string::npos)
        << error.what();
  }
}

TEST_P(UvTransportTest, TimersFireOnceInTheirOrder) {
  Node node(loop_, options());
  const uint64_t now = loop_.now_ns();
  node.transport.start_timer(1, now + 30'000'000);
  node.transport.start_timer(2, now + 10'000'000);
  node.transport.start_timer(3, now + 20'000'000);
  node.transport.start_timer(4, now + 15'000'000);
  node.transport.start_timer(1, now + 5'000'000);  // a new deadline
  node.transport.stop_timer(4);
  EXPECT_TRUE(node.fired.empty());
  ASSERT_TRUE(run_until(loop_, [&] { return node.fired.size() == 3; }));
  EXPECT_GE(loop_.now_ns(), now + 20'000'000);  // never early
  EXPECT_EQ(node.fired, (std::vector<uint64_t>{1, 2, 3}));
  test::settle(loop_);
  EXPECT_EQ(node.fired.size(), 3u);
  int again = 0;  // a deadline in the past does not keep the loop from the rest
  node.timer_hook = [&](uint64_t timer) {
    if (++again < 50) node.transport.start_timer(timer, 0);
  };
  node.transport.start_timer(9, 0);
  loop_.poll();
  EXPECT_LE(again, 2);
  ASSERT_TRUE(run_until(loop_, [&] { return again == 50; }));
}

TEST_P(UvTransportTest, CallsFromWithinCallbacksAreSafe) {
  Node server(loop_, options()), client(loop_, options());
  const std::string address = server.transport.listen("127.0.0.1:0");
  server.frame_hook = [&](PeerId peer, std::span<const std::byte>) {
    server.say(peer, Leave{.why = "bye"});
    server.transport.close(peer);  // in the midst of what it sends
    server.transport.close(peer);
    EXPECT_FALSE(server.say(peer, Leave{}));
  };
  const PeerId peer = client.dial(address);
  ASSERT_TRUE(run_until(loop_, [&] { return client.connected.size() == 1; }));
  for (int i = 0; i < 10; ++i) client.say(peer, Leave{.why = std::string(1000, 'x')});
  ASSERT_TRUE(run_until(loop_, [&] { return client.lost.size() == 1; }));
  EXPECT_EQ(server.frames, 1u);  // nothing after close()
  EXPECT_EQ(client.frames, 1u);  // and what was said before it arrives, though the other side was still talking
  EXPECT_TRUE(server.lost.empty());
}

// A frame sent in pieces and cut at every byte: whole frames arrive, the rest is dropped, and no other connection notices.
TEST_P(UvTransportTest, PartOfAFrameIsASignOfLife) {
  Node server(loop_, options());
  const uint16_t port = parse_host_port(server.transport.listen("127.0.0.1:0")).port;
  RawPeer raw(port, GetParam() ? &key_ : nullptr, loop_);
  const auto sealed = raw.seal(encode(Leave{.why = std::string(60, 'x')}, {}));
  const auto whole = raw.seal(encode(Leave{}, {}));
  raw.socket.write(sealed);
  ASSERT_TRUE(run_until(loop_, [&] { return server.frames == 1; }));
  raw.socket.write(std::span(whole).first(whole.size() / 2));
  const size_t before = server.parts;
  ASSERT_TRUE(run_until(loop_, [&] { return server.parts > before; }));
  EXPECT_EQ(server.frames, 1u);
}

TEST_P(UvTransportTest, CutAtEveryByte) {
  Node server(loop_, options()), client(loop_, options());
  const std::string address = server.transport.listen("127.0.0.1:0");
  const uint16_t port = parse_host_port(address).port;
  const PeerId peer = client.dial(address);
  ASSERT_TRUE(run_until(loop_, [&] { return client.connected.size() == 1; }));
  ASSERT_TRUE(client.say(peer, Leave{}));
  ASSERT_TRUE(run_until(loop_, [&] { return server.frames == 1; }));
  std::vector<size_t> ends;  // of each frame, as the stream is sent
  for (size_t cut = 0, length = SIZE_MAX; cut <= length; ++cut) {
    RawPeer raw(port, GetParam() ? &key_ : nullptr, loop_);
    std::vector<std::byte> stream;
    ends.clear();
    for (int i = 0; i < 3; ++i) {
      const auto sealed = raw.seal(encode(Leave{.why = std::string(static_cast<size_t>(i) * 20, 'x')}, {}));
      stream.insert(stream.end(), sealed.begin(), sealed.end());
      ends.push_back(stream.size());
    }
    length = stream.size();
    const size_t before = server.frames;
    const auto whole = static_cast<size_t>(std::ranges::count_if(ends, [&](size_t end) { return end <= cut; }));
    raw.socket.write(std::span(stream).first(cut));
    raw.socket.shut();
    const size_t lost = server.lost.size();
    const bool told = GetParam() || cut >= kHeaderBytes;  // a stranger is not heard of
    ASSERT_TRUE(run_until(loop_, [&] { return told ? server.lost.size() == lost + 1 : raw.socket.ended(); })) << cut;
    ASSERT_EQ(server.frames - before, whole) << cut;
  }
  EXPECT_TRUE(client.lost.empty());
  const size_t before = server.frames;
  ASSERT_TRUE(client.say(peer, Leave{.why = "still here"}));
  ASSERT_TRUE(run_until(loop_, [&] { return server.frames == before + 1; }));
}

std::vector<std::byte> chunk_frame(size_t body) {
  auto frame = encode(Chunk{.offset = body}, {}, body);
  for (size_t i = 0; i < body; ++i) frame.push_back(std::byte((i * 7 + body) % 253));
  return frame;
}

// Bodies that are received where they belong, between others: all arrive, whole and in order, and what is told of them fits.
TEST_P(UvTransportTest, BodiesAreReceivedWhereTheyBelong) {
  Node server(loop_, over_socket()), client(loop_, over_socket());
  const PeerId peer = client.dial(server.transport.listen("127.0.0.1:0"));
  ASSERT_TRUE(run_until(loop_, [&] { return client.connected.size() == 1; }));
  std::vector<std::byte> memory(kMaxFrameBytes);
  server.place_hook = [&](std::span<const std::byte> head) {
    Chunk chunk;
    EXPECT_TRUE(decode(head.subspan(kHeaderBytes), &chunk));
    return Placement{.memory = chunk.offset % 2 ? memory.data() : nullptr, .ticket = chunk.offset};
  };
  const std::vector<size_t> sizes = {kChunkBytes + 1, kChunkBytes, 33, 32768, 32769, 65535, 3, 131071, (size_t{5} << 20) + 1, 40'001};
  for (const size_t size : sizes) {
    const auto frame = chunk_frame(size);
    ASSERT_TRUE(run_until(loop_, [&] {
      return client.transport.send(peer, std::span(frame).first(kChunkHeadBytes), std::span(frame).subspan(kChunkHeadBytes));
    }));
  }
  ASSERT_TRUE(run_until(loop_, [&] { return server.frames == sizes.size(); }));
  const auto& received = server.received[server.connected[0]];
  for (size_t i = 0; i < sizes.size(); ++i) ASSERT_TRUE(received[i] == chunk_frame(sizes[i])) << sizes[i];
  EXPECT_EQ(server.placed, 6u);
  EXPECT_EQ(server.count("frames_in"), static_cast<int64_t>(sizes.size()));
  EXPECT_EQ(server.count("bytes_in"), client.count("bytes_out"));
}

// A stream with such bodies, cut anywhere: what is whole arrives, and a body that was cut never does.
TEST_P(UvTransportTest, APlacedBodyThatIsCutNeverArrives) {
  Node server(loop_, options());
  const uint16_t port = parse_host_port(server.transport.listen("127.0.0.1:0")).port;
  std::vector<std::byte> memory(kMaxFrameBytes);
  server.place_hook = [&](std::span<const std::byte>) { return Placement{.memory = memory.data(), .ticket = 1}; };
  const size_t body = FrameReader::kPlacedBytes + 4321;
  std::vector<size_t> cuts = {0, 1, 39, 40, 41, 59, 60, 61, 8191, 8192, 8193, 16384 + 60};
  for (size_t cut = 997; cut < 2 * body; cut += 4999) cuts.push_back(cut);
  for (const size_t end : {body + 60, 2 * body + 120})
    for (size_t i = 0; i < 24; ++i) cuts.push_back(end - 2 + i);
  for (const size_t cut : cuts) {
    RawPeer raw(port, GetParam() ? &key_ : nullptr, loop_);
    std::vector<std::byte> stream;
    std::vector<size_t> ends;
    for (int i = 0; i < 2; ++i) {
      const auto sealed = raw.seal(chunk_frame(body));
      stream.insert(stream.end(), sealed.begin(), sealed.end());
      ends.push_back(stream.size());
    }
    const size_t before = server.frames, lost = server.lost.size();
    const auto whole = static_cast<size_t>(std::ranges::count_if(ends, [&](size_t end) { return end <= cut; }));
    const int room = 1 << 20;
    ASSERT_EQ(setsockopt(raw.socket.fd(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
    raw.socket.write(std::span(stream).first(std::min(cut, stream.size())));
    raw.socket.shut();
    const bool told = GetParam() || cut >= kHeaderBytes;
    ASSERT_TRUE(run_until(loop_, [&] { return told ? server.lost.size() == lost + 1 : raw.socket.ended(); })) << cut;
    ASSERT_EQ(server.frames - before, whole) << cut;
  }
  EXPECT_EQ(server.placed, server.frames);
}

// A place that is taken away while the body is on its way: that one frame is dropped, the connection goes on.
TEST_P(UvTransportTest, ABodyWhosePlaceIsTakenAwayIsDropped) {
  Node server(loop_, over_socket()), client(loop_, over_socket());
  const PeerId peer = client.dial(server.transport.listen("127.0.0.1:0"));
  ASSERT_TRUE(run_until(loop_, [&] { return client.connected.size() == 1; }));
  auto memory = std::make_unique<std::vector<std::byte>>(size_t{8} << 20);
  int asked = 0;
  server.place_hook = [&](std::span<const std::byte>) {
    if (++asked == 3) memory.reset();  // it must not be written to any more: the address sanitizer sees it
    return Placement{.memory = memory ? memory->data() : nullptr, .ticket = 1};
  };
  const auto large = chunk_frame(size_t{8} << 20);
  ASSERT_TRUE(client.transport.send(peer, std::span(large).first(kChunkHeadBytes), std::span(large).subspan(kChunkHeadBytes)));
  ASSERT_TRUE(run_until(loop_, [&] { return client.say(peer, Leave{.why = "behind"}); }));
  ASSERT_TRUE(run_until(loop_, [&] { return server.frames == 1; }));
  EXPECT_EQ(text_of(server.received[server.connected[0]][0]), "behind");
  EXPECT_GE(asked, 3);
  EXPECT_EQ(server.placed, 0u);
  const auto next = chunk_frame(kChunkBytes);
  ASSERT_TRUE(client.transport.send(peer, std::span(next).first(kChunkHeadBytes), std::span(next).subspan(kChunkHeadBytes)));
  ASSERT_TRUE(run_until(loop_, [&] { return server.frames == 2; }));
  EXPECT_TRUE(server.received[server.connected[0]][1] == next);
  EXPECT_TRUE(server.lost.empty() && client.lost.empty());
}

TEST_P(UvTransportTest, AnotherProtocolIsRefusedWithBothNamed) {
  Node server(loop_, options()), client(loop_, options());
  const PeerId peer = client.dial(server.transport.listen("127.0.0.1:0"));
  ASSERT_TRUE(run_until(loop_, [&] { return client.connected.size() == 1; }));
  ASSERT_TRUE(client.say(peer, Leave{}));
  ASSERT_TRUE(run_until(loop_, [&] { return server.frames == 1; }));
  ASSERT_TRUE(client.say(peer, Leave{}, {.protocol = 7}));
  ASSERT_TRUE(run_until(loop_, [&] { return !server.lost.empty() && !client.lost.empty(); }));
  EXPECT_EQ(server.frames, 1u);
  EXPECT_EQ(server.lost[0].second, PeerLoss::protocol_error);
  EXPECT_NE(server.detail.find("protocol 7"), std::string::npos);
  EXPECT_NE(server.detail.find("protocol 1"), std::string::npos);
  ASSERT_EQ(client.frames, 1u);
  Refuse refuse;
  ASSERT_TRUE(decode(std::span(client.received[peer][0]).subspan(kHeaderBytes), &refuse));
  EXPECT_EQ(refuse.got, "protocol 7");
  EXPECT_NE(refuse.expected.find("protocol 1"), std::string::npos);
  EXPECT_FALSE(refuse.retry);
  EXPECT_EQ(server.count("other_protocol"), 1);
}

TEST_P(UvTransportTest, GarbageAndSlowStrangersDisturbNobody) {
  UvTransportOptions impatient = options();
  impatient.limits.handshake_ms = 150;
  impatient.limits.failures_per_address = 1000;
  Node server(loop_, impatient), client(loop_, options());
  const std::string address = server.transport.listen("127.0.0.1:0");
  const uint16_t port = parse_host_port(address).port;
  const PeerId peer = client.dial(address);
  ASSERT_TRUE(run_until(loop_, [&] { return client.connected.size() == 1; }));
  ASSERT_TRUE(client.say(peer, Leave{}));
  ASSERT_TRUE(run_until(loop_, [&] { return server.frames == 1; }));
  SeededRng rng(1);
  for (int i = 0; i < 50; ++i) {
    RawSocket raw = RawSocket::connected(port);
    std::vector<std::byte> garbage(1 + rng.next() % 3000);
    for (std::byte& byte : garbage) byte = std::byte(rng.next());
    if (i % 3 == 0) garbage[0] = std::byte{0x16}, garbage.resize(std::max<size_t>(garbage.size(), 10)), garbage[1] = std::byte{3};
    raw.write(garbage);
    ASSERT_TRUE(run_until(loop_, [&] { return raw.ended(); })) << i;
  }
  RawSocket slow = RawSocket::connected(port);
  const auto honest = GetParam() ? std::vector<std::byte>{std::byte{0x16}, std::byte{3}, std::byte{1}, std::byte{1}} : encode(Leave{}, {});
  size_t said = 0;
  ASSERT_TRUE(run_until(loop_, [&] {
    if (said < 3) slow.write(std::span(honest).subspan(said++, 1));
    return slow.ended();
  }));
  EXPECT_EQ(server.count("handshake_timeouts") > 0, true);
  EXPECT_GE(server.count("unauthenticated"), 51);
  EXPECT_EQ(server.count("pending"), 0);
  EXPECT_EQ(server.connected.size(), 1u);  // none of them was reported
  EXPECT_TRUE(server.lost.empty());
  EXPECT_EQ(server.frames, 1u);
  ASSERT_TRUE(client.say(peer, Leave{}));
  ASSERT_TRUE(run_until(loop_, [&] { return server.frames == 2; }));
}

TEST_P(UvTransportTest, WhoKeepsFailingIsShutOut) {
  UvTransportOptions strict = options();
  strict.limits.failures_per_address = 3;
  strict.limits.forgiven_per_s = 0;
  strict.limits.handshake_ms = 20;
  Node server(loop_, strict), client(loop_, options());
  const std::string address = server.transport.listen("127.0.0.1:0");
  for (int i = 0; i < 6; ++i) {
    RawSocket raw = RawSocket::connected(parse_host_port(address).port);
    if (GetParam()) raw.write(std::vector<std::byte>(10, std::byte{0x16}));
    ASSERT_TRUE(run_until(loop_, [&] { return raw.ended(); }));
  }
  EXPECT_EQ(server.count("shut_out"), GetParam() ? 0 : 3);  // 0x16 alone is no TLS: it is not worth a handshake
  for (int i = 0; i < 6; ++i) {
    RawSocket raw = RawSocket::connected(parse_host_port(address).port);
    raw.write(hello_of_garbage());
    ASSERT_TRUE(run_until(loop_, [&] { return raw.ended(); }));
  }
  EXPECT_EQ(server.count("shut_out"), GetParam() ? 3 : 9);
  client.dial(address);
  ASSERT_TRUE(run_until(loop_, [&] { return client.lost.size() == 1; }));
}

// Garbage, handshakes that cannot be, and silence, all from the address of a genuine peer, which goes and comes back meanwhile.
TEST_P(UvTransportTest, AFloodFromAPeersOwnAddressDoesNotKeepItOut) {
  UvTransportOptions strict = options();
  strict.limits.failures_per_address = 3;
  strict.limits.forgiven_per_s = 0;
  strict.limits.max_pending = 8;
  Node server(loop_, strict), client(loop_, options());
  const std::string address = server.transport.listen("127.0.0.1:0");
  const PeerId first = client.dial(address);
  ASSERT_TRUE(run_until(loop_, [&] { return client.connected.size() == 1; }));
  ASSERT_TRUE(client.say(first, Leave{}));
  ASSERT_TRUE(run_until(loop_, [&] { return server.frames == 1; }));
  std::vector<RawSocket> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(RawSocket::connected(parse_host_port(address).port));
    if (i % 3 == 0) strangers.back().write(std::vector<std::byte>(100, std::byte(i)));
    if (i % 3 == 1) strangers.back().write(hello_of_garbage());
    if (i % 20 == 0) loop_.poll();
    if (i % 50 == 49) {
      const PeerId again = client.dial(address);
      ASSERT_TRUE(run_until(loop_, [&] { return client.connected.size() == 2 + static_cast<size_t>(i) / 50; })) << i;
      ASSERT_TRUE(client.say(again, Leave{}));
      ASSERT_TRUE(run_until(loop_, [&] { return server.frames == 2 + static_cast<size_t>(i) / 50; })) << i;
    }
  }
  EXPECT_EQ(server.count("shut_out"), 0);
  EXPECT_TRUE(client.lost.empty());
  EXPECT_LE(server.count("pending"), 8);
}

TEST_P(UvTransportTest, ThousandsOfIdleConnectionsDisturbNobody) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const size_t idle = limit.rlim_cur >= 12000 ? 10000 : limit.rlim_cur / 3;
  Node server(loop_, options()), client(loop_, options());
  const std::string address = server.transport.listen("127.0.0.1:0");
  const PeerId peer = client.dial(address);
  ASSERT_TRUE(run_until(loop_, [&] { return client.connected.size() == 1; }));
  std::vector<RawSocket> sockets;
  for (size_t i = 0; i < idle; ++i) {
    sockets.push_back(RawSocket::connected(parse_host_port(address).port));
    if (i % 100 == 99) {
      ASSERT_TRUE(client.say(peer, Leave{}));
      ASSERT_TRUE(run_until(loop_, [&] { return server.frames == i / 100 + 1; })) << i;  // in between the work goes on
      ASSERT_LE(server.count("pending"), 256);
    }
  }
  ASSERT_TRUE(run_until(loop_, [&] { return server.count("accepted") >= static_cast<int64_t>(idle); }));
  EXPECT_GE(server.count("pending_dropped"), static_cast<int64_t>(idle) - 256);
  const PeerId newcomer = client.dial(address);
  ASSERT_TRUE(run_until(loop_, [&] { return client.connected.size() == 2; }));
  ASSERT_TRUE(client.say(newcomer, Leave{}));
  const size_t before = server.frames;
  ASSERT_TRUE(run_until(loop_, [&] { return server.frames == before + 1; }));
  EXPECT_TRUE(client.lost.empty());
}

TEST_P(UvTransportTest, WithoutDescriptorsItWaitsAndGoesOn) {
  Node server(loop_, options()), client(loop_, options());
  const std::string address = server.transport.listen("127.0.0.1:0");
  const PeerId peer = client.dial(address);
  ASSERT_TRUE(run_until(loop_, [&] { return client.connected.size() == 1; }));
  ASSERT_TRUE(client.say(peer, Leave{}));
  ASSERT_TRUE(run_until(loop_, [&] { return server.frames == 1; }));
  std::vector<RawSocket> ready;
  for (int i = 0; i < 5; ++i) ready.push_back(RawSocket::unconnected());
  std::vector<int> taken;
  for (int fd; (fd = dup(0)) >= 0;) taken.push_back(fd);  // until there are none
  EXPECT_EQ(errno, EMFILE);
  for (RawSocket& raw : ready) raw.connect(parse_host_port(address).port);
  EXPECT_TRUE(run_until(loop_, [&] { return std::ranges::all_of(ready, [](RawSocket& raw) { return raw.ended(); }); }));  // turned away
  const bool alive = client.say(peer, Leave{}) && run_until(loop_, [&] { return server.frames == 2; });
  for (const int fd : taken) close(fd);
  EXPECT_TRUE(alive);
  client.dial(address);
  EXPECT_TRUE(run_until(loop_, [&] { return client.connected.size() == 2; }));
}

TEST_P(UvTransportTest, NothingIsLeftBehind) {
  const int before = test::open_descriptors();
  {
    UvLoop loop;
    Node server(loop, options()), client(loop, options());
    const std::string address = server.transport.listen("127.0.0.1:0");
    for (int i = 0; i < 10; ++i) client.dial(address);
    ASSERT_TRUE(run_until(loop, [&] { return client.connected.size() == 10; }));
    const std::vector<std::byte> body(size_t{4} << 20);
    for (const PeerId peer : client.connected) client.transport.send(peer, encode(Chunk{}, {}, body.size()), body);
    client.transport.close(client.connected[0]);
    client.dial(address);  // and all ends in the midst of it
  }
  EXPECT_EQ(test::open_descriptors(), before);
}

// ---- keys ----

class UvKeysTest : public testing::Test {
 protected:
  // Whether `client` gets in; whatever happens is over when this returns.
  bool gets_in(const UvTransportOptions& server_options, const UvTransportOptions& client_options) {
    Node server(loop_, server_options), client(loop_, client_options);
    peer_ = client.dial(server.transport.listen("127.0.0.1:0"));
    EXPECT_TRUE(run_until(loop_, [&] {
      if (!client.connected.empty() && server.frames == 0 && client.frames == 0) client.say(peer_, Leave{.why = "let me in"});
      return server.frames > 0 || !client.lost.empty();
    }));
    test::settle(loop_, 20);
    EXPECT_EQ(server.frames > 0, server.connected.size() == 1);
    why_ = client.lost.empty() ? PeerLoss::closed : client.lost[0].second;
    refused_ = client.received[peer_];
    counted_ = server.count("unauthenticated");
    return server.frames > 0;
  }
  UvLoop loop_;
  PeerId peer_ = 0;
  PeerLoss why_{};
  std::vector<std::vector<std::byte>> refused_;
  int64_t counted_ = 0;
};

TEST_F(UvKeysTest, OnlyTheRightKeyOpens) {
  const Secret key = Secret::random();
  const UvTransportOptions with{.key = key}, job_7{.key = key.for_job(7)}, job_8{.key = key.for_job(8)}, other{.key = Secret::random()},
      without;
  EXPECT_TRUE(gets_in(with, with));
  EXPECT_TRUE(gets_in(job_7, job_7));
  EXPECT_TRUE(gets_in({.key = job_7.key, .accepted_keys = {key}}, with));
  for (const auto* stranger : {&other, &job_7, &job_8}) {
    EXPECT_FALSE(gets_in(with, *stranger));
    EXPECT_EQ(why_, PeerLoss::unauthenticated);
    EXPECT_EQ(counted_, 1);
  }
  EXPECT_FALSE(gets_in(job_7, job_8));
  EXPECT_FALSE(gets_in(without, with));  // a secret at a port that has none
  EXPECT_EQ(why_, PeerLoss::unauthenticated);
  EXPECT_FALSE(gets_in(with, without));
  ASSERT_EQ(refused_.size(), 1u);
  Refuse refuse;
  ASSERT_TRUE(decode(std::span(refused_[0]).subspan(kHeaderBytes), &refuse));
  EXPECT_NE(refuse.hint.find("--secret"), std::string::npos);
}

TEST_F(UvKeysTest, ARecordedHelloIsOfNoUse) {
  const Secret key = Secret::random();
  Node server(loop_, {.key = key});
  const uint16_t port = parse_host_port(server.transport.listen("127.0.0.1:0")).port;
  std::vector<std::byte> recorded;
  {
    RawPeer honest(port, &key, loop_);
    honest.socket.write(honest.seal(encode(Leave{}, {})));
    ASSERT_TRUE(run_until(loop_, [&] { return server.frames == 1; }));
    recorded = honest.all_sent();
  }
  RawSocket replay = RawSocket::connected(port);
  replay.write(recorded);
  ASSERT_TRUE(run_until(loop_, [&] { return replay.ended(); }));
  EXPECT_EQ(server.frames, 1u);
  EXPECT_EQ(server.connected.size(), 1u);
  EXPECT_EQ(server.count("unauthenticated"), 1);
}

TEST_F(UvKeysTest, RepeatedAndChangedRecordsEndTheConnectionAndAreCounted) {
  const Secret key = Secret::random();
  Node server(loop_, {.key = key});
  const uint16_t port = parse_host_port(server.transport.listen("127.0.0.1:0")).port;
  for (int i = 1; i <= 2; ++i) {
    RawPeer peer(port, &key, loop_);
    auto record = peer.seal(encode(Leave{}, {}));
    peer.socket.write(record);
    if (i == 2) record = peer.seal(encode(Leave{}, {})), record.back() ^= std::byte{1};
    peer.socket.write(record);
    ASSERT_TRUE(run_until(loop_, [&] { return server.lost.size() == static_cast<size_t>(i); }));
    EXPECT_EQ(server.lost.back().second, PeerLoss::protocol_error);
    EXPECT_EQ(server.frames, static_cast<size_t>(i));
    EXPECT_EQ(server.count("bad_records"), i);
  }
}

TEST_F(UvKeysTest, WithoutASecretOnlyLoopbackIsListenedOn) {
  Node plain(loop_), secret(loop_, {.key = Secret::random()});
  for (const char* open : {"0.0.0.0:0", ":0", "[::]:0"}) {
    try {
      plain.transport.listen(open);
      ADD_FAILURE() << open;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(error.what()).find("perigee secret new"), std::string::npos);
    }
  }
  EXPECT_TRUE(plain.transport.listen("localhost:0").find(":0") == std::string::npos);
  const std::string real = secret.transport.listen("0.0.0.0:0");
  EXPECT_TRUE(real.starts_with("0.0.0.0:"));
  EXPECT_FALSE(real.ends_with(":0"));
  try {
    plain.transport.listen("127.0.0.1:" + std::to_string(parse_host_port(real).port));
    ADD_FAILURE() << "taken twice";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::resources);
  }
  EXPECT_THROW(plain.transport.listen("nonsense"), Error);
}

}  // namespace
}  // namespace perigee
