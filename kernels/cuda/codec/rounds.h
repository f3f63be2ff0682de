// A replica's work on numbers that stay on a CUDA device between steps (cluster/replica/device_codec.h): the calls move them between the
// parameter block and the run of floats that a codec works on, measures them, and hashes them. The bits are the host's, but for the last
// ones of sums of squares. Every pointer is the device's. Work is queued on the stream and nothing is waited for; what a call returns is 0 or
// the code of the launch that failed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/codec/codec.h"

namespace perigee {

// Elements that lie together in the block and in what is packed.
struct CudaRun {
  int64_t block = 0, packed = 0, elements = 0;
};

struct CudaPack {
  const CudaRun* runs = nullptr;   // null: there is one, from the beginning
  int64_t count = 1, longest = 0;  // elements of the longest run
  const float* block = nullptr;
  const float* less = nullptr;  // null: packed = block * factor; else packed = block - less
  float factor = 1;
  float* packed = nullptr;  // may be the block, with one run
};

struct CudaUnpack {
  const CudaRun* runs = nullptr;
  int64_t count = 1, longest = 0;
  const float* packed = nullptr;
  bool subtract = false;  // block -= packed; else block = packed
  float* block = nullptr;
};

constexpr int64_t kSquaresPiece = 1 << 16;

// XXH3-64 over long input, but for its last 1 to 1024 bytes (src/io/digest.h): what of its eight sums is of each 1024 bytes goes side by side,
// joining them one after another.
struct CudaHash {
  static constexpr size_t kBlock = 1024, kSums = 8, kSecretWords = 24;
  const std::byte* bytes = nullptr;
  int64_t blocks = 0;                  // of kBlock
  uint64_t secret[kSecretWords] = {};  // all of it
  uint64_t* parts = nullptr;           // [blocks * kSums], scratch
  uint64_t* sums = nullptr;            // [kSums], which stand as they begin
};

struct CudaRounds {
  int (*pack)(const CudaPack&, CudaStream) = nullptr;
  int (*unpack)(const CudaUnpack&, CudaStream) = nullptr;
  // Sums (from - less)^2, or from^2 where `less` is null, in double and in a fixed order: sums[i] covers the i-th kSquaresPiece elements.
  int (*squares)(const float* from, const float* less, int64_t n, double* sums, CudaStream) = nullptr;
  int (*hash)(const CudaHash&, CudaStream) = nullptr;
};

// The table of the module.
const CudaRounds& cuda_rounds();

}  // namespace perigee
