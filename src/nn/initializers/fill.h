// Shared by the initialisers.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "src/nn/draws.h"
#include "src/nn/initializer.h"

namespace perigee {

inline void fill_normal(const ParameterSpec& spec, uint64_t seed, double mean, double stddev, std::span<float> values) {
  const Draws draws(seed, spec.name);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(mean + stddev * draws.normal(i));
}

inline void fill_truncated_normal(const ParameterSpec& spec, uint64_t seed, double mean, double stddev, std::span<float> values) {
  const Draws draws(seed, spec.name);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(mean + stddev * draws.truncated_normal(i));
}

inline void fill_uniform(const ParameterSpec& spec, uint64_t seed, double low, double high, std::span<float> values) {
  const Draws draws(seed, spec.name);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(low + (high - low) * draws.uniform(i));
}

inline double fan_in(const ParameterSpec& spec) { return static_cast<double>(spec.fan_in); }
inline double fan_out(const ParameterSpec& spec) { return static_cast<double>(spec.fan_out); }
inline double fan_average(const ParameterSpec& spec) { return 0.5 * (fan_in(spec) + fan_out(spec)); }

}  // namespace perigee
