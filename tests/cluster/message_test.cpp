#include "cluster/protocol/message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "src/core/error.h"
#include "tests/cluster/sample_messages.h"

namespace perigee {
namespace {

using Frame = std::vector<std::byte>;

std::span<const std::byte> payload(const Frame& frame) { return std::span(frame).subspan(kHeaderBytes); }

template <class T>
void put(Frame& frame, size_t at, T value) {
  ASSERT_LE(at + sizeof(T), frame.size());
  std::memcpy(frame.data() + at, &value, sizeof(T));
}

template <class M>
class MessageTest : public testing::Test {};

template <class First, class... Rest>
struct TypeList {
  using Types = testing::Types<Rest...>;  // without the first, which only makes the commas come out right
};
#define PERIGEE_COMMA_TYPE(M) , M
using Everything = TypeList<void PERIGEE_MESSAGES(PERIGEE_COMMA_TYPE)>::Types;
#undef PERIGEE_COMMA_TYPE

class MessageName {
 public:
  template <class M>
  static std::string GetName(int) {
    return to_string(M::kType);
  }
};
TYPED_TEST_SUITE(MessageTest, Everything, MessageName);

TYPED_TEST(MessageTest, ComesBackAsItWas) {
  for (const size_t elements : {0, 1, 2, 7}) {
    const auto message = test::sample<TypeParam>(elements);
    const Frame frame = encode(message, {.job = 5, .generation = 6, .round = -1});
    FrameHeader header;
    ASSERT_TRUE(read_header(frame, &header));
    EXPECT_EQ(header.type, TypeParam::kType);
    EXPECT_EQ(header.length, frame.size() - kHeaderBytes);
    EXPECT_EQ(header.job, 5u);
    EXPECT_EQ(header.generation, 6u);
    EXPECT_EQ(header.round, -1);
    TypeParam back = test::sample<TypeParam>(3, 77);  // decoding replaces whatever was there
    ASSERT_TRUE(decode(payload(frame), &back));
    EXPECT_EQ(encode(back, header), frame);
    if (elements > 0) {  // without them some have nothing else
      EXPECT_NE(encode(TypeParam{}, header), frame);
    }
  }
}

TYPED_TEST(MessageTest, SendsEveryFieldThatItHas) { EXPECT_EQ(test::FieldCounter::unsent<TypeParam>(), 0u); }

TYPED_TEST(MessageTest, EveryTruncationIsRefused) {
  const Frame frame = encode(test::sample<TypeParam>(), {});
  for (size_t length = 0; length < frame.size() - kHeaderBytes; ++length) {
    const auto whole = payload(frame).first(length);
    const Frame cut(whole.begin(), whole.end());  // its own memory: ASan sees one byte too far
    TypeParam message;
    EXPECT_FALSE(decode(cut, &message)) << length;
    std::span<const std::byte> body;
    EXPECT_FALSE(decode(cut, &message, &body)) << length;
  }
}

TYPED_TEST(MessageTest, TrailingBytesAreRefusedOrTheBody) {
  Frame frame = encode(test::sample<TypeParam>(), {}, 3);
  for (int i = 1; i <= 3; ++i) {
    frame.push_back(std::byte(i));
    TypeParam message;
    EXPECT_FALSE(decode(payload(frame), &message));
    std::span<const std::byte> body;
    ASSERT_TRUE(decode(payload(frame), &message, &body));
    ASSERT_EQ(body.size(), static_cast<size_t>(i));
    EXPECT_EQ(body.back(), std::byte(i));
  }
  FrameHeader header;
  ASSERT_TRUE(read_header(frame, &header));
  EXPECT_EQ(header.length, frame.size() - kHeaderBytes);  // the length counts the body that was announced
}

TYPED_TEST(MessageTest, NoByteOfItCanDoHarm) {  // each byte to each of a few values: decoded or refused, and what is decoded encodes
  Frame frame = encode(test::sample<TypeParam>(), {});
  for (size_t at = kHeaderBytes; at < frame.size(); ++at) {
    const std::byte was = frame[at];
    for (const int value : {0, 1, 2, 0x7F, 0x80, 0xFF}) {
      frame[at] = std::byte(value);
      TypeParam message;
      if (!decode(payload(frame), &message)) continue;
      EXPECT_EQ(encode(message, {}).size(), frame.size());
    }
    frame[at] = was;
  }
}

TEST(Message, TypesAndNamesAreUnique) {
  std::set<uint16_t> types;
  std::set<std::string> names;
#define PERIGEE_COLLECT(M) types.insert(static_cast<uint16_t>(M::kType)), names.insert(to_string(M::kType));
  PERIGEE_MESSAGES(PERIGEE_COLLECT)
#undef PERIGEE_COLLECT
#define PERIGEE_COUNT(M) +1
  EXPECT_EQ(types.size(), size_t{0} PERIGEE_MESSAGES(PERIGEE_COUNT));
#undef PERIGEE_COUNT
  EXPECT_EQ(names.size(), types.size());
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_STREQ(to_string(MessageType::link_lost), "link_lost");
  EXPECT_STREQ(to_string(MessageType::image), "image");
  EXPECT_STREQ(to_string(MessageType::start), "start");
  EXPECT_STREQ(to_string(MessageType::examples), "examples");
  std::set<int> known;
#define PERIGEE_KNOWN(name, number) known.insert(number);
  PERIGEE_MESSAGE_TYPES(PERIGEE_KNOWN)
#undef PERIGEE_KNOWN
  for (int number = 0; number <= 65535; ++number)
    ASSERT_EQ(std::string(to_string(static_cast<MessageType>(number))) == "unknown", !known.contains(number)) << number;
}

TEST(Message, HeaderIsFortyBytesInTheStatedOrder) {
  std::array<std::byte, kHeaderBytes> bytes;
  write_header({.type = MessageType::chunk, .job = 0x0807060504030201, .generation = 2, .round = -2, .length = 0x1234}, bytes);
  const unsigned char expected[kHeaderBytes] = {'P', 'R', 'G', 'E', 1,    0,    65,   0,    0x34, 0x12, 0,    0,   0, 0,
                                                0,   0,   1,   2,   3,    4,    5,    6,    7,    8,    2,    0,   0, 0,
                                                0,   0,   0,   0,   0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
  EXPECT_EQ(std::memcmp(bytes.data(), expected, kHeaderBytes), 0);
}

TEST(Message, HeaderRefusesWhatItMust) {
  Frame frame = encode(Status{.version = "1"}, {});
  FrameHeader header;
  for (size_t length = 0; length < kHeaderBytes; ++length) EXPECT_FALSE(read_header(std::span(frame).first(length), &header)) << length;
  EXPECT_TRUE(read_header(frame, &header));
  Frame other = frame;
  other[0] = std::byte{'Q'};
  EXPECT_FALSE(read_header(other, &header));
  other = frame;
  put(other, 8, static_cast<uint32_t>(kMaxFrameBytes - kHeaderBytes));
  EXPECT_TRUE(read_header(other, &header));
  put(other, 8, static_cast<uint32_t>(kMaxFrameBytes - kHeaderBytes + 1));
  EXPECT_FALSE(read_header(other, &header));
  other = frame;
  put(other, 12, uint32_t{1});
  EXPECT_FALSE(read_header(other, &header));
}

TEST(Message, AnotherProtocolIsReadSoThatItCanBeNamed) {
  Frame frame = encode(Status{}, {.protocol = 7});
  put(frame, 8, uint32_t{0xFFFFFFFF});  // its length may mean something else
  FrameHeader header;
  ASSERT_TRUE(read_header(frame, &header));
  EXPECT_EQ(header.protocol, 7);
}

TEST(Message, CountsAreCheckedBeforeMemoryIsTaken) {
  const Frame frame = encode(Lease{.ranges = {Range{1, 2, 3}}}, {});
  Lease lease;
  for (const uint32_t count : {uint32_t{0}, uint32_t{2}, uint32_t{65536}, uint32_t{65537}, std::numeric_limits<uint32_t>::max()}) {
    Frame other = frame;
    put(other, kHeaderBytes, count);
    EXPECT_FALSE(decode(payload(other), &lease)) << count;
    EXPECT_LE(lease.ranges.capacity(), 1u);
  }
  // Enough bytes, but more than the bound.
  Frame many = encode(Lease{.ranges = std::vector<Range>(kMaxRanges)}, {});
  EXPECT_TRUE(decode(payload(many), &lease));
  EXPECT_EQ(lease.ranges.size(), kMaxRanges);
  put(many, kHeaderBytes, static_cast<uint32_t>(kMaxRanges + 1));
  many.resize(many.size() + 24);
  EXPECT_FALSE(decode(payload(many), &lease));
  Frame members = encode(Propose{.members = std::vector<Member>(kMaxWorkers)}, {});
  Propose form;
  EXPECT_TRUE(decode(payload(members), &form));
  put(members, kHeaderBytes, static_cast<uint32_t>(kMaxWorkers + 1));
  members.resize(members.size() + 16);
  EXPECT_FALSE(decode(payload(members), &form));
  Frame dead = encode(Propose{.dead = std::vector<DeadLink>(kMaxWorkers)}, {});
  EXPECT_TRUE(decode(payload(dead), &form));
  put(dead, kHeaderBytes + 16, static_cast<uint32_t>(kMaxWorkers + 1));  // behind the members' count, synced and server
  dead.resize(dead.size() + 8);
  EXPECT_FALSE(decode(payload(dead), &form));
}

TEST(Message, TextsHaveTheirBounds) {
  const Frame frame = encode(Leave{.why = std::string(kMaxText, 'a')}, {});
  Leave leave;
  ASSERT_TRUE(decode(payload(frame), &leave));
  EXPECT_EQ(leave.why.size(), kMaxText);
  Frame longer = frame;
  longer.push_back(std::byte{'a'});
  put(longer, kHeaderBytes, static_cast<uint32_t>(kMaxText + 1));
  EXPECT_FALSE(decode(payload(longer), &leave));
  // A sender cuts what is for people, between two characters...
  const Frame cut = encode(Leave{.why = std::string(kMaxText - 1, 'a') + "é and more"}, {});
  ASSERT_TRUE(decode(payload(cut), &leave));
  EXPECT_EQ(leave.why, std::string(kMaxText - 1, 'a'));
  // ...and never what is for programs.
  const std::string json(3 * kMaxText, 'j');
  Report report;
  ASSERT_TRUE(decode(payload(encode(Report{.json = json}, {})), &report));
  EXPECT_EQ(report.json, json);
  Coordinators coordinators;
  ASSERT_TRUE(decode(payload(encode(Coordinators{.addresses = {json, ""}}, {})), &coordinators));
  EXPECT_EQ(coordinators.addresses, (std::vector<std::string>{json, ""}));
}

TEST(Message, WhatDoesNotFitIsAnErrorOfTheSender) {
  EXPECT_THROW(encode(Report{.json = std::string(kMaxFrameBytes, 'j')}, {}), Error);
  EXPECT_NO_THROW(encode(Report{.json = std::string(kMaxFrameBytes - kHeaderBytes - 4, 'j')}, {}));
  try {
    encode(Lease{.ranges = std::vector<Range>(kMaxRanges + 1)}, {});
    ADD_FAILURE() << "a list beyond its bound";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a message's list is too long; got " + std::to_string(kMaxRanges + 1) + " elements"),
              std::string::npos)
        << error.what();
  }
  EXPECT_THROW(encode(Chunk{}, {}, kMaxFrameBytes - kChunkHeadBytes + 1), Error);
  EXPECT_NO_THROW(encode(Chunk{}, {}, kMaxFrameBytes - kChunkHeadBytes));
  EXPECT_THROW(encode(Chunk{}, {}, std::numeric_limits<size_t>::max()), Error);
}

TEST(Message, ChunkHeadHasAFixedSizeAndNeedsNoMemory) {
  const auto chunk = test::sample<Chunk>();
  std::array<std::byte, kChunkHeadBytes> head;
  ASSERT_EQ(encode_into(head, chunk, {.round = 3}, kChunkBytes), kChunkHeadBytes);
  const Frame frame = encode(chunk, {.round = 3}, kChunkBytes);
  EXPECT_TRUE(std::ranges::equal(head, frame));
}

TEST(Message, BooleansAreZeroOrOne) {
  Frame frame = encode(CaughtUp{.ok = true}, {});
  CaughtUp healed;
  for (const int value : {0, 1}) {
    frame.back() = std::byte(value);
    ASSERT_TRUE(decode(payload(frame), &healed));
    EXPECT_EQ(healed.ok, value == 1);
  }
  frame.back() = std::byte{2};
  EXPECT_FALSE(decode(payload(frame), &healed));
}

}  // namespace
}  // namespace perigee
