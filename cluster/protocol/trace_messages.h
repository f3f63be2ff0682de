// The spans of workers' threads, for the timeline.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/protocol/frame.h"

namespace perigee {

// The spans of a worker's threads, for the timeline: see src/core/trace.h.
struct TracedSpan {
  static constexpr size_t kMostInList = kMaxTraced;
  uint64_t begin_ns = 0, end_ns = 0;  // the worker's clock
  int64_t round = -1, count = 0;
  uint8_t phase = 0, row = 0;
  template <class F>
  void fields(F& f) {
    f(begin_ns), f(end_ns), f(round), f(count), f(phase), f(row);
  }
};

struct Traced {
  static constexpr MessageType kType = MessageType::traced;
  uint64_t dropped = 0;           // so far, for want of room
  std::vector<TracedSpan> spans;  // at most kMaxTraced
  template <class F>
  void fields(F& f) {
    f(dropped), f(spans);
  }
};

#define PERIGEE_TRACE_MESSAGES(X) X(Traced)

}  // namespace perigee
