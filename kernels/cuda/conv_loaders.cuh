// How convolutions and their gradients find the elements of their sums (tile.cuh). Pixels are counted n, row, column; taps kernel row, kernel
// column, channel, so that with channels last neighbours in k are neighbours in memory.
#pragma once

#include "kernels/cuda/matrix.cuh"
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

// What the loops know of a convolution.
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
  __device__ float at(const Line& line, const Place& place) const {
    const int row = line.row + place.row, column = line.column + place.column;
    const bool inside = row >= 0 && row < shape.height && column >= 0 && column < shape.width;
    return inside ? x.load<float>(line.offset + place.offset) : 0.0f;
  }
};

// The same with lines and k changed round: lines are taps, k are output pixels.
struct TurnedPatchLoader {
  using Line = PatchLoader::Place;
  using Place = PatchLoader::Line;
  PatchLoader patch;
  bool along_k() const { return !patch.along_k(); }
  __device__ Line line(int64_t i, int64_t batch) const {
    Line line = patch.place(i);
    line.offset += batch * patch.shape.inputs * patch.strides[1];
    return line;
  }
  __device__ Place place(int64_t k) const { return patch.line(k, 0); }
  __device__ float at(const Line& line, const Place& place) const { return patch.at(place, line); }
};

// The gradient of the convolution's result at (n, o, row, column).
struct PlainSource {
  Elements dy;
  int64_t strides[4];

  explicit PlainSource(const View& view) : dy(view) {
    for (int d = 0; d < 4; ++d) strides[d] = view.strides[d];
  }
  bool channels_first() const { return strides[1] != 1; }
  __device__ float at(int64_t n, int64_t o, int64_t row, int64_t column) const {
    return dy.load<float>(n * strides[0] + o * strides[1] + row * strides[2] + column * strides[3]);
  }
};

// The same behind max-pooling and relu: only the largest of a window has one.
struct PooledSource {
  PlainSource dy, y, argmax;
  int64_t rows, columns;
  int pool[2];
  bool relu;

  PooledSource(const ConvParams& p, const View& dy_view, const View& y_view, const View& argmax_view)
      : dy(dy_view),
        y(y_view),
        argmax(argmax_view),
        rows(dy_view.dims[2]),
        columns(dy_view.dims[3]),
        pool{p.pool[0], p.pool[1]},
        relu(p.relu != 0) {}
  bool channels_first() const { return dy.channels_first(); }
  __device__ float at(int64_t n, int64_t o, int64_t row, int64_t column) const {
    const int i = static_cast<int>(row) / pool[0], j = static_cast<int>(column) / pool[1];
    if (i >= rows || j >= columns) return 0;
    const int place = (static_cast<int>(row) - i * pool[0]) * pool[1] + static_cast<int>(column) - j * pool[1];
    const int64_t chosen =
        argmax.dy.load<int64_t>(n * argmax.strides[0] + o * argmax.strides[1] + i * argmax.strides[2] + j * argmax.strides[3]);
    return chosen != place || (relu && !(y.at(n, o, i, j) > 0)) ? 0.0f : dy.at(n, o, i, j);
  }
};

// For the gradient of x: lines are pixels of x, k are taps with an output channel each.
template <class Source>
struct SpreadLoader {
  using Line = Pixel;
  using Place = Tap;
  ConvLoops shape;
  Source source;
  int64_t rows, columns;  // of the convolution's result

  bool along_k() const { return !source.channels_first() && shape.outputs > 1; }
  __device__ Line line(int64_t i, int64_t batch) const {
    Pixel pixel = pixel_at(i, shape.height, shape.width, shape.images * shape.height * shape.width);
    pixel.row += shape.p.padding[0], pixel.column += shape.p.padding[2];
    pixel.n += batch * shape.images;  // the group, until at() takes it out again
    return pixel;
  }
  __device__ Place place(int64_t k) const { return shape.tap_at(k, shape.outputs); }
  __device__ float at(const Line& line, const Place& place) const {
    const ConvParams& p = shape.p;
    int row = line.row - place.row, column = line.column - place.column;
    if (row < 0 || column < 0) return 0;
    if (p.stride[0] != 1 || p.stride[1] != 1) {
      if (row % p.stride[0] != 0 || column % p.stride[1] != 0) return 0;
      row /= p.stride[0], column /= p.stride[1];
    }
    if (row >= rows || column >= columns) return 0;
    int64_t n = line.n, o = place.channel;
    if (p.groups > 1) {
      const int64_t group = divide(n, shape.images, INT32_MAX);
      n -= group * shape.images, o += group * shape.outputs;
    }
    return source.at(n, o, row, column);
  }
};

// For the gradient of w: lines are output channels, k are output pixels.
template <class Source>
struct ChannelLoader {
  using Line = int64_t;
  using Place = Pixel;
  ConvLoops shape;
  Source source;

  bool along_k() const { return source.channels_first(); }
  __device__ Line line(int64_t i, int64_t batch) const { return i + batch * shape.outputs; }
  __device__ Place place(int64_t k) const { return pixel_at(k, shape.rows, shape.columns, shape.images * shape.rows * shape.columns); }
  __device__ float at(const Line& line, const Place& place) const { return source.at(place.n, line, place.row, place.column); }
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

template <class Source>
void run_grad_input(Launches& on, const KernelCall& call, const ConvLoops& shape, const Source& source, const View& w, int64_t rows,
                    int64_t columns) {
  const View& dx = call.out[0];
  const int64_t groups = shape.p.groups;
  const SpreadLoader<Source> left{shape, source, rows, columns};
  const MatrixLoader<float> right{.of = Elements(w),
                                  .lines = stride_index(shape.inputs, w.strides[1]),
                                  .depth = tap_index(w, 0, shape.outputs),
                                  .batches = stride_index(groups, shape.outputs * w.strides[0])};
  const MatrixResult<float> result{.to = Elements(dx),
                                   .rows = pixel_index(dx),
                                   .columns = stride_index(shape.inputs, dx.strides[1]),
                                   .batches = stride_index(groups, shape.inputs * dx.strides[1]),
                                   .accumulate = call.accumulate};
  run_tiles<float>(on, left, right, result, result.rows.n, shape.inputs, shape.taps() * shape.outputs, groups, call.scratch);
}

inline size_t grad_input_scratch(const ConvLoops& shape) {
  return tile_scratch<float>(shape.images * shape.height * shape.width, shape.inputs, shape.taps() * shape.outputs, shape.p.groups);
}

// `shape` has the size of the convolution's own result here, pooled or not, and no pooling.
template <class Source>
void run_grad_weight(Launches& on, const KernelCall& call, const ConvLoops& shape, const Source& source, const View& x) {
  const View& dw = call.out[0];
  const int64_t groups = shape.p.groups;
  const MatrixResult<float> result{.to = Elements(dw),
                                   .rows = stride_index(shape.outputs, dw.strides[0]),
                                   .columns = tap_index(dw, 1, shape.inputs),
                                   .batches = stride_index(groups, shape.outputs * dw.strides[0]),
                                   .accumulate = call.accumulate};
  run_tiles<float>(on, ChannelLoader<Source>{shape, source}, TurnedPatchLoader{PatchLoader(shape, x)}, result, shape.outputs,
                   shape.taps() * shape.inputs, shape.pixels(), groups, call.scratch);
}

inline size_t grad_weight_scratch(const ConvLoops& shape) {
  return tile_scratch<float>(shape.outputs, shape.taps() * shape.inputs, shape.pixels(), shape.p.groups);
}

}  // namespace perigee
