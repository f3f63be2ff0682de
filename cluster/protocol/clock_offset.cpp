#include "cluster/protocol/clock_offset.h"

#include <algorithm>
#include <cassert>

namespace perigee {

bool ClockOffset::add(uint64_t asked_ns, uint64_t there_ns, uint64_t now_ns) {
  if (asked_ns > now_ns) return false;  // not an answer to anything from here
  const uint64_t half = (now_ns - asked_ns) / 2;
  // There it was `there_ns` when here it was in the middle, give or take half a trip.
  const auto offset = static_cast<int64_t>(now_ns - half) - static_cast<int64_t>(there_ns);
  samples_[count_++ % kSamples] = {.offset_ns = offset, .half_trip_ns = half, .at_ns = now_ns};

  const auto drift = [&](uint64_t since_ns) { return (now_ns - since_ns) / 1'000'000 * kDriftPerMs; };
  const auto error_of = [&](const Sample& s) { return s.half_trip_ns + drift(s.at_ns); };
  const auto end = samples_.begin() + static_cast<ptrdiff_t>(std::min(count_, kSamples));
  const Sample best = *std::min_element(samples_.begin(), end, [&](const Sample& a, const Sample& b) { return error_of(a) < error_of(b); });
  const uint64_t error = error_of(best);
  assert(error <= half);  // the newest one at worst

  // Keeps the offset in use, so that a timeline does not jump without need: until it cannot be right any more, or a much better one is known.
  const uint64_t in_use = judged_error_ns_ + drift(judged_ns_);
  const auto away = static_cast<uint64_t>(std::max(best.offset_ns - used_ns_, used_ns_ - best.offset_ns));
  const bool moved = !known_ || away > error + in_use || (away > error && 4 * error < in_use);
  if (moved) used_ns_ = best.offset_ns;
  if (moved || away + error < in_use) {
    judged_error_ns_ = moved ? error : away + error;
    judged_ns_ = now_ns;
  }
  error_ns_ = judged_error_ns_ + drift(judged_ns_);
  known_ = true;
  return moved;
}

}  // namespace perigee
