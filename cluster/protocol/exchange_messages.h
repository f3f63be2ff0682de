// Workers among each other: links, and the chunks of an exchange.
#pragma once

#include <cstdint>

#include "cluster/protocol/frame.h"

namespace perigee {

struct Link {
  static constexpr MessageType kType = MessageType::link;
  WorkerId from = 0, to = 0;
  template <class F>
  void fields(F& f) {
    f(from), f(to);
  }
};

// Part of an exchange; the bytes follow the struct as the frame's body (not a field).
struct Chunk {
  static constexpr MessageType kType = MessageType::chunk;
  WorkerId from = 0;
  uint32_t bucket = 0;
  uint16_t phase = 0;   // of the topology: reduce or broadcast, ring step
  uint16_t row = 0;     // which partial sum (shards)
  uint64_t offset = 0;  // bytes from the start of the bucket
  uint32_t inner = 0;   // of the header's round: 0, or the number, from 1, of an exchange inside a group before it
  template <class F>
  void fields(F& f) {
    f(from), f(bucket), f(phase), f(row), f(offset), f(inner);
  }
};

#define PERIGEE_EXCHANGE_MESSAGES(X) X(Link) X(Chunk)

}  // namespace perigee
