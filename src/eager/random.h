// Random arrays: Philox with a seed and a counter of draws, so that a seed gives the same numbers whatever came in between on other threads.
#pragma once

#include <cstdint>

#include "src/core/json.h"
#include "src/eager/array.h"

namespace perigee {

// One stream of draws; a Lua state has one.
class RandomStream {
 public:
  void seed(uint64_t seed) {
    seed_ = seed;
    draws_ = 0;
  }
  Array uniform(const Type& type, double low, double high);
  Array normal(const Type& type, double mean, double stddev);
  Array integers(const Type& type, int64_t low, int64_t high);  // low to high, both included
  Array permutation(int64_t n);                                 // of 0..n-1, i64

 private:
  Array draw(const char* op, const Type& type, const Json& attrs);

  uint64_t seed_ = 0, draws_ = 0;
};

}  // namespace perigee
