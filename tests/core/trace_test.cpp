#include "src/core/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace perigee {
namespace {

PhaseSpan span(uint64_t begin_ns, uint8_t row = kTrainerRow) {
  return {.begin_ns = begin_ns, .end_ns = begin_ns + TraceRing::kShortestNs, .phase = TracePhase::compute, .row = row};
}

TEST(TraceRing, IsSilentUntilItIsTurnedOn) {
  TraceRing ring;
  ring.add(span(1));
  std::vector<PhaseSpan> out(4);
  EXPECT_EQ(ring.take(out), 0u);
  ring.turn_on();
  ring.add(span(2));
  ASSERT_EQ(ring.take(out), 1u);
  EXPECT_EQ(out[0].begin_ns, 2u);
  EXPECT_EQ(ring.dropped(), 0u);
}

TEST(TraceRing, KeepsTheOldestAndCountsWhatHasNoRoom) {
  TraceRing ring;
  ring.turn_on();
  std::vector<PhaseSpan> out(1000);
  for (uint64_t lap = 0; lap < 3; ++lap) {
    for (uint64_t i = 0; i < TraceRing::kPlaces + 5; ++i) ring.add(span(i));
    EXPECT_EQ(ring.dropped(), 5 * (lap + 1));
    uint64_t next = 0;
    while (const size_t count = ring.take(out))
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(out[i].begin_ns, next++);
    EXPECT_EQ(next, TraceRing::kPlaces);
  }
}

TEST(TraceRing, WhatIsTooShortToSeeIsLeftOut) {
  TraceRing ring;
  ring.turn_on();
  ring.add({.begin_ns = 10, .end_ns = 10 + TraceRing::kShortestNs - 1});
  std::vector<PhaseSpan> out(4);
  EXPECT_EQ(ring.take(out), 0u);
  EXPECT_EQ(ring.dropped(), 0u);
}

// Every span of every writer comes out once, each writer's in its order, or is counted as dropped.
TEST(TraceRing, ManyThreadsWriteWhileOneReads) {
  constexpr uint64_t kEach = 40'000;
  constexpr int kWriters = 3;
  TraceRing ring;
  ring.turn_on();
  std::atomic<int> running{kWriters};
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w)
    writers.emplace_back([&, w] {
      for (uint64_t i = 1; i <= kEach; ++i) ring.add(span(i, static_cast<uint8_t>(w)));
      --running;
    });
  std::vector<PhaseSpan> out(512);
  uint64_t last[kWriters] = {}, taken = 0;
  for (bool more = true; more;) {
    more = running > 0;
    while (const size_t count = ring.take(out)) {
      taken += count;
      for (size_t i = 0; i < count; ++i) {
        ASSERT_LT(last[out[i].row], out[i].begin_ns);
        ASSERT_EQ(out[i].end_ns, out[i].begin_ns + TraceRing::kShortestNs);
        last[out[i].row] = out[i].begin_ns;
      }
    }
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(taken + ring.dropped(), kWriters * kEach);
}

TEST(PhaseTimes, SumsWithAndWithoutARing) {
  TraceRing ring;
  ring.turn_on();
  for (TraceRing* each : {static_cast<TraceRing*>(nullptr), &ring}) {
    PhaseTimes times(each, kLoopRow);
    times.round = 7;
    times.add(TracePhase::wait, 1'000'000, 3'000'000, 5);
    times.add(TracePhase::wait, 4'000'000, 4'500'000);
    times.add(TracePhase::load, 0, 1);
    EXPECT_DOUBLE_EQ(times.seconds(TracePhase::wait), 2.5e-3);
    EXPECT_DOUBLE_EQ(times.seconds(TracePhase::load), 1e-9);
    EXPECT_EQ(times.seconds(TracePhase::apply), 0);
  }
  std::vector<PhaseSpan> out(8);
  ASSERT_EQ(ring.take(out), 2u);
  EXPECT_EQ(out[0].round, 7);
  EXPECT_EQ(out[0].count, 5);
  EXPECT_EQ(out[0].row, kLoopRow);
  EXPECT_EQ(out[1].begin_ns, 4'000'000u);
}

TEST(TracePhase, EachHasANameOfItsOwn) {
  std::set<std::string> names;
  for (size_t i = 0; i < kTracePhases; ++i) names.insert(to_string(static_cast<TracePhase>(i)));
  EXPECT_EQ(names.size(), kTracePhases);
  EXPECT_STREQ(to_string(static_cast<TracePhase>(kTracePhases)), "unknown");
}

}  // namespace
}  // namespace perigee
