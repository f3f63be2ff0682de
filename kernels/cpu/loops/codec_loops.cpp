// The codecs' loops, block by block, so that a block's second and third pass find it in the nearest cache. The compiler vectorises
// them; contraction is off in this file, and where order matters it is that of ref.
#include "kernels/codec_loops.h"

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in GCC's own AVX-512 header
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#include <cstring>

#include "kernels/half.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr int kPhiloxLanes = 16;

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
float magnitude(float x) { return float_from_bits(bits_from_float(x) & 0x7fffffffu); }

uint32_t largest_of(const float* x, int64_t n) {
  uint32_t top = 0;
#pragma omp simd reduction(max : top)
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = bits_from_float(x[i]) & 0x7fffffffu;
    top = bits > top ? bits : top;
  }
  return top;
}

uint32_t largest(const float* x, const float* residual, float decay, int64_t n) {
  if (!residual) return largest_of(x, n);
  uint32_t top = 0;
#pragma omp simd reduction(max : top)
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = bits_from_float(x[i] + decay * residual[i]) & 0x7fffffffu;
    top = bits > top ? bits : top;
  }
  return top;
}

void fold(const float* x, float* residual, float decay, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) residual[i] = x[i] + decay * residual[i];
}

struct Lanes {
  float sum[kSumLanes] = {};
  float total() {
    for (int64_t half = kSumLanes / 2; half > 0; half /= 2)
      for (int64_t i = 0; i < half; ++i) sum[i] += sum[i + half];
    return sum[0];
  }
};

float sum_of_magnitudes(const float* v, int64_t n) {
  Lanes lanes;
  int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes)
#pragma omp simd
    for (int64_t l = 0; l < kSumLanes; ++l) lanes.sum[l] += magnitude(v[i + l]);
  for (; i < n; ++i) lanes.sum[i % kSumLanes] += magnitude(v[i]);
  return lanes.total();
}

float dot(const float* a, const float* b, int64_t n) {
  Lanes lanes;
  int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes)
#pragma omp simd
    for (int64_t l = 0; l < kSumLanes; ++l) lanes.sum[l] += a[i + l] * b[i + l];
  for (; i < n; ++i) lanes.sum[i % kSumLanes] += a[i] * b[i];
  return lanes.total();
}

// The draws of one group, 16 blocks of Philox side by side.
void draw_group(PhiloxKey key, uint64_t round, uint64_t group, uint16_t* out) {
  uint32_t word[4][kPhiloxLanes];
  for (uint64_t l = 0; l < kPhiloxLanes; ++l) {
    const PhiloxBlock counter = codec_noise_counter(group * kPhiloxLanes + l, round);
    for (int k = 0; k < 4; ++k) word[k][l] = counter.lane[k];
  }
  for (int step = 0; step < 10; ++step) {
#pragma omp simd
    for (int l = 0; l < kPhiloxLanes; ++l) {
      const uint64_t a = uint64_t{0xD2511F53u} * word[0][l], b = uint64_t{0xCD9E8D57u} * word[2][l];
      word[0][l] = static_cast<uint32_t>(b >> 32) ^ word[1][l] ^ key.word[0];
      word[1][l] = static_cast<uint32_t>(b);
      word[2][l] = static_cast<uint32_t>(a >> 32) ^ word[3][l] ^ key.word[1];
      word[3][l] = static_cast<uint32_t>(a);
    }
    key.word[0] += 0x9E3779B9u;
    key.word[1] += 0xBB67AE85u;
  }
  static_assert(sizeof word == kNoiseGroup * sizeof(uint16_t));
  std::memcpy(out, word, sizeof word);
}

// The draws of n elements; returns where the first one's lies in `buffer`.
const uint16_t* draw(const QuantizeCall& call, uint64_t first, int64_t n, uint16_t* buffer) {
  const uint64_t group = first / kNoiseGroup;
  const int64_t skipped = static_cast<int64_t>(first % kNoiseGroup);
  for (int64_t at = 0; at < skipped + n; at += kNoiseGroup)
    draw_group(call.key, call.round, group + static_cast<uint64_t>(at / kNoiseGroup), buffer + at);
  return buffer + skipped;
}

struct Block {
  const float* v = nullptr;
  float* residual = nullptr;  // null, or v
  int64_t n = 0;
  float scale = 0, inverse = 0;
  const uint16_t* noise = nullptr;
};

// The largest q.
template <int kBits>
constexpr int kTop = kBits == 1 ? 0 : (1 << (kBits - 1)) - 1;

template <int kBits>
struct Nearest {
  static float level(const Block& block, int64_t i) {
    const float q = __builtin_rintf(block.v[i] * block.inverse);
    const float low = q < -kTop<kBits> ? -kTop<kBits> : q;
    return low > kTop<kBits> ? kTop<kBits> : low;
  }
};

template <int kBits>
struct Stochastic {
  static float level(const Block& block, int64_t i) {
    const float noise = (static_cast<float>(static_cast<int32_t>(block.noise[i])) + 0.5f) * 0x1p-16f;
    const float q = __builtin_floorf(block.v[i] * block.inverse + noise);
    const float low = q < -kTop<kBits> ? -kTop<kBits> : q;
    return low > kTop<kBits> ? kTop<kBits> : low;
  }
};

struct Threshold {
  static float level(const Block& block, int64_t i) {
    const float up = block.v[i] >= block.scale ? 1.0f : 0.0f, down = block.v[i] <= -block.scale ? 1.0f : 0.0f;
    return up - down;
  }
};

template <int kBits, class Rule, bool kResidual>
void codes_of(const Block& block, uint8_t* codes) {
  float* residual = block.residual;
  const float* v = block.v;
#pragma omp simd
  for (int64_t i = 0; i < block.n; ++i) {
    const float level = Rule::level(block, i);
    codes[i] = static_cast<uint8_t>(static_cast<int>(level) + kTop<kBits>);
    if constexpr (kResidual) residual[i] = v[i] - level * block.scale;
  }
}

template <bool kResidual>
void signs_of(const Block& block, uint8_t* codes) {
  float* residual = block.residual;
  const float* v = block.v;
#pragma omp simd
  for (int64_t i = 0; i < block.n; ++i) {
    const bool negative = v[i] < 0;
    codes[i] = negative;
    if constexpr (kResidual) residual[i] = v[i] - (negative ? -block.scale : block.scale);
  }
}

template <int kBits>
void pack(const uint8_t* codes, int64_t n, std::byte* to) {
  auto* out = reinterpret_cast<uint8_t*>(to);
  const int64_t bytes = (n * kBits + 7) / 8;
  std::memcpy(out, codes, static_cast<size_t>(bytes));
  for (int part = 1; part < 8 / kBits; ++part) {
    const int64_t count = least(bytes, n - part * bytes);
    const uint8_t* from = codes + part * bytes;
#pragma omp simd
    for (int64_t j = 0; j < count; ++j) out[j] = static_cast<uint8_t>(out[j] | from[j] << (part * kBits));
  }
}

template <int kBits>
float scale_of(const QuantizeCall& call, const float* v, int64_t n) {
  float scale;
  if (call.levels == Levels::mean) {
    const float mean = sum_of_magnitudes(v, n) / static_cast<float>(n);
    scale = kBits == 2 ? 1.5f * mean : mean;
  } else {
    scale = float_from_bits(largest_of(v, n)) / static_cast<float>(kTop<kBits>);
  }
  return scale < kNoScale ? 0 : scale;
}

template <int kBits, bool kResidual>
void quantize_block(const QuantizeCall& call, const Block& block, uint8_t* codes) {
  if constexpr (kBits == 1) signs_of<kResidual>(block, codes);
  else if (call.levels == Levels::threshold) codes_of<kBits, Threshold, kResidual>(block, codes);
  else if (call.stochastic) codes_of<kBits, Stochastic<kBits>, kResidual>(block, codes);
  else codes_of<kBits, Nearest<kBits>, kResidual>(block, codes);
}

template <int kBits>
void quantize(const QuantizeCall& call) {
  alignas(64) uint8_t codes[kMaxBlock];
  alignas(64) uint16_t noise[kMaxBlock + 2 * kNoiseGroup];
  std::byte* out = call.codes;
  for (int64_t begin = 0, index = 0; begin < call.n; begin += call.block, ++index) {
    Block block{.v = call.x + begin, .residual = nullptr, .n = least(call.block, call.n - begin), .scale = call.scale};
    if (call.residual) {
      block.residual = call.residual + begin;
      fold(block.v, block.residual, call.decay, block.n);
      block.v = block.residual;
    }
    if (call.levels != Levels::threshold) {
      block.scale = scale_of<kBits>(call, block.v, block.n);
      std::memcpy(call.scales + index * int64_t{sizeof(float)}, &block.scale, sizeof(float));
    }
    block.inverse = block.scale > 0 ? 1 / block.scale : 0;
    if (call.stochastic) block.noise = draw(call, call.first + static_cast<uint64_t>(begin), block.n, noise);
    if (block.residual) quantize_block<kBits, true>(call, block, codes);
    else quantize_block<kBits, false>(call, block, codes);
    pack<kBits>(codes, block.n, out);
    out += (block.n * kBits + 7) / 8;
  }
}

void quantize_any(const QuantizeCall& call) {
  switch (call.bits) {
    case 1: return quantize<1>(call);
    case 2: return quantize<2>(call);
    case 4: return quantize<4>(call);
    default: return quantize<8>(call);
  }
}

template <int kBits>
void dequantize_add(const DequantizeCall& call) {
  const auto* codes = reinterpret_cast<const uint8_t*>(call.codes);
  const float weight = call.weight;
  for (int64_t begin = 0, index = 0; begin < call.n; begin += call.block, ++index) {
    const int64_t n = least(call.block, call.n - begin), bytes = (n * kBits + 7) / 8;
    float scale = call.scale;
    if (call.scales) std::memcpy(&scale, call.scales + index * int64_t{sizeof(float)}, sizeof scale);
    for (int part = 0; part < 8 / kBits; ++part) {
      float* sum = call.sum + begin + part * bytes;
      const int64_t count = least(bytes, n - part * bytes);
#pragma omp simd
      for (int64_t j = 0; j < count; ++j) {
        const int code = codes[j] >> (part * kBits) & ((1 << kBits) - 1);
        const int level = kBits == 1 ? 1 - 2 * code : code - kTop<kBits>;
        sum[j] += weight * (static_cast<float>(level) * scale);
      }
    }
    codes += bytes;
  }
}

void dequantize_any(const DequantizeCall& call) {
  switch (call.bits) {
    case 1: return dequantize_add<1>(call);
    case 2: return dequantize_add<2>(call);
    case 4: return dequantize_add<4>(call);
    default: return dequantize_add<8>(call);
  }
}

// Bit i: |v[i]| >= tau, of 64 elements.
uint64_t mask_of(const float* v, float tau) {
  uint64_t mask = 0;
#if defined(__AVX512F__)
  for (int part = 0; part < 4; ++part) {
    const __m512 x = _mm512_abs_ps(_mm512_loadu_ps(v + part * 16));
    mask |= uint64_t{_mm512_cmp_ps_mask(x, _mm512_set1_ps(tau), _CMP_GE_OQ)} << (part * 16);
  }
#elif defined(__AVX2__)
  const __m256 no_sign = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  for (int part = 0; part < 8; ++part) {
    const __m256 x = _mm256_and_ps(_mm256_loadu_ps(v + part * 8), no_sign);
    const int bits = _mm256_movemask_ps(_mm256_cmp_ps(x, _mm256_set1_ps(tau), _CMP_GE_OQ));
    mask |= static_cast<uint64_t>(bits) << (part * 8);
  }
#else
  const __m128 no_sign = _mm_castsi128_ps(_mm_set1_epi32(0x7fffffff));
  for (int part = 0; part < 16; ++part) {
    const __m128 x = _mm_and_ps(_mm_loadu_ps(v + part * 4), no_sign);
    mask |= static_cast<uint64_t>(_mm_movemask_ps(_mm_cmpge_ps(x, _mm_set1_ps(tau)))) << (part * 4);
  }
#endif
  return mask;
}

int64_t exceed(const float* v, int64_t n, float tau, uint64_t* masks) {
  int64_t count = 0, i = 0;
  for (; i + kMaskBits <= n; i += kMaskBits) {
    const uint64_t mask = mask_of(v + i, tau);
    masks[i / kMaskBits] = mask;
    count += __builtin_popcountll(mask);
  }
  if (i == n) return count;
  uint64_t rest = 0;
  for (int64_t j = 0; i + j < n; ++j) rest |= static_cast<uint64_t>(magnitude(v[i + j]) >= tau) << j;
  masks[i / kMaskBits] = rest;
  return count + __builtin_popcountll(rest);
}

void clip(float* v, int64_t n, float limit) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float low = v[i] < -limit ? -limit : v[i];
    v[i] = low > limit ? limit : low;
  }
}

struct Bf16 {
  static uint16_t narrow(float x) { return bf16_from_float(x); }
  static float widen(uint16_t h) { return float_from_bf16(h); }
};

struct F16 {
  static uint16_t narrow(float x) { return f16_from_float(x); }
  static float widen(uint16_t h) { return float_from_f16(h); }
};

constexpr int64_t kTile = 256;  // by way of the stack, so that the loops see that nothing overlaps

template <class Half>
void narrow(const float* v, int64_t n, std::byte* out, float* residual) {
  for (int64_t begin = 0; begin < n; begin += kTile) {
    uint16_t half[kTile];
    const int64_t count = least(kTile, n - begin);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) half[i] = Half::narrow(v[begin + i]);
    std::memcpy(out + begin * 2, half, static_cast<size_t>(count) * 2);
    if (!residual) continue;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) residual[begin + i] = v[begin + i] - Half::widen(half[i]);
  }
}

template <class Half>
void add_half(const std::byte* in, int64_t n, float weight, float* sum) {
  for (int64_t begin = 0; begin < n; begin += kTile) {
    uint16_t half[kTile];
    const int64_t count = least(kTile, n - begin);
    std::memcpy(half, in + begin * 2, static_cast<size_t>(count) * 2);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) sum[begin + i] += weight * Half::widen(half[i]);
  }
}

void add_f32(const std::byte* in, int64_t n, float weight, float* sum) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    float value;
    std::memcpy(&value, in + i * int64_t{sizeof(float)}, sizeof value);
    sum[i] += weight * value;
  }
}

void add_scaled(float a, const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

void mix(const float* x, const float* matrix, float* y) {
  alignas(64) float sum[kMixSize] = {};
  for (int64_t i = 0; i < kMixSize; ++i) {
    const float factor = x[i];
#pragma omp simd
    for (int64_t j = 0; j < kMixSize; ++j) sum[j] += factor * matrix[i * kMixSize + j];
  }
  std::memcpy(y, sum, sizeof sum);
}

}  // namespace

extern const CodecLoops PERIGEE_CONCAT(codec_loops, , PERIGEE_ISA);
const CodecLoops PERIGEE_CONCAT(codec_loops, , PERIGEE_ISA){.largest = largest,
                                                            .fold = fold,
                                                            .quantize = quantize_any,
                                                            .dequantize_add = dequantize_any,
                                                            .exceed = exceed,
                                                            .clip = clip,
                                                            .to_bf16 = narrow<Bf16>,
                                                            .to_f16 = narrow<F16>,
                                                            .add_f32 = add_f32,
                                                            .add_bf16 = add_half<Bf16>,
                                                            .add_f16 = add_half<F16>,
                                                            .dot = dot,
                                                            .add_scaled = add_scaled,
                                                            .mix = mix};

}  // namespace perigee
