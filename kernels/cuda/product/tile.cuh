// Sums of products: y[i,j] = sum over k of a(i,k) b(k,j), by tiles in shared memory. Dense layers, matrix products, convolutions and all
// their gradients are this sum; they differ in where a and b find their elements, which is what a loader says. A block of 256 threads makes a
// tile of 16 kRows x 16 kColumns sums, each thread kRows x kColumns of them; in each step it reads 16 values of k of both operands into one
// half of the shared memory while it multiplies out of the other. Where there are fewer tiles than the device has room for, k is split: the
// parts are added up in their order by the tile's last block, so that the bits do not depend on timing.
//
// A loader of an operand has `Line line(i, batch)` and `Place place(k)`, worked out once and used many times, `Read read(line, place)`, what
// memory has there, `T number(read)`, which is 0 of an empty Read, and the host's `bool along_k()`: whether neighbours in memory are neighbours
// in k.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/cuda/elementwise/walk.cuh"
#include "kernels/cuda/halves.cuh"
#include "kernels/cuda/reduce/last_block.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/kernel.h"

namespace perigee {

constexpr int kTileSide = 16;  // threads of a block, each way
constexpr int kTileDepth = 16;
constexpr int kTileThreads = kTileSide * kTileSide;
constexpr int kTilePad = 4;  // keeps what a warp writes in different banks
constexpr size_t kTileRoom = size_t{34} << 10;
constexpr size_t kLineBytes = 48, kPlaceBytes = 32;  // of a loader's, at most
constexpr int64_t kTileBlocks = 264;                 // two for each multiprocessor of the largest device
constexpr int64_t kLeastDepth = 64;                  // of one part when k is split
static_assert(kTileBlocks / 2 <= kCudaCounters);     // of tiles that have parts

// One number for a position that several dimensions make up: their offset in an operand.
struct Index {
  int rank = 0;
  int64_t n = 1;
  int64_t dims[kMaxRank];
  int64_t strides[kMaxRank];

  void add(int64_t dim, int64_t stride) {
    n *= dim;
    if (dim == 1) return;
    if (rank > 0 && strides[rank - 1] == stride * dim) {
      dims[rank - 1] *= dim, strides[rank - 1] = stride;
      return;
    }
    dims[rank] = dim, strides[rank++] = stride;
  }
  int64_t last_stride() const { return rank > 0 ? strides[rank - 1] : 0; }

  __device__ int64_t offset(int64_t i) const { return rank > 1 ? joined_offset(i) : rank == 1 ? i * strides[0] : 0; }

 private:
  __device__ __attribute__((noinline)) int64_t joined_offset(int64_t i) const {
    int64_t offset = 0;
#pragma unroll 1
    for (int d = rank - 1; d > 0; --d) {
      const int64_t rest = divide(i, dims[d], n);
      offset += (i - rest * dims[d]) * strides[d];
      i = rest;
    }
    return offset + i * strides[0];
  }
};

// The bits of an operand in f32, bf16 or f16, and the number that they encode.
__device__ inline uint32_t bits_of(const Elements& of, int64_t i) {
  return of.dtype == Dtype::f32 ? static_cast<const uint32_t*>(of.data)[i] : static_cast<const uint16_t*>(of.data)[i];
}
__device__ inline float number_of(const Elements& of, uint32_t bits) {
  return of.dtype == Dtype::f32 ? float_from_bits(bits) : float_from_half(static_cast<uint16_t>(bits), of.dtype == Dtype::bf16);
}
__device__ inline uint32_t one_of(const Elements& of) {
  return of.dtype == Dtype::f32 ? 0x3f800000u : of.dtype == Dtype::bf16 ? 0x3f80u : 0x3c00u;
}

struct TileShape {
  int64_t rows = 0, columns = 0, depth = 0, batches = 1;
  int64_t parts = 1, part_depth = 0;
  int64_t row_tiles = 0, column_tiles = 0;
  int64_t blocks() const { return row_tiles * column_tiles * parts * batches; }
};

inline TileShape tile_shape(int64_t rows, int64_t columns, int64_t depth, int64_t batches, int side, bool split) {
  TileShape s{.rows = rows, .columns = columns, .depth = depth, .batches = batches};
  s.row_tiles = ceil_divide(rows, int64_t{kTileSide} * side);
  s.column_tiles = ceil_divide(columns, int64_t{kTileSide} * side);
  const int64_t tiles = s.row_tiles * s.column_tiles * batches;
  if (split && tiles > 0) s.parts = max(int64_t{1}, min(kTileBlocks / tiles, depth / kLeastDepth));
  while (4 * s.parts * s.parts > depth && s.parts > 1) --s.parts;  // the last block reads all parts: no more of them than steps of each
  s.part_depth = ceil_divide(ceil_divide(depth, s.parts), kTileDepth) * kTileDepth;
  return s;
}

// No templates, so that the test's stand-in for a GPU can fill them with rubbish.
static __device__ inline std::byte* tile_room() {
  __shared__ Vector<float> room[kTileRoom / sizeof(Vector<float>)];
  return reinterpret_cast<std::byte*>(room);
}
static __device__ inline std::byte* place_room() {
  __shared__ Vector<float> room[4 * kTileDepth * kPlaceBytes / sizeof(Vector<float>)];
  return reinterpret_cast<std::byte*>(room);
}

__device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }

template <class T, int kCount>
__device__ void read_vectors(const T* from, T (&to)[kCount]) {
  constexpr int kLanes = Vector<T>::kLanes;
  for (int i = 0; i < kCount; i += kLanes) {
    const Vector<T> vector = *reinterpret_cast<const Vector<T>*>(from + i);
    for (int l = 0; l < kLanes; ++l) to[i + l] = vector.lane[l];
  }
}

// kSide x 16 lines of one operand, for kTileDepth values of k at a time: from memory into registers, then into shared memory. Where a line
// lies, and a step ahead where a k does, is worked out by one thread for all: divisions would take longer than the products. What is read is
// made a number when it is needed: nothing waits for one read before the next.
template <class T, int kSide, class Loader>
class TileReader {
 public:
  using Line = typename Loader::Line;
  using Place = typename Loader::Place;
  static constexpr int kLines = kSide * kTileSide, kPitch = kLines + kTilePad;
  static_assert(sizeof(Line) <= kLineBytes && sizeof(Place) <= kPlaceBytes);
  static_assert(2 * kLines <= kTileThreads && 2 * kLines * kLineBytes <= kTileRoom);

  // A barrier goes between this and take_lines(), and behind that before the room is used for anything else.
  __device__ TileReader(const Loader& loader, int operand, int64_t batch, int64_t first, int64_t lines, bool along_k)
      : loader_(loader),
        operand_(operand),
        lines_(static_cast<int>(min(lines - first, int64_t{kLines}))),
        along_k_(along_k),
        self_(static_cast<int>(threadIdx.x)) {
    const int own = self_ - operand * (kTileThreads / 2);
    if (own >= 0 && own < lines_) lines_of_operand()[own] = loader.line(first + own, batch);
  }
  __device__ void take_lines() {
    for (int i = 0; i < kSide; ++i) line_[i] = lines_of_operand()[line_of(i) < lines_ ? line_of(i) : 0];
  }

  // Finds the places of the step that begins at k; a barrier goes between this and fetch().
  __device__ void find(int64_t k, int64_t end, int half) const {
    const int own = self_ - operand_ * kWarp;
    if (own >= 0 && own < kTileDepth && k + own < end) places(half)[own] = loader_.place(k + own);
  }

  __device__ void fetch(int64_t k, int64_t end, int half) {
    const int depth = static_cast<int>(min(end - k, int64_t{kTileDepth}));
    for (int i = 0; i < kSide; ++i) {
      value_[i] = {};
      if (depth_of(i) < depth && line_of(i) < lines_) value_[i] = loader_.read(line_[i], places(half)[depth_of(i)]);
    }
  }

  __device__ void put(T* room) const {
    for (int i = 0; i < kSide; ++i) room[depth_of(i) * kPitch + line_of(i)] = loader_.number(value_[i]);
  }

 private:
  // Which of the tile the thread's i-th element is: neighbouring threads take neighbours in memory.
  __device__ int line_of(int i) const { return (along_k_ ? (self_ + i * kTileThreads) / kTileDepth : self_) % kLines; }
  __device__ int depth_of(int i) const { return along_k_ ? self_ % kTileDepth : (self_ + i * kTileThreads) / kLines; }
  __device__ Line* lines_of_operand() const { return reinterpret_cast<Line*>(tile_room() + operand_ * (kTileRoom / 2)); }
  __device__ Place* places(int half) const {
    return reinterpret_cast<Place*>(place_room() + (2 * half + operand_) * kTileDepth * kPlaceBytes);
  }

  const Loader& loader_;
  int operand_, lines_;
  bool along_k_;
  int self_;
  Line line_[kSide];
  typename Loader::Read value_[kSide] = {};
};

// The sums of one tile over k in [begin, end), in the threads' registers. The shared memory may hold no live data.
template <class T, int kRows, int kColumns, class A, class B>
__device__ void tile_sums(const A& a, const B& b, const TileShape& shape, bool a_along_k, bool b_along_k, int64_t batch, int64_t row,
                          int64_t column, int64_t begin, int64_t end, T (&sum)[kRows][kColumns]) {
  using ReadA = TileReader<T, kRows, A>;
  using ReadB = TileReader<T, kColumns, B>;
  static_assert(2 * kTileDepth * (ReadA::kPitch + ReadB::kPitch) * sizeof(T) <= kTileRoom);
  T* const room = reinterpret_cast<T*>(tile_room());
  const int x = static_cast<int>(threadIdx.x) % kTileSide * kColumns, y = static_cast<int>(threadIdx.x) / kTileSide * kRows;
  ReadA read_a(a, 0, batch, row, shape.rows, a_along_k);
  ReadB read_b(b, 1, batch, column, shape.columns, b_along_k);
  __syncthreads();
  read_a.take_lines(), read_b.take_lines();
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j) sum[i][j] = 0;
  int half = 0;
  // Begins a step early, with what the first step needs.
#pragma unroll 1
  for (int64_t k = begin - kTileDepth; k < end; k += kTileDepth, half ^= 1) {
    T* const tile_a = room + half * kTileDepth * (ReadA::kPitch + ReadB::kPitch);
    T* const tile_b = tile_a + kTileDepth * ReadA::kPitch;
    const int64_t next = k + kTileDepth;
    if (k >= begin) read_a.put(tile_a), read_b.put(tile_b);
    read_a.find(next, end, half), read_b.find(next, end, half);
    __syncthreads();  // the other half may still be read by those who are behind: it is written after the next barrier at the soonest
    if (next < end) read_a.fetch(next, end, half), read_b.fetch(next, end, half);
    if (k < begin) continue;
#pragma unroll 4
    for (int d = 0; d < kTileDepth; ++d) {
      T left[kRows], right[kColumns];
      read_vectors(tile_a + d * ReadA::kPitch + y, left);
      read_vectors(tile_b + d * ReadB::kPitch + x, right);
      for (int i = 0; i < kRows; ++i)
        for (int j = 0; j < kColumns; ++j) sum[i][j] = multiply_add(left[i], right[j], sum[i][j]);
    }
  }
}

// Which tile a block makes.
struct TilePlace {
  int64_t row_tile, column_tile, part, batch;
  __device__ explicit TilePlace(const TileShape& s) {
    const int64_t line = divide(blockIdx.x, s.column_tiles, INT32_MAX), plane = divide(line, s.row_tiles, INT32_MAX);
    batch = divide(plane, s.parts, INT32_MAX);
    column_tile = blockIdx.x - line * s.column_tiles, row_tile = line - plane * s.row_tiles, part = plane - batch * s.parts;
  }
  __device__ int64_t tile(const TileShape& s) const { return (batch * s.row_tiles + row_tile) * s.column_tiles + column_tile; }
};

// Calls f(row, column, value) for each value of the tile, by way of the shared memory, so that neighbouring threads have neighbouring columns.
template <class T, int kRows, int kColumns, class F>
__device__ void spread_tile(const T (&value)[kRows][kColumns], F f) {
  constexpr int kAtOnce = 4, kWidth = kTileSide * kColumns, kPitch = kWidth + kTilePad;
  static_assert(kRows % kAtOnce == 0 && kTileSide * kAtOnce * kPitch * sizeof(T) <= kTileRoom);
  T* const room = reinterpret_cast<T*>(tile_room());
  const int x = static_cast<int>(threadIdx.x) % kTileSide * kColumns, y = static_cast<int>(threadIdx.x) / kTileSide;
  for (int first = 0; first < kRows; first += kAtOnce) {
    __syncthreads();  // what was there is still read
    for (int i = 0; i < kAtOnce; ++i)
      for (int j = 0; j < kColumns; ++j) room[(y * kAtOnce + i) * kPitch + x + j] = value[first + i][j];
    __syncthreads();
#pragma unroll 1
    for (int e = static_cast<int>(threadIdx.x); e < kTileSide * kAtOnce * kWidth; e += kTileThreads) {
      const int line = e / kWidth, column = e % kWidth;
      f(line / kAtOnce * kRows + first + line % kAtOnce, column, room[line * kPitch + column]);
    }
  }
}

// Joins the parts of k: true in the tile's last block, which then has the sums of all parts, added up in their order. `parts` has a place for
// each sum of each thread of each block: neighbouring threads read neighbours, all sums of some parts at a time.
template <class T, int kRows, int kColumns>
__device__ bool join_parts(const TileShape& shape, const TilePlace& place, T* parts, uint32_t* counters, T (&sum)[kRows][kColumns]) {
  const int64_t row = (place.row_tile * kTileSide + threadIdx.x / kTileSide) * kRows;
  const int64_t column = (place.column_tile * kTileSide + threadIdx.x % kTileSide) * kColumns;
  const auto there = [&](int i, int j) { return row + i < shape.rows && column + j < shape.columns; };
  const int64_t part = shape.row_tiles * shape.column_tiles * shape.batches * (kRows * kColumns * kTileThreads);
  T* const own = parts + place.tile(shape) * (kRows * kColumns * kTileThreads) + threadIdx.x;
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j)
      if (there(i, j)) own[place.part * part + (i * kColumns + j) * kTileThreads] = sum[i][j];
  if (!last_to_finish(counters + place.tile(shape), shape.parts)) return false;
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j) sum[i][j] = 0;
#pragma unroll 2
  for (int64_t p = 0; p < shape.parts; ++p)
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kColumns; ++j)
        if (there(i, j)) sum[i][j] += __ldcg(own + p * part + (i * kColumns + j) * kTileThreads);
  return true;
}

// `out(batch, row, column, sum)` does the rest.
template <class T, int kRows, int kColumns, class A, class B, class Out>
__global__ void __launch_bounds__(kTileThreads)
    tile_kernel(const __grid_constant__ A a, const __grid_constant__ B b, const __grid_constant__ Out out, TileShape shape, T* parts,
                uint32_t* counters, bool a_along_k, bool b_along_k) {
  begin_kernel();
  const TilePlace place(shape);
  const int64_t row = place.row_tile * kTileSide * kRows, column = place.column_tile * kTileSide * kColumns;
  const int64_t begin = place.part * shape.part_depth, end = min(begin + shape.part_depth, shape.depth);
  T sum[kRows][kColumns];
  tile_sums<T, kRows, kColumns>(a, b, shape, a_along_k, b_along_k, place.batch, row, column, begin, end, sum);
  if constexpr (kRows * kColumns <= 16)  // wide tiles have no parts
    if (shape.parts > 1 && !join_parts(shape, place, parts, counters, sum)) return;
  spread_tile(sum, [&](int i, int j, T value) {
    if (row + i < shape.rows && column + j < shape.columns) out(place.batch, row + i, column + j, value);
  });
}

// Whether threads take 8 x 8 sums instead of 4 x 4: more operations for each element that is read, but fewer blocks.
inline bool wide_tiles(int64_t rows, int64_t columns, int64_t batches) {
  return rows > 64 && columns > 64 && ceil_divide(rows, 128) * ceil_divide(columns, 128) * batches >= kTileBlocks / 2;
}

// Scratch bytes for the parts of k.
template <class T>
size_t tile_scratch(int64_t rows, int64_t columns, int64_t depth, int64_t batches) {
  const TileShape shape = tile_shape(rows, columns, depth, batches, 4, true);
  return shape.parts == 1 ? 0 : static_cast<size_t>(shape.blocks()) * kTileThreads * 16 * sizeof(T);
}

template <class T, class A, class B, class Out>
void run_wide_tiles(Launches& on, const A& a, const B& b, const Out& out, int64_t rows, int64_t columns, int64_t depth, int64_t batches) {
  const TileShape shape = tile_shape(rows, columns, depth, batches, 8, false);
  on.launch(tile_kernel<T, 8, 8, A, B, Out>, shape.blocks(), kTileThreads, a, b, out, shape, static_cast<T*>(nullptr),
            static_cast<uint32_t*>(nullptr), a.along_k(), b.along_k());
}

// `scratch` holds what tile_scratch says of these sizes.
template <class T, class A, class B, class Out>
void run_tiles(Launches& on, const A& a, const B& b, const Out& out, int64_t rows, int64_t columns, int64_t depth, int64_t batches,
               void* scratch) {
  const TileShape shape = tile_shape(rows, columns, depth, batches, 4, true);
  on.launch(tile_kernel<T, 4, 4, A, B, Out>, shape.blocks(), kTileThreads, a, b, out, shape, static_cast<T*>(scratch), on.counters(),
            a.along_k(), b.along_k());
}

}  // namespace perigee
