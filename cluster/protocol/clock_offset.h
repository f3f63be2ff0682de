// How far a worker's clock is from the coordinator's, from the heartbeats between them: an answer carries the time that it
// was there, and at that moment it was here between the question and the answer. The narrower that is, the more it says (NTP).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace perigee {

class ClockOffset {
 public:
  static constexpr size_t kSamples = 32;       // the last ones
  static constexpr uint64_t kDriftPerMs = 50;  // ns: two clocks part by at most 50 ppm

  // At `now_ns` here came what was sent at `there_ns` of the other clock, in answer to what left here at `asked_ns` (later by the time
  // for which the answer waited). True when ns() is another than before.
  bool add(uint64_t asked_ns, uint64_t there_ns, uint64_t now_ns);

  static constexpr size_t kFew = 8;  // samples after which it rarely moves by much any more
  bool known() const { return known_; }
  bool settled() const { return count_ >= kFew; }
  int64_t ns() const { return used_ns_; }          // here = there + ns()
  uint64_t error_ns() const { return error_ns_; }  // and right to within this

 private:
  struct Sample {
    int64_t offset_ns = 0;
    uint64_t half_trip_ns = 0, at_ns = 0;
  };
  std::array<Sample, kSamples> samples_{};
  size_t count_ = 0;  // ever
  bool known_ = false;
  int64_t used_ns_ = 0;
  uint64_t error_ns_ = 0;                         // now ...
  uint64_t judged_error_ns_ = 0, judged_ns_ = 0;  // ... and when it was last judged
};

}  // namespace perigee
