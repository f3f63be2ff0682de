// The state machines' environment in place of a machine: time, randomness and a network. The same coordinator, agent
// and worker code runs on libuv (cluster/uv/) and in the deterministic simulator; neither may call a clock or a socket itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "src/core/clock.h"

namespace perigee {

// One connection as its transport knows it; never used twice; 0 is none.
using PeerId = uint64_t;

// Why a connection is gone.
enum class PeerLoss : uint8_t { closed, reset, timed_out, refused, protocol_error, unauthenticated };
const char* to_string(PeerLoss why);

// Where the body of a frame that is still coming may be received.
struct Placement {
  std::byte* memory = nullptr;  // for the whole body; null: nowhere in particular
  uint64_t ticket = 0;          // another one when the same memory is for something else
  bool operator==(const Placement&) const = default;
};

// Called on the loop thread, one at a time, never from within a call of Transport.
class TransportEvents {
 public:
  virtual ~TransportEvents() = default;
  // Authenticated (TLS) and ready for frames: what connect() began, or a connection from outside.
  virtual void on_connected(PeerId peer, const std::string& address) = 0;
  // One whole frame, header included: header and length checked against their bounds, not yet believed. Valid during the call.
  virtual void on_frame(PeerId peer, std::span<const std::byte> frame) = 0;
  // `head` is the beginning of a large Chunk's frame, kChunkHeadBytes of it, checked like a frame; its body is on its way. Memory given
  // here lets the body be received where it belongs, without a copy, and on_placed() then follows in place of on_frame(). A transport
  // that can do that asks before every part that it receives: when the answer is not the same any more, what has come of the frame is
  // dropped, because it was for something that is over. Must not throw.
  virtual Placement place([[maybe_unused]] PeerId peer, [[maybe_unused]] std::span<const std::byte> head) { return {}; }
  virtual void on_placed([[maybe_unused]] PeerId peer, [[maybe_unused]] std::span<const std::byte> head,
                         [[maybe_unused]] std::span<const std::byte> body) {}
  // Also for a connect() that failed. Called once for each connection that this side did not close().
  virtual void on_lost(PeerId peer, PeerLoss why) = 0;
  // `timer` as given to start_timer.
  virtual void on_timer(uint64_t timer) = 0;
  // Part of a frame that is still coming: a peer that sends an image through a slow network is not silent.
  virtual void on_bytes([[maybe_unused]] PeerId peer) {}
  // The peer's send queue fell below half its bound after send() had returned false.
  virtual void on_writable(PeerId peer) = 0;
};

// Connections are ordered and reliable while they last; a frame arrives whole or not at all.
class Transport {
 public:
  virtual ~Transport() = default;
  // "host:port". The answer is on_connected or on_lost, at the latest at the deadline (on the Clock).
  virtual PeerId connect(const std::string& address, uint64_t deadline_ns) = 0;
  // Sends `head` followed by `body` as one frame (the header's length counts both); nothing of them is kept after the call. False
  // when the peer's bounded queue is full or the peer is gone: nothing was taken. A control frame (an empty `body`) is only refused
  // when four times the bound is queued, so that a full data queue cannot silence heartbeats.
  virtual bool send(PeerId peer, std::span<const std::byte> head, std::span<const std::byte> body = {}) = 0;
  // No on_lost follows. What is queued is still sent, for at most 1 s.
  virtual void close(PeerId peer) = 0;
  // One shot; a timer that is started again has the new deadline. Ids are the caller's.
  virtual void start_timer(uint64_t timer, uint64_t deadline_ns) = 0;
  virtual void stop_timer(uint64_t timer) = 0;
};

}  // namespace perigee
