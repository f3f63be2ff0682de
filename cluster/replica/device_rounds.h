// Measurements of a replica's numbers on a GPU, without downloading them. Each call waits.
// Owned by the trainer thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/device/gpu.h"

namespace perigee {

class DeviceRounds {
 public:
  explicit DeviceRounds(Gpu& gpu) : gpu_(gpu) {}

  Gpu& gpu() const { return gpu_; }
  // Sum of (from - less)^2, or of from^2 where `less` is null.
  double square(const float* from, const float* less, int64_t elements);
  // Device memory for a hash of so many bytes and squares of so many elements at most.
  static size_t bytes(size_t hashed, size_t squared);
  uint64_t xxh3_64(const std::byte* bytes, size_t count);  // as src/io/digest.h; `bytes` on an 8-byte border

 private:
  void reserve(GpuMemory* memory, size_t bytes);

  Gpu& gpu_;
  GpuMemory squares_, parts_, sums_;
  std::vector<double> read_;
};

}  // namespace perigee
