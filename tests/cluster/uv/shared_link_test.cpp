// The ring between two processes, and connections that change over to it.
#include "cluster/uv/shared_link.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <thread>

#include "tests/cluster/uv/uv_node.h"

namespace perigee {
namespace {

using test::Node;
using test::open_descriptors;
using test::run_until;
using test::settle;

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};

struct TestRing {
  static constexpr size_t kCapacity = 1 << 16;
  std::unique_ptr<std::byte, FreeMemory> memory{static_cast<std::byte*>(std::aligned_alloc(64, Ring::memory_bytes(kCapacity)))};
  Ring ring;
  TestRing() {
    std::memset(memory.get(), 0, Ring::memory_bytes(kCapacity));
    ring = Ring::in(memory.get(), kCapacity);
  }
};

std::vector<std::byte> numbered(size_t size, uint64_t number) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(number * 31 + i);
  return bytes;
}

TEST(SharedRing, GivesBackWhatWasPutInWhateverTheSizes) {
  TestRing memory;
  RingWriter writer(memory.ring);
  RingReader reader(memory.ring);
  std::mt19937_64 random(1);
  std::deque<std::pair<RecordKind, std::vector<std::byte>>> expected;
  size_t records = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 2) {
      const auto bytes = numbered(random() % 4 ? random() % 300 : random() % (writer.max_record() + 1), random());
      const size_t cut = bytes.empty() ? 0 : random() % bytes.size();
      const auto kind = static_cast<RecordKind>(1 + random() % 3);
      if (writer.put(kind, std::span(bytes).first(cut), std::span(bytes).subspan(cut))) expected.emplace_back(kind, bytes);
    } else {
      RecordKind kind;
      std::span<const std::byte> record;
      const auto next = reader.next(&kind, &record);
      ASSERT_EQ(next, expected.empty() ? RingReader::Next::none : RingReader::Next::record);
      if (expected.empty()) continue;
      ASSERT_EQ(kind, expected.front().first);
      ASSERT_TRUE(std::equal(record.begin(), record.end(), expected.front().second.begin(), expected.front().second.end()));
      expected.pop_front();
      reader.done();
      ++records;
    }
  }
  EXPECT_GT(records, 1000u);
}

TEST(SharedRing, TakesTheLongestRecordWhenHalfIsFree) {
  TestRing memory;
  RingWriter writer(memory.ring);
  RingReader reader(memory.ring);
  const auto longest = numbered(writer.max_record(), 3);
  RecordKind kind;
  std::span<const std::byte> record;
  for (size_t shift = 0; shift < 200; ++shift) {
    ASSERT_TRUE(writer.put(RecordKind::whole, numbered(shift * 13 % 4096, 1)));
    while (!writer.wait()) ASSERT_TRUE(writer.put(RecordKind::whole, longest)) << "half is free, and it does not fit";
    while (reader.next(&kind, &record) == RingReader::Next::record) reader.done();
    EXPECT_TRUE(reader.must_wake());
  }
}

// Bytes in a ring whose reader keeps up stay where both sides still have them in their caches.
TEST(SharedRing, BeginsAnewAtItsStartWheneverItIsEmpty) {
  TestRing memory;
  RingWriter writer(memory.ring);
  RingReader reader(memory.ring);
  const auto longest = numbered(writer.max_record(), 3);
  RecordKind kind;
  std::span<const std::byte> first, record;
  for (int round = 0; round < 50; ++round) {
    ASSERT_TRUE(writer.put(RecordKind::whole, longest));
    ASSERT_EQ(reader.next(&kind, &record), RingReader::Next::record);
    if (round == 0) first = record;
    EXPECT_EQ(record.data(), first.data());
    reader.done();
    EXPECT_EQ(reader.next(&kind, &record), RingReader::Next::none);
  }
  // And all of it is free then, before the reader has taken note.
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(writer.put(RecordKind::whole, longest)) << i;
  EXPECT_FALSE(writer.put(RecordKind::whole, longest));
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(reader.next(&kind, &record), RingReader::Next::record);
    EXPECT_EQ(record.data(), first.data() + i * (first.size() + Ring::kLine));
    EXPECT_TRUE(std::equal(record.begin(), record.end(), longest.begin(), longest.end()));
    reader.done();
  }
}

// Whatever the other side writes into the memory, nothing outside of it is read.
TEST(SharedRing, SurvivesABrokenWriter) {
  std::mt19937_64 random(2);
  for (int turn = 0; turn < 2000; ++turn) {
    TestRing memory;
    RingWriter writer(memory.ring);
    RingReader reader(memory.ring);
    for (int i = 0; i < 5; ++i) writer.put(RecordKind::whole, numbered(random() % 9000, 5));
    if (turn % 3 == 0) memory.ring.control->written = random() % 3 ? random() % (4 * TestRing::kCapacity) : random();
    if (turn % 4 == 0) memory.ring.control->restart = random() % 9000;
    for (int i = 0; i < 4 && turn % 3; ++i) {
      const auto value = static_cast<uint32_t>(random() % 2 ? random() : random() % TestRing::kCapacity);
      std::memcpy(memory.ring.bytes.data() + random() % 600 * 64 + random() % 2 * 4, &value, 4);
    }
    RecordKind kind;
    std::span<const std::byte> record;
    size_t read = 0;
    for (int i = 0; i < 10'000 && reader.next(&kind, &record) == RingReader::Next::record; ++i) {
      ASSERT_GE(record.data(), memory.ring.bytes.data());
      ASSERT_LE(record.data() + record.size(), memory.ring.bytes.data() + memory.ring.bytes.size());
      for (const std::byte byte : record) read += std::to_integer<size_t>(byte);
      reader.done();
    }
    ASSERT_GE(read, 0u);
  }
}

TEST(SharedRing, WakesWhoeverSleepsAcrossThreads) {
  TestRing memory;
  constexpr uint64_t kRecords = 50'000;
  std::atomic<int> to_reader{0}, to_writer{0};  // bells
  std::thread writing([&] {
    RingWriter writer(memory.ring);
    for (uint64_t i = 0; i < kRecords;) {
      const std::vector<std::byte> bytes = numbered(i % 3000, i);
      if (writer.put(RecordKind::whole, bytes)) {
        ++i;
        if (writer.must_wake()) ++to_reader;
      } else if (writer.wait()) {
        while (to_writer.load() == 0) std::this_thread::yield();  // a lost wake-up stays here, until the test's deadline
        --to_writer;
      }
    }
  });
  RingReader reader(memory.ring);
  bool same = true;
  for (uint64_t i = 0; i < kRecords;) {
    RecordKind kind;
    std::span<const std::byte> record;
    if (reader.next(&kind, &record) == RingReader::Next::record) {
      same &= record.size() == i % 3000 && (record.empty() || record.back() == static_cast<std::byte>(i * 31 + record.size() - 1));
      reader.done();
      ++i;
      if (reader.must_wake()) ++to_writer;
    } else if (reader.wait()) {
      while (to_reader.load() == 0) std::this_thread::yield();
      --to_reader;
    }
  }
  writing.join();
  EXPECT_TRUE(same);
}

// ---- connections ----

class SharedLinkTest : public testing::TestWithParam<bool> {  // with TLS
 protected:
  UvTransportOptions options(bool share = true) const {
    UvTransportOptions given;
    if (GetParam()) given.key = key_;
    given.share_memory = share;
    return given;
  }
  void connect(Node& server, Node& client) {
    there_ = client.dial(server.transport.listen("127.0.0.1:0"));
    ASSERT_TRUE(run_until(loop_, [&] { return client.connected.size() == 1; }));
    ASSERT_TRUE(client.say(there_, Leave{}));  // plain text: the first frame makes the connection one for the other side
    ASSERT_TRUE(run_until(loop_, [&] { return server.frames == 1; }));
    back_ = server.connected[0];
    server.frames = 0;
    server.received.clear();
  }
  // A frame whose body tells its size and number.
  bool send(Node& from, PeerId to, size_t size, uint64_t number) {
    return from.transport.send(to, encode(Chunk{.offset = number}, {.round = static_cast<int64_t>(size)}, size), numbered(size, number));
  }
  void expect_in_order(Node& at, PeerId from, size_t count) {
    ASSERT_EQ(at.received[from].size(), count);
    for (size_t i = 0; i < count; ++i) {
      FrameHeader header;
      Chunk chunk;
      std::span<const std::byte> body;
      const std::vector<std::byte>& frame = at.received[from][i];
      ASSERT_TRUE(read_header(frame, &header) && decode(std::span(frame).subspan(kHeaderBytes), &chunk, &body));
      ASSERT_EQ(chunk.offset, i);
      ASSERT_EQ(body.size(), static_cast<size_t>(header.round));
      const auto expected = numbered(body.size(), i);
      ASSERT_TRUE(std::equal(body.begin(), body.end(), expected.begin(), expected.end())) << "frame " << i;
    }
  }

  UvLoop loop_;
  const Secret key_ = Secret::random();
  PeerId there_ = 0, back_ = 0;
};
INSTANTIATE_TEST_SUITE_P(PlainAndTls, SharedLinkTest, testing::Bool(), [](const auto& info) { return info.param ? "Tls" : "Plain"; });

TEST_P(SharedLinkTest, FramesStayInOrderWhileConnectionsChangeOver) {
  Node server(loop_, options()), client(loop_, options());
  connect(server, client);
  // Small, a chunk's, longer than a record, with both sides beginning at once.
  const size_t sizes[] = {0, 100, size_t{256} << 10, 64, size_t{3} << 20, size_t{700} << 10, 1};
  size_t sent[2] = {0, 0};
  constexpr size_t kFrames = 200;
  ASSERT_TRUE(run_until(loop_, [&] {
    for (int side = 0; side < 2; ++side) {
      Node& from = side ? server : client;
      while (sent[side] < kFrames && send(from, side ? back_ : there_, sizes[(sent[side] * (side ? 3 : 1)) % std::size(sizes)], sent[side]))
        ++sent[side];
    }
    return server.frames == kFrames && client.frames == kFrames;
  }));
  expect_in_order(server, back_, kFrames);
  expect_in_order(client, there_, kFrames);
  EXPECT_EQ(server.count("shared_memory"), 1);
  EXPECT_EQ(client.count("shared_memory"), 1);
  EXPECT_GT(client.writable[there_] + server.writable[back_], 0) << "no notice that there is room again";
}

TEST_P(SharedLinkTest, StaysOnTheSocketWhenOneSideDoesNotShare) {
  for (const bool client_shares : {false, true}) {
    Node server(loop_, options(!client_shares)), client(loop_, options(client_shares));
    connect(server, client);
    size_t sent = 0;
    ASSERT_TRUE(run_until(loop_, [&] {
      while (sent < 20 && send(client, there_, size_t{200} << 10, sent)) ++sent;
      return server.frames == 20;
    }));
    expect_in_order(server, back_, 20);
    EXPECT_EQ(server.count("shared_memory"), 0);
  }
}

TEST_P(SharedLinkTest, WhatWasSentBeforeTheEndArrives) {
  Node server(loop_, options()), client(loop_, options());
  connect(server, client);
  ASSERT_TRUE(send(client, there_, size_t{256} << 10, 0));
  ASSERT_TRUE(run_until(loop_, [&] { return client.count("shared_memory") == 1 && server.frames == 1; }));
  size_t sent = 1;
  while (send(client, there_, size_t{100} << 10, sent)) ++sent;
  for (int i = 0; i < 50; ++i)  // control frames are kept beside the full ring
    if (send(client, there_, 0, sent)) ++sent;
  EXPECT_GT(sent, 60u);
  client.transport.close(there_);
  ASSERT_TRUE(run_until(loop_, [&] { return server.lost.size() == 1; }));
  EXPECT_EQ(server.lost[0].second, PeerLoss::closed);
  expect_in_order(server, back_, sent);
}

TEST_P(SharedLinkTest, TheDeathOfASideIsSeenAndLeavesNothingBehind) {
  { Node(loop_, options()).transport.listen("127.0.0.1:0"); }  // libuv opens a descriptor that the loop keeps
  settle(loop_);
  const int before = open_descriptors();
  {
    Node server(loop_, options());
    {
      Node client(loop_, options());
      connect(server, client);
      ASSERT_TRUE(send(client, there_, size_t{256} << 10, 0));
      ASSERT_TRUE(run_until(loop_, [&] { return client.count("shared_memory") == 1 && server.frames == 1; }));
      ASSERT_TRUE(send(client, there_, 1000, 1));
    }  // its sockets are gone, without a goodbye
    ASSERT_TRUE(run_until(loop_, [&] { return server.lost.size() == 1; }));
    expect_in_order(server, back_, 2);
    EXPECT_FALSE(send(server, back_, 10, 0));
  }
  settle(loop_);
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace perigee
