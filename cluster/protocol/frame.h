// The messages between nodes. A frame is a fixed header and a payload; the payload of each type is one struct, written field by field,
// little-endian, by `fields`; decoding checks every count and length against its bound before it allocates.
// Data from outside is never trusted: decode() returns false, and the connection is closed, for anything that is not exactly that.
// Integers and doubles have their own width, a bool is one byte 0 or 1, a text or vector is a uint32 count and its
// elements. A plain text has at most kMaxText bytes; a `long_text` and the texts of a list only the frame's bound. The structs stand in
// one header per protocol (*_messages.h); message.h has them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace perigee {

inline constexpr uint32_t kMagic = 0x45475250;  // "PRGE"
inline constexpr uint16_t kProtocol = 1;        // of the header and all structs below; others are refused in the first frame
inline constexpr size_t kHeaderBytes = 40;
inline constexpr size_t kMaxFrameBytes = size_t{16} << 20;  // header and payload
inline constexpr size_t kChunkBytes = size_t{256} << 10;    // payload of one Chunk or Image frame: fits in the L2 cache
inline constexpr size_t kMaxWorkers = 4096;
inline constexpr size_t kMaxRanges = 65536;
inline constexpr size_t kMaxTraced = 2048;
inline constexpr size_t kMaxText = 4096;
inline constexpr size_t kMaxMemberships = 16;  // known at a time
inline constexpr size_t kMaxPartitions = 4096;
inline constexpr size_t kMaxRedo = 1024;  // rounds that can be made again

using WorkerId = uint32_t;  // given by the coordinator, never twice in a run; 0 is none

// X(name, number on the wire). A number is never given to another message.
// clang-format off
#define PERIGEE_MESSAGE_TYPES(X)                                                                                                         \
  /* worker and coordinator */                                                                                                           \
  X(join, 1)                                                                                                                             \
  X(welcome, 2)                                                                                                                          \
  X(refuse, 3) X(propose, 4) X(acknowledge, 5) X(catch_up, 6) X(caught_up, 7) X(start_epoch, 8) X(lease, 9) X(ready, 10) X(begin, 11)    \
      X(done, 12) X(commit, 13) X(beat, 14) X(link_lost, 15) X(evaluate, 16) X(evaluated, 17) X(snapshot, 18) X(leave, 19) X(failed, 20) \
          X(stop, 21) X(traced, 22) X(witness, 23) X(coordinators, 24) X(served, 25) X(redo, 26) X(imaged, 27) X(holders, 28) /* worker and worker */   \
      X(link, 64) X(chunk, 65) X(fetch, 66) X(image, 67) X(push, 68) X(pulled, 69) X(resend, 70) X(resent, 71) /* launcher, agent, status, standby */ \
      X(start, 128) X(started, 129) X(exited, 130) X(status, 131) X(report, 132) X(replicate, 133) X(replicated, 134) X(follow, 135)     \
          X(inherit, 136) X(taken_over, 137) X(steer, 138) /* data.at = "coordinator" */                                                 \
      X(read, 192) X(examples, 193)                        /* between two transports; never handed out */                                \
      X(shared_offer, 240) X(shared_switch, 241) X(shared_refused, 242)
// clang-format on

enum class MessageType : uint16_t {
#define PERIGEE_MESSAGE_TYPE(name, number) name = number,
  PERIGEE_MESSAGE_TYPES(PERIGEE_MESSAGE_TYPE)
#undef PERIGEE_MESSAGE_TYPE
};

const char* to_string(MessageType type);  // "join"; "unknown" for a number without a name

// On the wire, 40 bytes: magic, protocol u16, type u16, length u32, a zero u32, job, generation, round.
struct FrameHeader {
  MessageType type = MessageType::beat;
  uint64_t job = 0;         // of the whole run: a random number; frames of another job are dropped and counted
  uint64_t generation = 0;  // of the sender; stale frames are dropped and counted (fencing)
  int64_t round = -1;
  uint32_t length = 0;  // of the payload
  uint16_t protocol = kProtocol;
};

void write_header(const FrameHeader& header, std::span<std::byte, kHeaderBytes> out);
// False: wrong magic, or a length above the bound. Another protocol version is true, with that version: the reader refuses it.
bool read_header(std::span<const std::byte> bytes, FrameHeader* header);

// A frame without a body, or the head of one whose body has `body_bytes`. header.type and header.length are filled in. A plain text is
// cut to kMaxText (it is for people); Error(resources) when a vector is above its bound or the whole above kMaxFrameBytes.
template <class M>
std::vector<std::byte> encode(const M& message, FrameHeader header, size_t body_bytes = 0);
// The same into memory of the caller's, which is as large as the head or larger: no allocation. The bytes written.
template <class M>
size_t encode_into(std::span<std::byte> out, const M& message, FrameHeader header, size_t body_bytes = 0);
inline constexpr size_t kChunkHeadBytes = kHeaderBytes + 24;  // encode_into of a Chunk
// From a whole frame's payload. False when it is not exactly an M; with `body`, what follows the struct is put there, else nothing may
// follow. `*message` is then half filled.
template <class M>
bool decode(std::span<const std::byte> payload, M* message, std::span<const std::byte>* body = nullptr);

}  // namespace perigee
