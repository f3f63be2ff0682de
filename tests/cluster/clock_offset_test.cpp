#include "cluster/protocol/clock_offset.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cluster/simulator/seeded_rng.h"

namespace perigee {
namespace {

constexpr uint64_t kMs = 1'000'000, kSecond = 1'000 * kMs;

// Two clocks, `skew_ns` apart and drifting, with a network between them whose ways take different times.
struct TwoClocks {
  int64_t skew_ns;
  double drift_ppm = 0;
  sim::SeededRng rng{1};
  uint64_t now_ns = 1000 * kSecond;

  uint64_t there(uint64_t here_ns) const {
    return static_cast<uint64_t>(static_cast<int64_t>(here_ns) + skew_ns +
                                 static_cast<int64_t>(static_cast<double>(here_ns - 1000 * kSecond) * drift_ppm * 1e-6));
  }
  // The offset to add to a time of the other clock now.
  int64_t truth() const { return static_cast<int64_t>(now_ns) - static_cast<int64_t>(there(now_ns)); }
  uint64_t delay() { return kMs / 10 + static_cast<uint64_t>(rng.chance(0.3) ? rng.integer(1, 200) : rng.integer(0, 2)) * kMs; }

  bool beat(ClockOffset& offset) {
    const uint64_t asked = now_ns, answered = asked + delay();
    const uint64_t sent = there(answered);
    now_ns = answered + delay();
    const bool moved = offset.add(asked, sent, now_ns);
    now_ns += kSecond / 2;
    return moved;
  }
};

int64_t off(const ClockOffset& offset, const TwoClocks& clocks) { return std::abs(offset.ns() - clocks.truth()); }

TEST(ClockOffset, IsRightToWithinWhatItSays) {
  for (const int64_t skew : {int64_t{0}, int64_t{-700'000'000'000}, int64_t{123'456'789'012'345}}) {
    TwoClocks clocks{.skew_ns = skew};
    ClockOffset offset;
    EXPECT_FALSE(offset.known());
    for (int i = 0; i < 500; ++i) {
      clocks.beat(offset);
      ASSERT_TRUE(offset.known());
      ASSERT_LE(off(offset, clocks), static_cast<int64_t>(offset.error_ns())) << "beat " << i << ", skew " << skew;
    }
    EXPECT_LT(off(offset, clocks), static_cast<int64_t>(3 * kMs));
  }
}

TEST(ClockOffset, FollowsAClockThatDrifts) {
  TwoClocks clocks{.skew_ns = 42, .drift_ppm = 40};
  ClockOffset offset;
  for (int i = 0; i < 10'000; ++i) {
    clocks.beat(offset);
    ASSERT_LE(off(offset, clocks), static_cast<int64_t>(offset.error_ns()) + static_cast<int64_t>(kMs)) << "beat " << i;
  }
  EXPECT_LT(off(offset, clocks), static_cast<int64_t>(5 * kMs)) << "after 200 ms of drift";
}

TEST(ClockOffset, StaysWhereItIsWhileThatIsPossible) {
  TwoClocks clocks{.skew_ns = 99};
  ClockOffset offset;
  int moves = 0;
  for (int i = 0; i < 2000; ++i) moves += clocks.beat(offset);
  EXPECT_LE(moves, 8);
  EXPECT_GE(moves, 1);
}

TEST(ClockOffset, AnAnswerFromTheFutureIsIgnored) {
  ClockOffset offset;
  EXPECT_FALSE(offset.add(2 * kSecond, 5, kSecond));
  EXPECT_FALSE(offset.known());
}

}  // namespace
}  // namespace perigee
