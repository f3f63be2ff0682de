// How convolutions and their gradients find the elements of their sums (tile.cuh). Pixels are counted n, row, column; taps kernel row, kernel
// column, channel, so that with channels last neighbours in k are neighbours in memory.
#pragma once

#include "kernels/cuda/product/matrix.cuh"
#include "kernels/ops/conv.h"

namespace perigee {

struct Pixel {
  int64_t n;
  int row, column;
};

// Pixel number i of images of rows x columns.
__device__ inline Pixel pixel_at(int64_t i, int64_t rows, int64_t columns, int64_t most) {
  const int64_t line = divide(i, columns, most), n = divide(line, rows, most);
  return {n, static_cast<int>(line - n * rows), static_cast<int>(i - line * columns)};
}

struct Tap {
  int row, column;  // where it lies relative to the window's first
  int64_t channel;
};

// The convolution as the loops see it.
struct ConvLoops {
  ConvParams p;
  int64_t images = 0, height = 0, width = 0;  // of x
  int64_t rows = 0, columns = 0;              // of the convolution's result, or of the windows that are kept when it is pooled
  int64_t inputs = 0, outputs = 0;            // channels of one group
  int64_t kernel_height = 0, kernel_width = 0;

  // Without pooling, or when pooled is the result of pooling.
  ConvLoops(const ConvParams& params, const View& x, const View& w, const View& y)
      : p(params),
        images(x.dims[0]),
        height(x.dims[2]),
        width(x.dims[3]),
        rows(y.dims[2]),
        columns(y.dims[3]),
        inputs(w.dims[1]),
        outputs(w.dims[0] / params.groups),
        kernel_height(w.dims[2]),
        kernel_width(w.dims[3]) {}

  constexpr int64_t pixels() const { return images * rows * columns; }
  constexpr int64_t taps() const { return kernel_height * kernel_width; }

  __device__ Tap tap_at(int64_t k, int64_t channels) const {
    const auto tap = static_cast<int>(divide(k, channels, INT32_MAX)), width_of = static_cast<int>(kernel_width);
    return {tap / width_of * p.dilation[0], tap % width_of * p.dilation[1], k - tap * channels};
  }
};

// Elements of x under the windows. Lines are output pixels, k are taps. Pooled, a batch is a group and a place in the pooling window, and lines
// are windows.
struct PatchLoader {
  struct Line {
    int64_t offset;
    int row, column;
  };
  using Place = Line;
  using Read = uint32_t;

  ConvLoops shape;
  Elements x;
  int64_t strides[4];

  PatchLoader(const ConvLoops& conv, const View& view) : shape(conv), x(view) {
    for (int d = 0; d < 4; ++d) strides[d] = view.strides[d];
  }
  bool along_k() const { return shape.inputs > 1 && strides[1] == 1; }

  __device__ Line line(int64_t i, int64_t batch) const {
    const ConvParams& p = shape.p;
    Pixel pixel = pixel_at(i, shape.rows, shape.columns, shape.images * shape.rows * shape.columns);
    const int windows = p.pool[0] * p.pool[1], place = static_cast<int>(batch) % windows;
    const int64_t group = batch / windows;
    pixel.row = (pixel.row * p.pool[0] + place / p.pool[1]) * p.stride[0] - p.padding[0];
    pixel.column = (pixel.column * p.pool[1] + place % p.pool[1]) * p.stride[1] - p.padding[2];
    return {pixel.n * strides[0] + group * shape.inputs * strides[1] + pixel.row * strides[2] + pixel.column * strides[3], pixel.row,
            pixel.column};
  }
  __device__ Place place(int64_t k) const {
    const Tap tap = shape.tap_at(k, shape.inputs);
    return {tap.channel * strides[1] + tap.row * strides[2] + tap.column * strides[3], tap.row, tap.column};
  }
  __device__ Read read(const Line& line, const Place& place) const {
    const auto row = static_cast<uint32_t>(line.row + place.row), column = static_cast<uint32_t>(line.column + place.column);
    return row < shape.height && column < shape.width ? bits_of(x, line.offset + place.offset) : 0;  // negative is beyond, too
  }
  __device__ float number(Read read) const { return number_of(x, read); }
};

// The gradient of the convolution's result at (n, o, row, column).
struct PlainSource {
  using Place = int64_t;
  using Read = uint32_t;
  Elements dy;
  int64_t strides[4];

  explicit PlainSource(const View& view) : dy(view) {
    for (int d = 0; d < 4; ++d) strides[d] = view.strides[d];
  }
  bool channels_first() const { return strides[1] != 1; }
  __device__ Place place(const Pixel& at) const { return at.n * strides[0] + at.row * strides[2] + at.column * strides[3]; }
  __device__ Read read(Place place, int64_t o) const { return bits_of(dy, place + o * strides[1]); }
  __device__ float number(Read read) const { return number_of(dy, read); }
  __device__ float at(Place place, int64_t o) const { return number(read(place, o)); }
};

// The same behind max-pooling and relu, where there is pooling: only the largest of a window has one.
struct PooledSource {
  struct Place {
    int64_t dy, y, argmax;
    int in_window;  // negative where no window is
  };
  struct Read {
    uint32_t dy, y;
    int chosen, in_window;
  };
  PlainSource dy, y, argmax;
  int rows = 0, columns = 0, pool[2] = {1, 1};
  bool relu = false;

  explicit PooledSource(const View& dy_view) : dy(dy_view), y(View()), argmax(View()) {}
  PooledSource(const ConvParams& p, const View& dy_view, const View& y_view, const View& argmax_view)
      : dy(dy_view),
        y(y_view),
        argmax(argmax_view),
        rows(static_cast<int>(dy_view.dims[2])),
        columns(static_cast<int>(dy_view.dims[3])),
        pool{p.pool[0], p.pool[1]},
        relu(p.relu != 0) {}
  bool channels_first() const { return dy.channels_first(); }
  __device__ bool pooled() const { return argmax.dy.data != nullptr; }
  __device__ Place place(const Pixel& at) const {
    if (!pooled()) return {dy.place(at), 0, 0, 0};
    const Pixel window = {at.n, at.row / pool[0], at.column / pool[1]};
    if (window.row >= rows || window.column >= columns) return {0, 0, 0, -1};
    return {dy.place(window), y.place(window), argmax.place(window),
            (at.row - window.row * pool[0]) * pool[1] + at.column - window.column * pool[1]};
  }
  // All three, so that none waits for another.
  __device__ Read read(const Place& place, int64_t o) const {
    if (place.in_window < 0) return {};
    const int chosen = pooled() ? static_cast<const uint8_t*>(argmax.dy.data)[place.argmax + o * argmax.strides[1]] : 0;
    return {dy.read(place.dy, o), relu ? y.read(place.y, o) : 0, chosen, place.in_window};
  }
  __device__ float number(const Read& read) const {
    const bool flows = read.chosen == read.in_window && (!relu || y.number(read.y) > 0);
    return flows ? dy.number(read.dy) : 0.0f;
  }
};

// The channels, or the pixels, of an image as rows or columns of a result; groups as batches.
inline Index pixel_index(const View& image) {
  Index index;
  for (const int d : {0, 2, 3}) index.add(image.dims[d], image.strides[d]);
  return index;
}

inline Index stride_index(int64_t n, int64_t stride) {
  Index index;
  index.add(n, stride);
  return index;
}

// Taps of w with the channel that varies fastest in dimension `channel`.
inline Index tap_index(const View& w, int channel, int64_t channels) {
  Index index;
  index.add(w.dims[2], w.strides[2]);
  index.add(w.dims[3], w.strides[3]);
  index.add(channels, w.strides[channel]);
  return index;
}

// `shape` has the size of the convolution's own result, pooled or not, and no pooling.
void run_grad_input(Launches& on, const KernelCall& call, const ConvLoops& shape, const PooledSource& source, const View& w, int64_t rows,
                    int64_t columns);

inline size_t grad_input_scratch(const ConvLoops& shape) {
  return tile_scratch<float>(shape.images * shape.height * shape.width, shape.inputs, shape.taps() * shape.outputs, shape.p.groups);
}

}  // namespace perigee
