// The parts of the transport, each alone: secrets, hosts, frames.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "cluster/launch/secret.h"
#include "cluster/protocol/message.h"
#include "cluster/uv/frame_reader.h"
#include "src/core/error.h"
#include "src/io/file.h"
#include "src/net/address.h"
#include "tests/cluster/uv/uv_node.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

template <class F>
std::string error_of(F&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// ---- secrets ----

TEST(Secret, ComesBackFromItsTexts) {
  const Secret secret = Secret::random();
  EXPECT_EQ(secret.hex().size(), 64u);
  EXPECT_EQ(Secret::from_hex(secret.hex()), secret);
  EXPECT_FALSE(secret == Secret::random());
  EXPECT_TRUE(Secret().empty());
  EXPECT_THROW(Secret::from_hex("12"), Error);
  const std::string wrong = secret.hex().substr(1) + "g";
  const std::string said = error_of([&] { Secret::from_hex(wrong, "here"); });
  EXPECT_NE(said.find("here"), std::string::npos);
  EXPECT_EQ(said.find(wrong.substr(0, 16)), std::string::npos);  // a key is not shown, not even a wrong one
}

TEST(Secret, DerivedKeysAreHkdfSha256) {
  // Reference: HKDF of RFC 5869 computed by Python's hmac module, salt "perigee secret 1", info "job 42".
  const Secret secret = Secret::from_hex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
  EXPECT_EQ(secret.for_job(42).hex(), "76f90832b7eff4a8b1bd7426b487e64c0c2af0d51b1afca30532da86dbae3da2");
  EXPECT_FALSE(secret.for_job(42) == secret.for_job(43));
  EXPECT_FALSE(secret.for_job(42) == secret);
  EXPECT_EQ(secret.identity(), Secret::from_hex(secret.hex()).identity());
  EXPECT_NE(secret.identity(), secret.for_job(42).identity());
  EXPECT_EQ(secret.hex().find(secret.identity().substr(10)), std::string::npos);
}

TEST(Secret, AFileThatOthersCanReadIsRefusedWithTheFix) {
  const TemporaryFolder folder;
  const std::string path = folder / "cluster.key";
  const Secret secret = Secret::random();
  write_file(path, as_bytes(secret.text()));
  for (const mode_t mode : {0640, 0604, 0660, 0666, 0620, 0601}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    const std::string said = error_of([&] { Secret::from_file(path); });
    EXPECT_NE(said.find("chmod 600 " + path), std::string::npos) << said;
  }
  for (const mode_t mode : {0600, 0400}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_EQ(Secret::from_file(path), secret);
  }
  EXPECT_NE(error_of([&] { Secret::from_file(path + "x"); }).find("perigee secret new"), std::string::npos);
  EXPECT_THROW(Secret::from_file(folder.path()), Error);
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  for (const std::string& text :
       {std::string(), std::string("# nothing\n"), secret.hex() + "\n" + secret.hex(), std::string(100000, 'a')}) {
    write_file(path, as_bytes(text));
    ASSERT_EQ(chmod(path.c_str(), 0600), 0);
    EXPECT_THROW(Secret::from_file(path), Error);
  }
}

// The error of Secret::from_file("-") for `text` on standard input, which ends, or stays open.
std::string secret_from_input(const std::string& text, Secret* secret, bool ends_there = true) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const int own = dup(STDIN_FILENO);
  EXPECT_EQ(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
  EXPECT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  close(ends[0]);
  if (ends_there) close(ends[1]);
  const std::string said = error_of([&] { *secret = Secret::from_file("-", 50); });
  dup2(own, STDIN_FILENO), close(own);
  if (!ends_there) close(ends[1]);
  return said;
}

TEST(Secret, ComesFromStandardInput) {
  const Secret secret = Secret::random();
  Secret read;
  EXPECT_EQ(secret_from_input(secret.text(), &read), "");
  EXPECT_EQ(read, secret);
  for (const std::string& text : {std::string(), secret.hex() + "\n" + secret.hex(), std::string(10000, 'a')})
    EXPECT_NE(secret_from_input(text, &read).find("standard input: "), std::string::npos) << text.size();
  EXPECT_NE(secret_from_input(secret.text(), &read, false).find("the secret has not come to its end in time"), std::string::npos);
}

TEST(Address, AHostIsItsNameAndItsMachine) {
  EXPECT_EQ(host_name_in(host_identity()), host_name());
  EXPECT_EQ(host_identity(), host_identity());
  EXPECT_EQ(host_name_in("node#0123"), "node");
  EXPECT_EQ(host_name_in("node"), "node");
}

// ---- frames ----

TEST(FrameReader, CutsAStreamInAnyPieces) {
  std::vector<std::byte> stream;
  const size_t bodies[] = {0, 1, 15000, 16384, 40000, 262144, 3, 2000000, 0, 70000};
  for (const size_t body : bodies) {
    const auto head = encode(Chunk{.offset = body}, {}, body);
    stream.insert(stream.end(), head.begin(), head.end());
    stream.resize(stream.size() + body, std::byte(body % 251));
  }
  for (const size_t piece : {size_t{1}, size_t{39}, size_t{41}, size_t{5000}, size_t{65536}, SIZE_MAX}) {
    FrameReader reader;
    size_t at = 0, frames = 0;
    std::span<const std::byte> frame;
    while (at < stream.size()) {
      const auto room = reader.space();
      const size_t count = std::min({room.size(), piece, stream.size() - at});
      std::memcpy(room.data(), stream.data() + at, count);
      reader.filled(count);
      at += count;
      while (reader.next(&frame) == FrameReader::Next::frame) {
        Chunk chunk;
        std::span<const std::byte> body;
        ASSERT_TRUE(decode(frame.subspan(kHeaderBytes), &chunk, &body));
        ASSERT_EQ(body.size(), bodies[frames]);
        ASSERT_EQ(chunk.offset, body.size());
        ASSERT_TRUE(std::ranges::all_of(body, [&](std::byte b) { return b == std::byte(body.size() % 251); }));
        ++frames;
      }
    }
    EXPECT_EQ(frames, std::size(bodies));
    EXPECT_EQ(reader.waiting(), 0u);
    reader.space();
    EXPECT_LE(reader.capacity(), size_t{1} << 20);  // the two megabytes were given back
  }
}

// Frames of several kinds one after the other, cut anywhere; those of odd offset are received in `memory`.
struct PlacedStream {
  std::vector<std::byte> bytes;
  size_t placed = 0;
  PlacedStream() {
    for (const size_t body : {size_t{40'000}, size_t{1}, size_t{262'144}, size_t{100'001}, FrameReader::kPlacedBytes - kChunkHeadBytes,
                              FrameReader::kPlacedBytes - kChunkHeadBytes - 1, size_t{300'001}, size_t{70'000}}) {
      add(encode(Chunk{.offset = body}, {}, body), body);
      placed += body % 2 && body >= 40'000;
    }
    add(encode(Leave{}, {}), 0);
    add(encode(Image{.total = 100'001}, {}, 100'001), 100'001);  // no chunk, however large
  }
  void add(const std::vector<std::byte>& head, size_t body) {
    bytes.insert(bytes.end(), head.begin(), head.end());
    for (size_t i = 0; i < body; ++i) bytes.push_back(std::byte((body + i) % 251));
  }
};

uint64_t offset_of(std::span<const std::byte> head) {
  Chunk chunk;
  std::span<const std::byte> body;
  EXPECT_TRUE(decode(head.subspan(kHeaderBytes), &chunk, &body));
  return chunk.offset;
}

TEST(FrameReader, ReceivesABodyWhereItBelongsInAnyPieces) {
  const PlacedStream stream;
  for (const size_t piece : {size_t{1}, size_t{59}, size_t{61}, size_t{5000}, size_t{65536}, SIZE_MAX}) {
    FrameReader reader;
    std::vector<std::byte> memory(300'001);
    size_t at = 0, frames = 0, placed = 0;
    std::span<const std::byte> frame;
    while (at < stream.bytes.size()) {
      if (const auto head = reader.chunk_head(); !head.empty())
        reader.place({.memory = offset_of(head) % 2 ? memory.data() : nullptr, .ticket = offset_of(head)});
      const auto room = reader.space();
      const size_t count = std::min({room.size(), piece, stream.bytes.size() - at});
      std::memcpy(room.data(), stream.bytes.data() + at, count);
      reader.filled(count);
      at += count;
      for (FrameReader::Next next; (next = reader.next(&frame)) != FrameReader::Next::more; ++frames) {
        ASSERT_TRUE(next == FrameReader::Next::frame || next == FrameReader::Next::placed);
        const bool elsewhere = next == FrameReader::Next::placed;
        placed += elsewhere;
        if (reader.header().type != MessageType::chunk) continue;
        const auto body = elsewhere ? reader.body() : frame.subspan(kChunkHeadBytes);
        ASSERT_EQ(body.size(), offset_of(frame.first(kChunkHeadBytes)));
        ASSERT_TRUE(!elsewhere || body.data() == memory.data());
        for (size_t i = 0; i < body.size(); ++i) ASSERT_EQ(body[i], std::byte((body.size() + i) % 251)) << i;
      }
    }
    EXPECT_EQ(frames, 10u);
    EXPECT_EQ(placed, stream.placed);
  }
}

// Whatever part of the body has come when its place is taken away: the frame is dropped, the memory is not touched any more, and the
// frame behind it arrives.
TEST(FrameReader, ABodyThatLostItsPlaceIsDropped) {
  constexpr size_t kBody = 40'000;
  auto stream = encode(Chunk{.offset = 1}, {}, kBody);
  stream.resize(stream.size() + kBody, std::byte{1});
  const auto behind = encode(Leave{.why = "behind"}, {});
  stream.insert(stream.end(), behind.begin(), behind.end());
  for (const bool other_use : {false, true})
    for (const size_t before : {size_t{0}, size_t{1}, size_t{8191}, size_t{8192}, kBody - 1}) {
      std::vector<std::byte> memory(kBody);
      const Placement first{.memory = memory.data(), .ticket = 1};
      const Placement second{.memory = other_use ? memory.data() : nullptr, .ticket = 2};
      FrameReader reader;
      size_t at = 0, frames = 0;
      std::span<const std::byte> frame;
      while (at < stream.size()) {
        const bool gone = at >= kChunkHeadBytes + before && at > kChunkHeadBytes;
        if (!reader.chunk_head().empty()) reader.place(gone ? second : first);
        if (gone) std::ranges::fill(memory, std::byte{0});
        const auto room = reader.space();
        const size_t until = at < kChunkHeadBytes ? kChunkHeadBytes : gone ? stream.size() : kChunkHeadBytes + std::max<size_t>(1, before);
        const size_t count = std::min({room.size(), until - at, size_t{9999}});
        std::memcpy(room.data(), stream.data() + at, count);
        reader.filled(count);
        at += count;
        while (reader.next(&frame) == FrameReader::Next::frame) {
          ++frames;
          EXPECT_EQ(reader.header().type, MessageType::leave);
        }
        ASSERT_TRUE(!gone || std::ranges::all_of(memory, [](std::byte b) { return b == std::byte{0}; }));
      }
      EXPECT_EQ(frames, 1u);
      EXPECT_EQ(reader.waiting(), 0u);
    }
}

TEST(FrameReader, RefusesAtTheFirstWrongByte) {
  std::span<const std::byte> frame;
  for (int at = 0; at < 4; ++at) {
    FrameReader reader;
    auto bytes = encode(Leave{}, {});
    bytes[static_cast<size_t>(at)] ^= std::byte{1};
    std::memcpy(reader.space().data(), bytes.data(), static_cast<size_t>(at) + 1);
    reader.filled(static_cast<size_t>(at) + 1);
    EXPECT_EQ(reader.next(&frame), FrameReader::Next::broken);
  }
  FrameReader reader;
  auto bytes = encode(Leave{}, {});
  const uint32_t length = kMaxFrameBytes;
  std::memcpy(bytes.data() + 8, &length, 4);
  std::memcpy(reader.space().data(), bytes.data(), kHeaderBytes);
  reader.filled(kHeaderBytes);
  EXPECT_EQ(reader.next(&frame), FrameReader::Next::broken);
  EXPECT_LE(reader.capacity(), size_t{16} << 10);
}

}  // namespace
}  // namespace perigee
