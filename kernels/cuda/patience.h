// How long whoever waits for a GPU, or for what links GPUs, does so. No CUDA header is needed to include it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

namespace perigee {

// $PERIGEE_CUDA_TIMEOUT, at least a second.
inline double cuda_patience_s() {
  const char* const seconds = std::getenv("PERIGEE_CUDA_TIMEOUT");
  return seconds != nullptr ? std::max(1.0, std::atof(seconds)) : 600;
}

inline std::string no_end_text(double patience_s) { return "came to no end in " + std::to_string(std::lround(patience_s)) + " s"; }

}  // namespace perigee
