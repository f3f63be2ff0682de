// How long a caller waits for a GPU or for a link between GPUs. No CUDA header is needed to include it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

namespace perigee {

inline const char* cuda_patience_text() { return std::getenv("PERIGEE_CUDA_TIMEOUT"); }

// Whether that is unset, or a number of at least a second.
inline bool cuda_patience_is_clear() {
  const char* const text = cuda_patience_text();
  if (text == nullptr) return true;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  return end != text && *end == '\0' && seconds >= 1 && std::isfinite(seconds);
}

// Code that opens a GPU has asked whether it is clear.
inline double cuda_patience_s() { return cuda_patience_text() != nullptr ? std::max(1.0, std::atof(cuda_patience_text())) : 600; }

inline std::string no_end_text(double patience_s) { return "came to no end in " + std::to_string(std::lround(patience_s)) + " s"; }

}  // namespace perigee
