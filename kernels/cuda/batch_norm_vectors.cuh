// Batch normalisation of images with channels last (or of rows of features), eight numbers at a time: a thread keeps to the same few
// channels, so that what belongs to them stays in its registers, and goes down the rows with several loads in flight. Blocks share the
// rows, and what they find is added up in order, as columns.cuh has it. A second pass goes up the rows that the first went down: what that
// read last is in L2 still.
#pragma once

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/halves.cuh"

namespace perigee {

constexpr int kVectorColumns = 32;  // vectors side by side in a block, at most
constexpr int kLanes = 8;           // numbers of a vector: 16 bytes, or 32

__device__ inline float inverse_root(float x) {
#ifdef __CUDA_ARCH__
  return rsqrtf(x);
#else
  return 1 / std::sqrt(x);
#endif
}

// Vector i of an operand: eight numbers in f32. One kernel serves all types; which it is does not differ among threads.
__device__ inline void load_vector(const void* from, Dtype dtype, int64_t i, float (&x)[kLanes]) {
  const auto* const words = static_cast<const uint4*>(from);
  if (dtype == Dtype::f32) {
    const uint4 low = words[2 * i], high = words[2 * i + 1];
    const uint32_t all[kLanes] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    for (int l = 0; l < kLanes; ++l) x[l] = float_from_bits(all[l]);
    return;
  }
  const uint4 raw = words[i];
  const uint32_t pairs[kLanes / 2] = {raw.x, raw.y, raw.z, raw.w};
  for (int p = 0; p < kLanes / 2; ++p) {
    x[2 * p] = float_from_half(static_cast<uint16_t>(pairs[p]), dtype == Dtype::bf16);
    x[2 * p + 1] = float_from_half(static_cast<uint16_t>(pairs[p] >> 16), dtype == Dtype::bf16);
  }
}

__device__ inline void store_vector(void* to, Dtype dtype, int64_t i, const float (&x)[kLanes]) {
  auto* const words = static_cast<uint4*>(to);
  const auto bits = [&](int l) { return bits_from_float(x[l]); };
  const auto pair = [&](int p) {
    return half_from_float(x[2 * p], dtype == Dtype::bf16) | static_cast<uint32_t>(half_from_float(x[2 * p + 1], dtype == Dtype::bf16))
                                                                 << 16;
  };
  if (dtype != Dtype::f32) {
    words[i] = {pair(0), pair(1), pair(2), pair(3)};
    return;
  }
  words[2 * i] = {bits(0), bits(1), bits(2), bits(3)};
  words[2 * i + 1] = {bits(4), bits(5), bits(6), bits(7)};
}

// Who does what: a block's threads are `width` vectors by kThreads / width rows.
struct VectorShape {
  int64_t rows = 0, vectors = 0;  // of the operand
  int64_t width = 1, tiles = 0, parts = 1, part_rows = 0;
  Dtype dtype = Dtype::f32;
};

inline VectorShape vector_shape(int64_t rows, int64_t channels, Dtype dtype) {
  VectorShape s{.rows = rows, .vectors = channels / kLanes, .dtype = dtype};
  while (s.width < s.vectors && s.width < kVectorColumns) s.width *= 2;
  s.tiles = ceil_divide(s.vectors, s.width);
  const int64_t at_once = kThreads / s.width;
  s.parts = max(int64_t{1}, min(2 * kColumnBlocks / max(s.tiles, int64_t{1}), rows / (4 * at_once)));
  s.part_rows = ceil_divide(ceil_divide(rows, s.parts), at_once) * at_once;
  s.parts = ceil_divide(rows, s.part_rows);
  return s;
}

struct VectorPlace {
  int64_t vector, part, begin, end, step;  // rows begin, begin + step, ... before end; none where the vector is beyond
  __device__ int64_t last() const { return begin + (end - 1 - begin) / step * step; }  // where there are any
};

__device__ inline VectorPlace place_of(const VectorShape& s) {
  const int width = static_cast<int>(s.width);
  const int64_t part = blockIdx.x / s.tiles, tile = blockIdx.x - part * s.tiles;
  const int64_t vector = tile * s.width + threadIdx.x % width;
  const int64_t end = vector < s.vectors ? min((part + 1) * s.part_rows, s.rows) : 0;
  return {vector, part, part * s.part_rows + threadIdx.x / width, end, kThreads / width};
}

// Two sums of each lane of each vector, for each warp of the block.
static __device__ inline double* vector_room() {
  __shared__ double room[kColumnWarps * kVectorColumns * 2 * 4];
  return room;
}

// What the block's rows come to, to parts[(part * 2 + sum) * channels + channel]. Every thread calls it.
__device__ void keep_sums(const VectorShape& s, const VectorPlace& place, double (&sum)[2][kLanes], double* parts) {
  const int width = static_cast<int>(s.width);
  double* const room = vector_room();
  for (int half = 0; half < kLanes / 4; ++half) {  // four lanes at a time: the room is small
    for (int other = kWarp / 2; other >= width; other /= 2)
      for (int k = 0; k < 2; ++k)
        for (int l = 0; l < 4; ++l) sum[k][4 * half + l] += __shfl_xor_sync(kAllLanes, sum[k][4 * half + l], other);
    __syncthreads();
    if (lane_of_warp() < width)
      for (int k = 0; k < 2; ++k)
        for (int l = 0; l < 4; ++l) room[((warp_of_block() * 2 + k) * 4 + l) * kVectorColumns + lane_of_warp()] = sum[k][4 * half + l];
    __syncthreads();
    const int column = static_cast<int>(threadIdx.x) % kVectorColumns, which = static_cast<int>(threadIdx.x) / kVectorColumns;
    const int64_t vector = place.vector - static_cast<int>(threadIdx.x) % width + column;
    if (column >= width || vector >= s.vectors) continue;
    double total = 0;
    for (int warp = 0; warp < kColumnWarps; ++warp) total += room[(warp * 8 + which) * kVectorColumns + column];
    parts[(place.part * 2 + which / 4) * s.vectors * kLanes + vector * kLanes + 4 * half + which % 4] = total;
  }
}

// Of a thread's channels.
__device__ inline void load_channels(const float* from, int64_t vector, float absent, float (&x)[kLanes]) {
  for (int l = 0; l < kLanes; ++l) x[l] = from != nullptr ? from[vector * kLanes + l] : absent;
}

__global__ void __launch_bounds__(kThreads) moments_vectors_kernel(const void* x, VectorShape s, double* parts) {
  begin_kernel();
  const VectorPlace place = place_of(s);
  double sum[2][kLanes] = {};
#pragma unroll 2
  for (int64_t row = place.begin; row < place.end; row += place.step) {
    float v[kLanes];
    load_vector(x, s.dtype, row * s.vectors + place.vector, v);
    for (int l = 0; l < kLanes; ++l) {
      const double value = static_cast<double>(v[l]);
      sum[0][l] += value;
      sum[1][l] = fma(value, value, sum[1][l]);
    }
  }
  keep_sums(s, place, sum, parts);
}

struct VectorNorm {
  const float *gamma, *beta, *mean, *variance;  // gamma and beta may be absent
  float epsilon;
  bool relu;
};

__global__ void __launch_bounds__(kThreads)
    normalise_vectors_kernel(const void* x, const void* residual, void* y, VectorNorm norm, VectorShape s) {
  begin_kernel();
  const VectorPlace place = place_of(s);
  if (place.begin >= place.end) return;
  float scale[kLanes], beta[kLanes], mean[kLanes], variance[kLanes];
  load_channels(norm.gamma, place.vector, 1, scale);
  load_channels(norm.beta, place.vector, 0, beta);
  load_channels(norm.mean, place.vector, 0, mean);
  load_channels(norm.variance, place.vector, 0, variance);
  for (int l = 0; l < kLanes; ++l) scale[l] *= inverse_root(variance[l] + norm.epsilon);
#pragma unroll 2
  for (int64_t row = place.last(); row >= place.begin; row -= place.step) {
    const int64_t at = row * s.vectors + place.vector;
    float v[kLanes], more[kLanes] = {};
    load_vector(x, s.dtype, at, v);
    if (residual != nullptr) load_vector(residual, s.dtype, at, more);
    for (int l = 0; l < kLanes; ++l) {
      v[l] = (v[l] - mean[l]) * scale[l] + beta[l] + more[l];
      if (norm.relu && v[l] < 0) v[l] = 0;
    }
    store_vector(y, s.dtype, at, v);
  }
}

struct VectorGradient {
  const void *dy, *x, *y;  // y: null where relu's mask comes of x
  void *dx, *dresidual;    // dresidual: dy where relu let it through; null where nobody wants it. The first pass writes it
};

// A thread's channels, and what its rows are.
struct GradientLanes {
  __device__ GradientLanes(const VectorNorm& norm, int64_t vector) : relu(norm.relu) {
    load_channels(norm.gamma, vector, 1, gamma);
    load_channels(norm.beta, vector, 0, beta);
    load_channels(norm.mean, vector, 0, mean);
    load_channels(norm.variance, vector, 0, inverse);
    for (float& one : inverse) one = inverse_root(one + norm.epsilon);
  }
  // dy where relu let it through, and x normalised.
  __device__ void load(const VectorGradient& of, const VectorShape& s, int64_t at, float (&d)[kLanes], float (&normal)[kLanes]) const {
    float y[kLanes] = {};
    load_vector(of.dy, s.dtype, at, d);
    load_vector(of.x, s.dtype, at, normal);
    if (relu && of.y != nullptr) load_vector(of.y, s.dtype, at, y);
    for (int l = 0; l < kLanes; ++l) {
      normal[l] = (normal[l] - mean[l]) * inverse[l];
      if (!relu) continue;
      const float z = of.y != nullptr ? y[l] : normal[l] * gamma[l] + beta[l];
      if (!(z > 0)) d[l] = 0;
    }
  }
  float gamma[kLanes], beta[kLanes], mean[kLanes], inverse[kLanes];
  bool relu;
};

__global__ void __launch_bounds__(kThreads) gradient_vectors_kernel(VectorGradient of, VectorNorm norm, VectorShape s, double* parts) {
  begin_kernel();
  const VectorPlace place = place_of(s);
  double sum[2][kLanes] = {};
  if (place.begin < place.end) {
    const GradientLanes lanes(norm, place.vector);
#pragma unroll 1
    for (int64_t row = place.begin; row < place.end; row += place.step) {
      const int64_t at = row * s.vectors + place.vector;
      float d[kLanes], normal[kLanes];
      lanes.load(of, s, at, d, normal);
      if (of.dresidual != nullptr) store_vector(of.dresidual, s.dtype, at, d);
      for (int l = 0; l < kLanes; ++l) {
        sum[0][l] += static_cast<double>(d[l]);
        sum[1][l] = fma(static_cast<double>(d[l]), static_cast<double>(normal[l]), sum[1][l]);
      }
    }
  }
  keep_sums(s, place, sum, parts);
}

// `sums`: of dz, then of dz (x - mean) / sigma, over the batch's count, by channel.
__global__ void __launch_bounds__(kThreads)
    input_gradient_vectors_kernel(VectorGradient of, VectorNorm norm, VectorShape s, const double* sums) {
  begin_kernel();
  const VectorPlace place = place_of(s);
  if (place.begin >= place.end) return;
  const GradientLanes lanes(norm, place.vector);
  float mean[kLanes], slope[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    mean[l] = static_cast<float>(sums[place.vector * kLanes + l]);
    slope[l] = static_cast<float>(sums[(s.vectors + place.vector) * kLanes + l]);
  }
#pragma unroll 1
  for (int64_t row = place.last(); row >= place.begin; row -= place.step) {
    const int64_t at = row * s.vectors + place.vector;
    float d[kLanes], normal[kLanes];
    lanes.load(of, s, at, d, normal);
    for (int l = 0; l < kLanes; ++l) d[l] = lanes.gamma[l] * lanes.inverse[l] * (d[l] - mean[l] - normal[l] * slope[l]);
    store_vector(of.dx, s.dtype, at, d);
  }
}

}  // namespace perigee
