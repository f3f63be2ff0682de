// The inner loops of the codecs (cluster/codec/codec.h): one table for each instruction set and one of obvious loops (ref), all with the
// same bits. They are no ops of a graph: they know bytes and blocks of bits, not views. Nothing is checked here: what comes from outside
// was checked by the codec. Byte pointers need no alignment; sums run in kSumLanes lanes, element i in lane i % kSumLanes, which are then
// added in pairs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"
#include "kernels/philox.h"

namespace perigee {

constexpr int64_t kMaskBits = 64;    // elements in one word of a mask
constexpr int64_t kMaxBlock = 4096;  // elements that share a scale
constexpr int64_t kSumLanes = 16;
constexpr int64_t kNoiseGroup = 128;            // elements that 16 blocks of Philox serve, with 16 bits each
constexpr int64_t kMixSize = 64;                // elements of what is multiplied by a matrix
constexpr float kNoScale = 0x1p-100f;           // a block below this is sent as zeros
constexpr float kLargestScale = 0x1p101f;       // that an encoder writes: a mean of values up to 2^100, by 1.5
constexpr uint32_t kVotes = uint32_t{1} << 31;  // beside the size of a block in a payload's header: there are no scales

enum class Levels : uint8_t {
  largest,    // scale = max |v| / levels: nothing is cut off
  mean,       // 1 bit: scale = mean |v|; 2 bits: 1.5 mean |v|, near the best for a normal distribution; what is beyond is cut off
  threshold,  // 2 bits: `scale` is given; |v| >= scale becomes one, the rest nothing
};

// n values in blocks of `block` to codes of 1, 2, 4 or 8 bits, one scale for each block. A code is q + levels for levels = 1, 7, 127 and
// q in [-levels, levels]; at 1 bit it is 1 for a negative value. In a block of m elements with h = ceil(m * bits / 8) bytes, byte j holds
// elements j, j + h, j + 2h ... from its low bits on; the last block may be short.
struct QuantizeCall {
  const float* x = nullptr;
  float* residual = nullptr;  // null: none; else v = x + decay * residual is encoded and residual = v - what is decoded
  float decay = 1;
  int64_t n = 0;
  int64_t block = 0;  // a multiple of 8, at most kMaxBlock
  int bits = 8;
  Levels levels = Levels::largest;
  float scale = 0;          // threshold
  bool stochastic = false;  // else to nearest, ties to even
  PhiloxKey key = {};
  uint64_t round = 0;
  uint64_t first = 0;           // number of x[0] for the draws
  std::byte* scales = nullptr;  // one float for each block; not written with a given scale
  std::byte* codes = nullptr;
};

struct DequantizeCall {
  const std::byte* scales = nullptr;  // null: `scale` for all
  const std::byte* codes = nullptr;
  float scale = 0;
  int64_t n = 0;
  int64_t block = 0;
  int bits = 8;
  float weight = 1;
  float* sum = nullptr;  // sum[i] += weight * (q * scale)
};

struct CodecLoops {
  // The bits of the largest |x + decay * residual|; residual may be null. Above those of every number where one is not finite.
  uint32_t (*largest)(const float* x, const float* residual, float decay, int64_t n) = nullptr;
  void (*fold)(const float* x, float* residual, float decay, int64_t n) = nullptr;  // residual = x + decay * residual
  void (*quantize)(const QuantizeCall&) = nullptr;
  void (*dequantize_add)(const DequantizeCall&) = nullptr;
  // Bit i of the masks is |v[i]| >= tau; returns how many are. ceil(n / kMaskBits) words, the rest of the last one zero.
  int64_t (*exceed)(const float* v, int64_t n, float tau, uint64_t* masks) = nullptr;
  void (*clip)(float* v, int64_t n, float limit) = nullptr;  // to [-limit, limit]
  // v rounded to 16 bits; residual (null, or v itself) = v - that.
  void (*to_bf16)(const float* v, int64_t n, std::byte* out, float* residual) = nullptr;
  void (*to_f16)(const float* v, int64_t n, std::byte* out, float* residual) = nullptr;
  // sum += weight * value.
  void (*add_f32)(const std::byte* in, int64_t n, float weight, float* sum) = nullptr;
  void (*add_bf16)(const std::byte* in, int64_t n, float weight, float* sum) = nullptr;
  void (*add_f16)(const std::byte* in, int64_t n, float weight, float* sum) = nullptr;
  float (*dot)(const float* a, const float* b, int64_t n) = nullptr;
  void (*add_scaled)(float a, const float* x, float* y, int64_t n) = nullptr;  // y += a * x
  // y[j] = sum over i of x[i] * matrix[i * kMixSize + j], i ascending from 0; for i and j below kMixSize.
  void (*mix)(const float* x, const float* matrix, float* y) = nullptr;
};

// Elements draw by their number alone. In a group of 128, lane l of 16 takes block 16 * group + l of Philox; element e's bits are
// half e % 2 of word e / 32 of lane e % 32 / 2.
[[maybe_unused]] static constexpr PhiloxBlock codec_noise_counter(uint64_t block, uint64_t round) {
  return {
      {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(round), static_cast<uint32_t>(round >> 32)}};
}

const CodecLoops& codec_loops(Isa isa);  // the widest up to that
const CodecLoops& codec_loops_ref();

}  // namespace perigee
