// Random numbers of initial values: Philox4x32-10 keyed by (seed, name), one counter per element. The transforms use only exactly
// rounded operations, so every machine draws the same bits.
#pragma once

#include <cstdint>
#include <string_view>

namespace perigee {

class Draws {
 public:
  Draws(uint64_t seed, std::string_view name);

  // Each is a function of (seed, name, index) alone.
  double uniform(uint64_t index, uint32_t lane = 0) const;  // in (0, 1), 53 bits
  double normal(uint64_t index, uint32_t lane = 0) const;   // mean 0, variance 1
  double truncated_normal(uint64_t index) const;            // the same within two standard deviations

 private:
  uint64_t seed_, name_;
};

// The quantile function of the normal distribution, 0 < p < 1. Wichura, "Algorithm AS 241: The Percentage Points of the Normal
// Distribution", Applied Statistics 37 (1988), PPND16: relative error about 1e-16.
double normal_quantile(double p);
// exp and log from +, -, *, / and powers of two alone; relative error below 1e-14.
double exact_log(double x);
double exact_exp(double x);

}  // namespace perigee
