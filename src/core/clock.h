// Time and randomness as things that are given to a state machine, so that a test or the simulator can give its own.
#pragma once

#include <cstdint>

namespace perigee {

// Monotonic; wall-clock time never decides anything.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual uint64_t now_ns() const = 0;
};

class Rng {
 public:
  virtual ~Rng() = default;
  virtual uint64_t next() = 0;
};

// From the system, never repeated.
class SystemRng final : public Rng {
 public:
  uint64_t next() override;
};

// The same numbers for the same seed.
class SeededRng final : public Rng {
 public:
  explicit SeededRng(uint64_t seed) : state_(seed) {}
  uint64_t next() override;

 private:
  uint64_t state_;
};

}  // namespace perigee
