#include "src/core/trace.h"

#include <cassert>
#include <ctime>

namespace perigee {

const char* to_string(TracePhase phase) {
  static constexpr const char* kNames[] = {"open", "load",     "read",  "compute", "exchange", "update",   "encode",
                                           "wait", "transfer", "apply", "forming", "heal",     "evaluate", "checkpoint"};
  static_assert(sizeof kNames / sizeof *kNames == kTracePhases);
  const auto i = static_cast<size_t>(phase);
  return i < kTracePhases ? kNames[i] : "unknown";
}

uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void TraceRing::turn_on() {
  if (on()) return;
  places_ = std::make_unique<std::array<Place, kPlaces>>();
  on_.store(true, std::memory_order_release);
}

// A bounded queue of many writers (after D. Vyukov): a writer claims a number, writes, and passes the turn to the reader, which passes it
// to the writer of the next lap.
void TraceRing::put(const PhaseSpan& span) {
  uint64_t number = next_.load(std::memory_order_relaxed);
  for (;;) {
    Place& place = (*places_)[number % kPlaces];
    const uint64_t lap = number / kPlaces, turn = place.turn.load(std::memory_order_acquire);
    if (turn < 2 * lap) {  // the span of the lap before is still there
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    if (turn > 2 * lap) {  // another writer has it
      number = next_.load(std::memory_order_relaxed);
      continue;
    }
    if (!next_.compare_exchange_weak(number, number + 1, std::memory_order_relaxed)) continue;
    place.span = span;
    place.turn.store(2 * lap + 1, std::memory_order_release);
    return;
  }
}

size_t TraceRing::take(std::span<PhaseSpan> out) {
  if (!on()) return 0;
  size_t count = 0;
  for (; count < out.size(); ++count) {
    Place& place = (*places_)[taken_ % kPlaces];
    const uint64_t lap = taken_ / kPlaces;
    if (place.turn.load(std::memory_order_acquire) != 2 * lap + 1) break;
    out[count] = place.span;
    place.turn.store(2 * (lap + 1), std::memory_order_release);
    ++taken_;
  }
  return count;
}

}  // namespace perigee
