// Convolution and its gradients as sums of products (tile.cuh) over patches that are never written out: for machines without cuDNN, and for
// any strides. 2 N OH OW O (C/G) kh kw operations each.
#include "kernels/cuda/conv/conv_loaders.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

// The same with lines and k changed round: lines are taps, k are output pixels.
struct TurnedPatchLoader {
  using Line = PatchLoader::Place;
  using Place = PatchLoader::Line;
  using Read = PatchLoader::Read;
  PatchLoader patch;
  bool along_k() const { return !patch.along_k(); }
  __device__ Line line(int64_t i, int64_t batch) const {
    Line line = patch.place(i);
    line.offset += batch * patch.shape.inputs * patch.strides[1];
    return line;
  }
  __device__ Place place(int64_t k) const { return patch.line(k, 0); }
  __device__ Read read(const Line& line, const Place& place) const { return patch.read(place, line); }
  __device__ float number(Read read) const { return patch.number(read); }
};

// For the gradient of x: lines are pixels of x, k are taps with an output channel each.
struct SpreadLoader {
  using Line = Pixel;
  using Place = Tap;
  using Read = PooledSource::Read;
  ConvLoops shape;
  PooledSource source;
  int64_t rows, columns;  // of the convolution's result

  bool along_k() const { return !source.channels_first() && shape.outputs > 1; }
  __device__ Line line(int64_t i, int64_t batch) const {
    Pixel pixel = pixel_at(i, shape.height, shape.width, shape.images * shape.height * shape.width);
    pixel.row += shape.p.padding[0], pixel.column += shape.p.padding[2];
    pixel.n += batch * shape.images;  // the group, until at() takes it out again
    return pixel;
  }
  __device__ Place place(int64_t k) const { return shape.tap_at(k, shape.outputs); }
  __device__ float number(const Read& read) const { return source.number(read); }
  __device__ Read read(const Line& line, const Place& place) const {
    const ConvParams& p = shape.p;
    int row = line.row - place.row, column = line.column - place.column;
    if (row < 0 || column < 0) return {};
    if (p.stride[0] != 1 || p.stride[1] != 1) {
      if (row % p.stride[0] != 0 || column % p.stride[1] != 0) return {};
      row /= p.stride[0], column /= p.stride[1];
    }
    if (row >= rows || column >= columns) return {};
    int64_t n = line.n, o = place.channel;
    if (p.groups > 1) {
      const int64_t group = divide(n, shape.images, INT32_MAX);
      n -= group * shape.images, o += group * shape.outputs;
    }
    return source.read(source.place({n, row, column}), o);
  }
};

// For the gradient of w: lines are output channels, k are output pixels.
struct ChannelLoader {
  using Line = int64_t;
  using Place = PlainSource::Place;
  using Read = PlainSource::Read;
  ConvLoops shape;
  PlainSource source;

  bool along_k() const { return source.channels_first(); }
  __device__ Line line(int64_t i, int64_t batch) const { return i + batch * shape.outputs; }
  __device__ Place place(int64_t k) const {
    return source.place(pixel_at(k, shape.rows, shape.columns, shape.images * shape.rows * shape.columns));
  }
  __device__ Read read(Line line, const Place& place) const { return source.read(place, line); }
  __device__ float number(const Read& read) const { return source.number(read); }
};

// None of these pools, whatever the params say of it.
ConvLoops shape_of(const KernelCall& call, const View& x, const View& w, const View& y) {
  ConvLoops shape(call.as<ConvParams>(), x, w, y);
  shape.p.pool[0] = shape.p.pool[1] = 1;
  return shape;
}

ConvLoops forward_shape(const KernelCall& call) { return shape_of(call, call.in[0], call.in[1], call.out[0]); }
ConvLoops grad_input_shape(const KernelCall& call) { return shape_of(call, call.out[0], call.in[1], call.in[0]); }
ConvLoops grad_weight_shape(const KernelCall& call) { return shape_of(call, call.in[1], call.out[0], call.in[0]); }

void conv2d(const KernelCall& call) {
  const View &x = call.in[0], &w = call.in[1], &y = call.out[0];
  const ConvLoops shape = forward_shape(call);
  const int64_t groups = shape.p.groups;
  const MatrixLoader<float> weights{.of = Elements(w),
                                    .lines = stride_index(shape.outputs, w.strides[0]),
                                    .depth = tap_index(w, 1, shape.inputs),
                                    .batches = stride_index(groups, shape.outputs * w.strides[0])};
  MatrixResult<float> result{.to = Elements(y),
                             .rows = pixel_index(y),
                             .columns = stride_index(shape.outputs, y.strides[1]),
                             .batches = stride_index(groups, shape.outputs * y.strides[1]),
                             .relu = shape.p.relu != 0};
  if (call.n_in > 2 && call.in[2].data != nullptr) {
    result.bias = Elements(call.in[2]);
    result.bias_stride = call.in[2].strides[0];
    result.bias_batch = shape.outputs * result.bias_stride;
  }
  Launches on(*call.queue, "conv2d");
  run_tiles<float>(on, PatchLoader(shape, x), weights, result, shape.pixels(), shape.outputs, shape.taps() * shape.inputs, groups,
                   call.scratch);
}

void conv2d_grad_input(const KernelCall& call) {
  const View& dy = call.in[0];
  Launches on(*call.queue, "conv2d_grad_input");
  run_grad_input(on, call, grad_input_shape(call), PooledSource(dy), call.in[1], dy.dims[2], dy.dims[3]);
}

void conv2d_grad_weight(const KernelCall& call) {
  const View &x = call.in[1], &dw = call.out[0];
  const ConvLoops shape = grad_weight_shape(call);
  const int64_t groups = shape.p.groups;
  const MatrixResult<float> result{.to = Elements(dw),
                                   .rows = stride_index(shape.outputs, dw.strides[0]),
                                   .columns = tap_index(dw, 1, shape.inputs),
                                   .batches = stride_index(groups, shape.outputs * dw.strides[0]),
                                   .accumulate = call.accumulate};
  Launches on(*call.queue, "conv2d_grad_weight");
  run_tiles<float>(on, ChannelLoader{shape, PlainSource(call.in[0])}, TurnedPatchLoader{PatchLoader(shape, x)}, result, shape.outputs,
                   shape.taps() * shape.inputs, shape.pixels(), groups, call.scratch);
}

size_t scratch_forward(const KernelCall& call) {
  const ConvLoops shape = forward_shape(call);
  return tile_scratch<float>(shape.pixels(), shape.outputs, shape.taps() * shape.inputs, shape.p.groups);
}
size_t scratch_grad_input(const KernelCall& call) { return grad_input_scratch(grad_input_shape(call)); }
size_t scratch_grad_weight(const KernelCall& call) {
  const ConvLoops shape = grad_weight_shape(call);
  return tile_scratch<float>(shape.outputs, shape.taps() * shape.inputs, shape.pixels(), shape.p.groups);
}

constexpr Kernel kernel(const char* op, void (*run)(const KernelCall&), size_t (*scratch)(const KernelCall&), bool accumulates) {
  return {.op = op,
          .name = "tiles",
          .backend = Backend::cuda,
          .decline = decline_unless_f32,
          .run = run,
          .scratch_bytes = scratch,
          .accumulates = accumulates};
}

const Kernel kKernels[] = {
    kernel("conv2d", conv2d, scratch_forward, false),
    kernel("conv2d_grad_input", conv2d_grad_input, scratch_grad_input, true),
    kernel("conv2d_grad_weight", conv2d_grad_weight, scratch_grad_weight, true),
};

}  // namespace

void run_grad_input(Launches& on, const KernelCall& call, const ConvLoops& shape, const PooledSource& source, const View& w, int64_t rows,
                    int64_t columns) {
  const View& dx = call.out[0];
  const int64_t groups = shape.p.groups;
  const SpreadLoader left{shape, source, rows, columns};
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

extern const KernelList kernels_cuda_conv;
const KernelList kernels_cuda_conv = kernel_list(kKernels);

}  // namespace perigee
