#include "src/core/clock.h"

#include <sys/random.h>

#include <cassert>
#include <cerrno>

namespace perigee {

uint64_t SystemRng::next() {
  uint64_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) assert(errno == EINTR);
  return value;
}

// SplitMix64 (Steele, Lea, Flood 2014).
uint64_t SeededRng::next() {
  uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace perigee
