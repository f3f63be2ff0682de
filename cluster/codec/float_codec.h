// Numbers as they are, in 32 or 16 bits each. Size: 16 + n * bytes.
#pragma once

#include "cluster/codec/codec.h"

namespace perigee {

struct FloatFormat {
  int64_t bytes = 4;
  float limit = 0;
  uint32_t exponent = 0;  // the bits that are all ones in what is not finite
  // Writes v and leaves in residual (null, or v itself) what is lost.
  void (*write)(const CodecLoops& loops, const float* v, int64_t n, std::byte* out, float* residual) = nullptr;
  void (*add)(const CodecLoops& loops, const std::byte* in, int64_t n, float weight, float* sum) = nullptr;
};

// Whether n numbers are all finite.
bool all_finite(const FloatFormat& format, const std::byte* in, int64_t n);

std::unique_ptr<Codec> make_float_codec(const FloatFormat& format, const CodecSetup& setup);

extern const FloatFormat kFp32, kBf16, kFp16;

}  // namespace perigee
