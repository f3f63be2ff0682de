// The codecs' loops, one element at a time: what the fast ones are compared with.
#include "kernels/codec_loops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/half.h"

namespace perigee {
namespace {

template <class T>
T read(const std::byte* from, int64_t index) {
  T value;
  std::memcpy(&value, from + index * static_cast<int64_t>(sizeof(T)), sizeof value);
  return value;
}

template <class T>
void write(std::byte* to, int64_t index, T value) {
  std::memcpy(to + index * static_cast<int64_t>(sizeof(T)), &value, sizeof value);
}

float folded(const float* x, const float* residual, float decay, int64_t i) { return residual ? x[i] + decay * residual[i] : x[i]; }

uint32_t largest(const float* x, const float* residual, float decay, int64_t n) {
  uint32_t top = 0;
  for (int64_t i = 0; i < n; ++i) top = std::max(top, bits_from_float(folded(x, residual, decay, i)) & 0x7fffffffu);
  return top;
}

void fold(const float* x, float* residual, float decay, int64_t n) {
  for (int64_t i = 0; i < n; ++i) residual[i] = x[i] + decay * residual[i];
}

template <class Term>
float sum_in_lanes(int64_t n, Term term) {
  float lanes[kSumLanes] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i % kSumLanes] += term(i);
  for (int64_t half = kSumLanes / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

float codec_loops_dot(const float* a, const float* b, int64_t n) {
  return sum_in_lanes(n, [&](int64_t i) { return a[i] * b[i]; });
}

float codec_loops_scale_of(const QuantizeCall& call, const float* v, int64_t n) {
  if (call.levels == Levels::threshold) return call.scale;
  float scale;
  if (call.levels == Levels::mean) {
    const float mean = sum_in_lanes(n, [&](int64_t i) { return std::abs(v[i]); }) / static_cast<float>(n);
    scale = call.bits == 2 ? 1.5f * mean : mean;
  } else {
    scale = float_from_bits(largest(v, nullptr, 1, n)) / static_cast<float>((1 << (call.bits - 1)) - 1);
  }
  return scale < kNoScale ? 0 : scale;
}

// In (0, 1), in steps of 2^-16.
float noise(const QuantizeCall& call, uint64_t element) {
  const uint64_t place = element % kNoiseGroup;
  const PhiloxBlock block = philox4x32(codec_noise_counter(element / kNoiseGroup * 16 + place % 32 / 2, call.round), call.key);
  const uint32_t half = block.lane[place / 32] >> (place % 2 * 16) & 0xffffu;
  return (static_cast<float>(half) + 0.5f) * 0x1p-16f;
}

float level_of(const QuantizeCall& call, float v, float scale, float inverse, uint64_t element) {
  if (call.levels == Levels::threshold) return static_cast<float>((v >= scale) - (v <= -scale));
  const float levels = static_cast<float>((1 << (call.bits - 1)) - 1);
  const float exact = v * inverse;
  return std::clamp(call.stochastic ? std::floor(exact + noise(call, element)) : std::rint(exact), -levels, levels);
}

void quantize(const QuantizeCall& call) {
  std::byte* codes = call.codes;
  for (int64_t begin = 0, index = 0; begin < call.n; begin += call.block, ++index) {
    const int64_t m = std::min(call.block, call.n - begin), bytes = (m * call.bits + 7) / 8;
    const float* v = call.x + begin;
    if (call.residual) {
      fold(v, call.residual + begin, call.decay, m);
      v = call.residual + begin;
    }
    const float scale = codec_loops_scale_of(call, v, m);
    const float inverse = scale > 0 ? 1 / scale : 0;
    if (call.levels != Levels::threshold) write(call.scales, index, scale);
    std::memset(codes, 0, static_cast<size_t>(bytes));
    for (int64_t i = 0; i < m; ++i) {
      int code;
      float decoded;
      if (call.bits == 1) {
        code = v[i] < 0;
        decoded = code ? -scale : scale;
      } else {
        const float level = level_of(call, v[i], scale, inverse, call.first + static_cast<uint64_t>(begin + i));
        code = static_cast<int>(level) + (1 << (call.bits - 1)) - 1;
        decoded = level * scale;
      }
      codes[i % bytes] |= static_cast<std::byte>(code << (i / bytes * call.bits));
      if (call.residual) call.residual[begin + i] = v[i] - decoded;
    }
    codes += bytes;
  }
}

void dequantize_add(const DequantizeCall& call) {
  const std::byte* codes = call.codes;
  for (int64_t begin = 0, index = 0; begin < call.n; begin += call.block, ++index) {
    const int64_t m = std::min(call.block, call.n - begin), bytes = (m * call.bits + 7) / 8;
    const float scale = call.scales ? read<float>(call.scales, index) : call.scale;
    for (int64_t i = 0; i < m; ++i) {
      const int code = static_cast<int>(codes[i % bytes]) >> (i / bytes * call.bits) & ((1 << call.bits) - 1);
      const int level = call.bits == 1 ? 1 - 2 * code : code - ((1 << (call.bits - 1)) - 1);
      call.sum[begin + i] += call.weight * (static_cast<float>(level) * scale);
    }
    codes += bytes;
  }
}

int64_t exceed(const float* v, int64_t n, float tau, uint64_t* masks) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (i % kMaskBits == 0) masks[i / kMaskBits] = 0;
    if (!(std::abs(v[i]) >= tau)) continue;
    masks[i / kMaskBits] |= uint64_t{1} << (i % kMaskBits);
    ++count;
  }
  return count;
}

void clip(float* v, int64_t n, float limit) {
  for (int64_t i = 0; i < n; ++i) v[i] = std::clamp(v[i], -limit, limit);
}

void to_bf16(const float* v, int64_t n, std::byte* out, float* residual) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t half = bf16_from_float(v[i]);
    write(out, i, half);
    if (residual) residual[i] = v[i] - float_from_bf16(half);
  }
}

void to_f16(const float* v, int64_t n, std::byte* out, float* residual) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t half = f16_from_float(v[i]);
    write(out, i, half);
    if (residual) residual[i] = v[i] - float_from_f16(half);
  }
}

void add_f32(const std::byte* in, int64_t n, float weight, float* sum) {
  for (int64_t i = 0; i < n; ++i) sum[i] += weight * read<float>(in, i);
}

void add_bf16(const std::byte* in, int64_t n, float weight, float* sum) {
  for (int64_t i = 0; i < n; ++i) sum[i] += weight * float_from_bf16(read<uint16_t>(in, i));
}

void add_f16(const std::byte* in, int64_t n, float weight, float* sum) {
  for (int64_t i = 0; i < n; ++i) sum[i] += weight * float_from_f16(read<uint16_t>(in, i));
}

void add_scaled(float a, const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

void mix(const float* x, const float* matrix, float* y) {
  for (int64_t j = 0; j < kMixSize; ++j) {
    y[j] = 0;
    for (int64_t i = 0; i < kMixSize; ++i) y[j] += x[i] * matrix[i * kMixSize + j];
  }
}

}  // namespace

const CodecLoops& codec_loops_ref() {
  static constexpr CodecLoops loops{.largest = largest,
                                    .fold = fold,
                                    .quantize = quantize,
                                    .dequantize_add = dequantize_add,
                                    .exceed = exceed,
                                    .clip = clip,
                                    .to_bf16 = to_bf16,
                                    .to_f16 = to_f16,
                                    .add_f32 = add_f32,
                                    .add_bf16 = add_bf16,
                                    .add_f16 = add_f16,
                                    .dot = codec_loops_dot,
                                    .add_scaled = add_scaled,
                                    .mix = mix};
  return loops;
}

}  // namespace perigee
