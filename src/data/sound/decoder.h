// A recording's bytes as the numbers of an example: decoded, mixed down, resampled, and of one length.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace perigee {

struct SoundDecoder {
  int64_t rate = 0, channels = 1, steps = 0;

  // Writes channels x steps numbers, with zeros at the end of a shorter recording; how many of the steps are there. `path` is for errors. Thread-safe.
  int64_t decode(std::span<const std::byte> bytes, const std::string& path, float* to) const;
};

}  // namespace perigee
