// Turns a loop until something is so.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <functional>

#include "src/net/loop.h"

namespace perigee::test {

inline constexpr uint64_t kSecond = 1'000'000'000;

// False only when something hangs: the deadline is far beyond what even a slow machine needs.
inline bool run_until(UvLoop& loop, const std::function<bool()>& so, uint64_t deadline_s = 300) {
  const uint64_t deadline = loop.now_ns() + deadline_s * kSecond;
  while (!so()) {
    if (loop.now_ns() > deadline) return false;
    loop.poll();
    usleep(50);
  }
  return true;
}

}  // namespace perigee::test
