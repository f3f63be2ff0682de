// Pooled convolutions of few input channels, at stride 1 and with windows of 2 x 2, without tiles: a block keeps a strip of an image in
// shared memory, rows of windows with all that their taps see, and its threads read their windows' numbers there.
#pragma once

#include <cuda_pipeline.h>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/ops/conv.h"

namespace perigee {

constexpr int64_t kStripRoom = 3072;        // numbers of a strip, at most
constexpr int64_t kLeastStripBlocks = 132;  // one for each multiprocessor of the largest device

// Offsets are less than 2^31.
template <class T>
struct Images {
  T* data;
  int strides[4];

  explicit Images(const View& view) : data(static_cast<T*>(view.data)) {
    for (int d = 0; d < 4; ++d) strides[d] = static_cast<int>(view.strides[d]);
  }
  __device__ int place(int n, int c, int row, int column) const {
    return n * strides[0] + c * strides[1] + row * strides[2] + column * strides[3];
  }
  __device__ T* at(int n, int c, int row, int column) const { return data + place(n, c, row, column); }
};

inline bool within_31_bits(const View& view) {
  int64_t span = 0;
  for (int d = 0; d < view.rank; ++d) {
    if (view.dims[d] > INT32_MAX || view.strides[d] > INT32_MAX || view.strides[d] < 0) return false;
    span += max(view.dims[d] - 1, int64_t{0}) * view.strides[d];
    if (span > INT32_MAX) return false;
  }
  return true;
}

struct Strips {
  Images<const float> x;
  int height, width, top, left, kernel_height;
  int inputs;             // channels of x that a block keeps
  int rows, columns;      // of windows
  int count, rows_each;   // strips of an image; rows of windows in each, 0 where not even one fits
  int all;                // strips of all images
  int input_rows, pitch;  // of a strip in shared memory

  // Strips of up to most_rows rows of windows, but fewer if multiprocessors would be idle although each strip has `blocks` blocks; all equal.
  Strips(const ConvParams& p, const View& image, const View& windows, int64_t height_of_kernel, int64_t channels, int64_t numbers_of_row,
         int64_t most_rows, int64_t blocks)
      : x(image),
        height(static_cast<int>(image.dims[2])),
        width(static_cast<int>(image.dims[3])),
        top(p.padding[0]),
        left(p.padding[2]),
        kernel_height(static_cast<int>(height_of_kernel)),
        inputs(static_cast<int>(channels)),
        rows(static_cast<int>(windows.dims[2])),
        columns(static_cast<int>(windows.dims[3])),
        pitch(static_cast<int>(numbers_of_row)) {
    const auto strips_of = [&](int64_t each) { return ceil_divide(rows, each); };
    const auto fits = [&](int64_t each) { return inputs * input_of(each) * pitch <= kStripRoom; };
    int64_t most = max(int64_t{1}, min(int64_t{rows}, most_rows));
    while (most > 1 && (!fits(most) || image.dims[0] * strips_of(most) * blocks < kLeastStripBlocks)) --most;
    count = static_cast<int>(strips_of(most));
    rows_each = fits(most) ? static_cast<int>(ceil_divide(rows, max(count, 1))) : 0;
    input_rows = static_cast<int>(input_of(rows_each));
    all = static_cast<int>(image.dims[0]) * count;
  }
  constexpr int64_t input_of(int64_t window_rows) const { return 2 * window_rows + kernel_height - 1; }
};

static __device__ inline float* strip_room() {  // [input channel, row, column]
  __shared__ Vector<float> room[kStripRoom / Vector<float>::kLanes];
  return reinterpret_cast<float*>(room);
}

// Without waiting for it: __pipeline_commit and __pipeline_wait_prior come before a barrier.
__device__ inline void copy_async(float* to, const float* from, bool there) {
  if (there) __pipeline_memcpy_async(to, from, sizeof(float));
  else *to = 0;
}

// Image n's numbers under the windows of a strip, from input channel first_channel on, zeros beside the image. A warp a row.
// Static like its room, of which each file has its own.
static __device__ inline void take_strip(const Strips& strips, int n, int first_channel, int first_row) {
  float* to = strip_room() + warp_of_block() * strips.pitch;
  const int warps = static_cast<int>(blockDim.x / kWarp);
  int c = 0;
#pragma unroll 1
  for (int line = warp_of_block();; line += warps, to += warps * strips.pitch) {
    for (; line >= strips.input_rows; line -= strips.input_rows) ++c;
    if (c >= strips.inputs) return;
    const int row = 2 * first_row - strips.top + line;
#pragma unroll 1
    for (int i = lane_of_warp(); i < strips.pitch; i += kWarp) {
      const int column = i - strips.left;
      const bool there = static_cast<unsigned>(row) < static_cast<unsigned>(strips.height) &&
                         static_cast<unsigned>(column) < static_cast<unsigned>(strips.width);
      copy_async(to + i, strips.x.at(n, first_channel + c, row, column), there);
    }
  }
}

// The reason why kernels of strips cannot take the call, or null.
inline const char* decline_strips(const ConvParams& p, int64_t kernel_width) {
  if (p.groups != 1 || p.stride[0] != 1 || p.stride[1] != 1 || p.dilation[0] != 1 || p.dilation[1] != 1)
    return "only in one group, at stride 1 and without dilation";
  if (p.pool[0] != 2 || p.pool[1] != 2) return "only with windows of 2 x 2";
  if (kernel_width != 3 && kernel_width != 5) return "only with kernels three or five wide";
  return nullptr;
}

}  // namespace perigee
