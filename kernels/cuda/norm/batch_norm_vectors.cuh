// Batch normalisation of images with channels last (or of rows of features), 16 bytes at a time: a thread keeps to the same few channels,
// so that what belongs to them stays in its registers, and goes down the rows with several reads under way. Blocks share the rows, and what
// they find is added up in order. A second pass goes up the rows that the first went down, and its blocks come in the other order: what the
// first read last is in L2 still.
#pragma once

#include "kernels/cuda/elementwise/lanes.cuh"
#include "kernels/cuda/reduce/columns.cuh"

namespace perigee {

constexpr int kVectorColumns = 32;  // vectors side by side in a block, at most

__device__ inline float inverse_root(float x) {
#ifdef __CUDA_ARCH__
  return rsqrtf(x);
#else
  return 1 / std::sqrt(x);
#endif
}

// Threads and their work: a block's threads are `width` vectors by kThreads / width rows. About as many blocks as the largest device holds
// at once: what a block does before and behind its rows is as long as some rows.
struct VectorShape {
  int rows = 0, vectors = 0;  // of the operand
  int width = 1, tiles = 0, parts = 1, part_rows = 0;
  Dtype dtype = Dtype::f32;
  constexpr int64_t channels() const { return int64_t{vectors} * lanes_of(dtype); }
};

inline VectorShape vector_shape(int64_t rows, int64_t channels, Dtype dtype) {
  VectorShape s{.rows = static_cast<int>(rows), .vectors = static_cast<int>(channels / lanes_of(dtype)), .dtype = dtype};
  while (s.width < s.vectors && s.width < kVectorColumns) s.width *= 2;
  s.tiles = static_cast<int>(ceil_divide(s.vectors, s.width));
  const int64_t at_once = kThreads / s.width, most = min(kColumnBlocks / max(s.tiles, 1), rows / (4 * at_once));
  s.part_rows = static_cast<int>(ceil_divide(ceil_divide(rows, max(int64_t{1}, most)), at_once) * at_once);
  s.parts = static_cast<int>(ceil_divide(rows, s.part_rows));
  return s;
}

struct VectorPlace {
  int vector, part, begin, step, count;  // rows begin, begin + step, ...; none where the vector is beyond
  __device__ int last() const { return begin + (count - 1) * step; }
};

__device__ inline VectorPlace place_of(const VectorShape& s, bool second_pass) {
  const int block = static_cast<int>(blockIdx.x) / s.tiles, tile = static_cast<int>(blockIdx.x) - block * s.tiles;
  const int line = static_cast<int>(threadIdx.x) / s.width, vector = tile * s.width + static_cast<int>(threadIdx.x) - line * s.width;
  const int part = second_pass ? s.parts - 1 - block : block, begin = part * s.part_rows + line, step = kThreads / s.width;
  const int rows = vector < s.vectors ? min((part + 1) * s.part_rows, s.rows) - begin : 0;
  return {vector, part, begin, step, rows > 0 ? (rows - 1) / step + 1 : 0};
}

// Takes `count` rows from `first` on, `step` apart: reads kAhead of them together, then calls take(row, read) for one after the other. That
// loop is not unrolled, which moves what is read along instead: those moves wait for reads that began together, where to move what was read
// for a later turn would be to wait for it in this one. `source` says where a row lies and has one operand more, or not.
template <int kAhead, class Source, class Take>
__device__ inline void each_row(const Source& source, int first, int step, int count, Take take) {
#pragma unroll 1
  for (int row = first; count > 0; count -= kAhead) {
    typename Source::Row rows[kAhead] = {};
    int64_t at[kAhead];
    for (int a = 0; a < kAhead; ++a) at[a] = source.at(row + min(a, count - 1) * step);
    for (int a = 0; a < kAhead; ++a) source.read(at[a], rows[a]);
    if (source.more != nullptr)
      for (int a = 0; a < kAhead; ++a) rows[a].more = load_vector(source.more, at[a]);
    int left = min(kAhead, count);
#pragma unroll 1
    do {
      take(row, rows[0]);
      for (int next = 1; next < kAhead; ++next) rows[next - 1] = rows[next];
      row += step;
    } while (--left > 0);
  }
}

// x, and more: the residual, or nothing.
struct ImageRows {
  struct Row {
    uint4 x, more;
  };
  __device__ int64_t at(int row) const { return int64_t{row} * vectors + vector; }
  __device__ void read(int64_t at, Row& row) const { row.x = load_vector(x, at); }
  const void *x, *more;
  int vectors, vector;
};

// dy and x, and more: y, where relu's mask comes of it.
struct GradientRows {
  struct Row {
    uint4 dy, x, more;
  };
  __device__ int64_t at(int row) const { return int64_t{row} * vectors + vector; }
  __device__ void read(int64_t at, Row& row) const { row.dy = load_vector(dy, at), row.x = load_vector(x, at); }
  const void *dy, *x, *more;
  int vectors, vector;
};

// Two sums of each lane of each vector, for each warp of the block.
static __device__ inline double* vector_room() {
  __shared__ double room[kColumnWarps * kVectorColumns * 2 * 4];
  return room;
}

// Writes the sums of the block's rows to parts[(part * 2 + sum) * channels + channel]. Every thread calls it.
__device__ void keep_sums(const VectorShape& s, const VectorPlace& place, double (&sum)[2][kLanes], double* parts) {
  double* const room = vector_room();
  const int lanes = lanes_of(s.dtype);
#pragma unroll 1
  for (int first = 0; first < lanes; first += 4) {  // four lanes at a time: the room is small
#pragma unroll 1
    for (int other = kWarp / 2; other >= s.width; other /= 2)
      for (int k = 0; k < 2; ++k)
        for (int l = 0; l < 4; ++l) sum[k][l] += __shfl_xor_sync(kAllLanes, sum[k][l], other);
    __syncthreads();
    if (lane_of_warp() < s.width)
      for (int k = 0; k < 2; ++k)
        for (int l = 0; l < 4; ++l) room[((warp_of_block() * 2 + k) * 4 + l) * kVectorColumns + lane_of_warp()] = sum[k][l];
    for (int k = 0; k < 2; ++k)
      for (int l = 0; l < 4; ++l) sum[k][l] = sum[k][4 + l];  // the others' turn
    __syncthreads();
    const int column = static_cast<int>(threadIdx.x) % kVectorColumns, which = static_cast<int>(threadIdx.x) / kVectorColumns;
    const int vector = place.vector - static_cast<int>(threadIdx.x) % s.width + column;
    if (column >= s.width || vector >= s.vectors) continue;
    double total = 0;
    for (int warp = 0; warp < kColumnWarps; ++warp) total += room[(warp * 8 + which) * kVectorColumns + column];
    parts[(place.part * 2 + which / 4) * s.channels() + int64_t{vector} * lanes + first + which % 4] = total;
  }
}

// The two sums of each channel yield its mean and variance, or the gradients of beta and gamma and what each element's gradient
// needs.
struct VectorSums {
  float *first, *second;  // mean and variance, or dbeta and dgamma
  double* sums;           // of dz, then of dz (x - mean) / sigma, over the batch's count; null: the sums are those of x and its squares
};

// A warp a channel. Its reads are far apart and few: most of them are under way together.
__global__ void __launch_bounds__(kThreads) join_vectors_kernel(VectorSums result, VectorShape s, const double* parts) {
  begin_kernel();
  const int64_t channels = s.channels(), c = warp_of_grid();
  if (c >= channels) return;
  double sum[2] = {};
#pragma unroll 6
  for (int part = lane_of_warp(); part < s.parts; part += kWarp)
    for (int k = 0; k < 2; ++k) sum[k] += parts[(2 * part + k) * channels + c];
  for (int other = kWarp / 2; other > 0; other /= 2)
    for (int k = 0; k < 2; ++k) sum[k] += __shfl_xor_sync(kAllLanes, sum[k], other);
  if (lane_of_warp() != 0) return;
  const double average = sum[0] / s.rows, spread = sum[1] / s.rows;
  if (result.sums != nullptr) {
    result.first[c] = static_cast<float>(sum[0]), result.second[c] = static_cast<float>(sum[1]);
    result.sums[c] = average, result.sums[channels + c] = spread;
    return;
  }
  const double variance = spread - average * average;
  result.first[c] = static_cast<float>(average);
  result.second[c] = static_cast<float>(variance > 0 ? variance : variance == variance ? 0.0 : variance);
}

// Loads the values of a thread's channels.
__device__ inline void load_channels(const float* from, const VectorShape& s, int vector, float absent, float (&x)[kLanes]) {
  const int lanes = lanes_of(s.dtype);
  for (int half = 0; half < kLanes / 4; ++half) {
    const bool there = from != nullptr && 4 * half < lanes;
    float4 four = {absent, absent, absent, absent};
    if (there) four = reinterpret_cast<const float4*>(from)[(int64_t{vector} * lanes + 4 * half) / 4];
    x[4 * half] = four.x, x[4 * half + 1] = four.y, x[4 * half + 2] = four.z, x[4 * half + 3] = four.w;
  }
}

__global__ void __launch_bounds__(kThreads, 4) moments_vectors_kernel(const void* x, VectorShape s, double* parts) {
  begin_kernel();
  const VectorPlace place = place_of(s, false);
  double sum[2][kLanes] = {};
  const ImageRows rows{x, nullptr, s.vectors, place.vector};
  each_row<4>(rows, place.begin, place.step, place.count, [&](int, const ImageRows::Row& row) {
    float v[kLanes];
    unpack(row.x, s.dtype, v);
    for (int l = 0; l < kLanes; ++l) {
      const double value = static_cast<double>(v[l]);
      sum[0][l] += value;
      sum[1][l] = fma(value, value, sum[1][l]);
    }
  });
  keep_sums(s, place, sum, parts);
}

struct VectorNorm {
  const float *gamma, *beta, *mean, *variance;  // gamma and beta may be absent
  float epsilon;
  bool relu;
};

__global__ void __launch_bounds__(kThreads, 4)
    normalise_vectors_kernel(const void* x, const void* residual, void* y, VectorNorm norm, VectorShape s) {
  begin_kernel();
  const VectorPlace place = place_of(s, true);
  if (place.count == 0) return;
  float scale[kLanes], beta[kLanes], mean[kLanes], variance[kLanes];
  load_channels(norm.gamma, s, place.vector, 1, scale);
  load_channels(norm.beta, s, place.vector, 0, beta);
  load_channels(norm.mean, s, place.vector, 0, mean);
  load_channels(norm.variance, s, place.vector, 0, variance);
  for (int l = 0; l < kLanes; ++l) scale[l] *= inverse_root(variance[l] + norm.epsilon);
  const ImageRows rows{x, residual, s.vectors, place.vector};
  each_row<2>(rows, place.last(), -place.step, place.count, [&](int row, const ImageRows::Row& of) {
    float v[kLanes], more[kLanes];
    unpack(of.x, s.dtype, v);
    unpack(of.more, s.dtype, more);
    for (int l = 0; l < kLanes; ++l) {
      v[l] = (v[l] - mean[l]) * scale[l] + beta[l] + more[l];
      v[l] = norm.relu && v[l] < 0 ? 0 : v[l];
    }
    store_vector(y, rows.at(row), packed(v, s.dtype));
  });
}

struct VectorGradient {
  const void *dy, *x, *y;  // y: null where relu's mask comes of x
  void *dx, *dresidual;    // dresidual: dy where relu let it through; null where it is not needed. The first pass writes it
};

// A thread's channels, and what its rows are.
struct GradientLanes {
  __device__ GradientLanes(const VectorNorm& norm, const VectorShape& s, int vector) : relu(norm.relu), dtype(s.dtype) {
    load_channels(norm.gamma, s, vector, 1, gamma);
    load_channels(norm.beta, s, vector, 0, beta);
    load_channels(norm.mean, s, vector, 0, mean);
    load_channels(norm.variance, s, vector, 0, inverse);
    for (float& one : inverse) one = inverse_root(one + norm.epsilon);
  }
  // dy where relu let it through, and x normalised.
  __device__ void take(const GradientRows::Row& row, bool by_y, float (&d)[kLanes], float (&normal)[kLanes]) const {
    unpack(row.dy, dtype, d);
    unpack(row.x, dtype, normal);
    for (int l = 0; l < kLanes; ++l) normal[l] = (normal[l] - mean[l]) * inverse[l];
    if (!relu) return;
    if (by_y) {
      float y[kLanes];
      unpack(row.more, dtype, y);
      for (int l = 0; l < kLanes; ++l) d[l] = y[l] > 0 ? d[l] : 0;
    } else {
      for (int l = 0; l < kLanes; ++l) d[l] = normal[l] * gamma[l] + beta[l] > 0 ? d[l] : 0;
    }
  }
  float gamma[kLanes], beta[kLanes], mean[kLanes], inverse[kLanes];
  bool relu;
  Dtype dtype;
};

__global__ void __launch_bounds__(kThreads, 2) gradient_vectors_kernel(VectorGradient of, VectorNorm norm, VectorShape s, double* parts) {
  begin_kernel();
  const VectorPlace place = place_of(s, false);
  double sum[2][kLanes] = {};
  if (place.count > 0) {
    const GradientLanes lanes(norm, s, place.vector);
    const GradientRows rows{of.dy, of.x, of.y, s.vectors, place.vector};
    each_row<2>(rows, place.begin, place.step, place.count, [&](int row, const GradientRows::Row& operands) {
      float d[kLanes], normal[kLanes];
      lanes.take(operands, of.y != nullptr, d, normal);
      if (of.dresidual != nullptr) store_vector(of.dresidual, rows.at(row), packed(d, s.dtype));
      for (int l = 0; l < kLanes; ++l) {
        const double one = static_cast<double>(d[l]);
        sum[0][l] += one;
        sum[1][l] = fma(one, static_cast<double>(normal[l]), sum[1][l]);
      }
    });
  }
  keep_sums(s, place, sum, parts);
}

// `sums`: of dz, then of dz (x - mean) / sigma, over the batch's count, by channel.
__global__ void __launch_bounds__(kThreads, 2)
    input_gradient_vectors_kernel(VectorGradient of, VectorNorm norm, VectorShape s, const double* sums) {
  begin_kernel();
  const VectorPlace place = place_of(s, true);
  if (place.count == 0) return;
  const GradientLanes lanes(norm, s, place.vector);
  float mean[kLanes] = {}, slope[kLanes] = {};
  for (int l = 0; l < kLanes; ++l) {
    if (l >= lanes_of(s.dtype)) break;
    const int64_t c = int64_t{place.vector} * lanes_of(s.dtype) + l;
    mean[l] = static_cast<float>(sums[c]), slope[l] = static_cast<float>(sums[s.channels() + c]);
  }
  const GradientRows rows{of.dy, of.x, of.y, s.vectors, place.vector};
  each_row<2>(rows, place.last(), -place.step, place.count, [&](int row, const GradientRows::Row& operands) {
    float d[kLanes], normal[kLanes];
    lanes.take(operands, of.y != nullptr, d, normal);
    for (int l = 0; l < kLanes; ++l) d[l] = lanes.gamma[l] * lanes.inverse[l] * (d[l] - mean[l] - normal[l] * slope[l]);
    store_vector(of.dx, rows.at(row), packed(d, s.dtype));
  });
}

}  // namespace perigee
