// Random sequences of calls of the C ABI (call_sequence.h), under the address and undefined-behaviour sanitizers in CI; PERIGEE_FUZZ_SECONDS tries
// new sequences for so long.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>

#include "tests/api/call_sequence.h"

namespace {

TEST(Sequences, OfCallsNeverCrashAndAlwaysExplain) {
  using Clock = std::chrono::steady_clock;
  constexpr int kCalls = 240, kBytesPerCall = 12;
  const char* wanted = std::getenv("PERIGEE_FUZZ_SECONDS");
  const double seconds = wanted ? std::atof(wanted) : 0;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  const uint64_t first = seconds > 0 ? std::random_device()() : 0;
  int64_t succeeded = 0, failed = 0;
  for (uint64_t seed = first; seed < first + 60 || Clock::now() < end; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<uint8_t> bytes(kCalls * kBytesPerCall);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    CallSequence sequence(bytes);
    try {
      sequence.begin();
      sequence.play(kCalls);
    } catch (const BrokenCall& broken) {
      FAIL() << "seed " << seed << ": " << broken.what();
    }
    succeeded += sequence.succeeded;
    failed += sequence.failed;
  }
  EXPECT_GT(succeeded, failed / 2) << "most calls fail: the sequences reach little";
  std::printf("%lld calls succeeded, %lld failed\n", static_cast<long long>(succeeded), static_cast<long long>(failed));
}

}  // namespace
