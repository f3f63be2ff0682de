// The inner loops of what is computed of sound (src/data/sound/spectrum.h, src/io/sound/resample.h): a table for each instruction set, all with the
// same bits, so that features are the same on every machine. They are no ops of a graph, and nothing is checked here.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace perigee {

// Frames that go through the arithmetic together: rows of kSoundLanes numbers, one of each frame.
constexpr int64_t kSoundLanes = 8;

struct SoundLoops {
  // Row places[i] of z = frames[lane][i] * window[i], for i < n.
  void (*load)(const float* const* frames, const float* window, const int32_t* places, int64_t n, float* z) = nullptr;
  // Power of the bins 0 to `half` of transforms of 2 * half real numbers. `z` has them as `half` complex ones in bit-reversed order, real and
  // imaginary rows in turn; it is overwritten. cosine[k] + i sine[k] = exp(-i pi k / half) for k < 3 / 2 half. half is a power of two, at least 2.
  void (*power)(int64_t half, const float* cosine, const float* sine, float* z, float* out) = nullptr;
  // The bins themselves: rows 2 k and 2 k + 1 of `out` are the real and the imaginary part of bin k, k <= half.
  void (*bins)(int64_t half, const float* cosine, const float* sine, float* z, float* out) = nullptr;
  // The adjoint of `bins`: number i, which is row i of `out`, is the sum over k <= half of the real part of bin k times exp(imaginary unit * pi k i / half).
  // `bins` has rows as above; places as in `load`, for 2 * half numbers.
  void (*unbin)(int64_t half, const float* cosine, const float* sine, const int32_t* places, const float* bins, float* out) = nullptr;
  // sum = the sum over i < n of weights[i] times row i.
  void (*weigh)(const float* weights, int64_t n, const float* rows, float* sum) = nullptr;
  // values = factor * ln(max(values, floor)), to 2e-7 of the result; returns the largest. floor is a normal number.
  float (*logarithm)(float* values, int64_t n, float factor, float floor) = nullptr;
  // out[k * stride + t] = sum over m < inputs of table[k * inputs + m] * in[m * stride + t], for k < outputs, t < n.
  void (*combine)(const float* table, int64_t outputs, int64_t inputs, const float* in, int64_t stride, int64_t n, float* out) = nullptr;
  float (*dot)(const float* a, const float* b, int64_t n) = nullptr;
  // out[j] = the sum over i < n of a[j * step + i] * b[i], for j < kSoundLanes; n is a multiple of 8.
  void (*dots)(const float* a, int64_t step, const float* b, int64_t n, float* out) = nullptr;
};

const SoundLoops& sound_loops(Isa isa);  // the widest up to that

}  // namespace perigee
