// Convolution, bias, relu and max-pooling in one kernel, so that nothing of the convolution's own size is ever written: a block makes the sums
// of its windows' first places, then of their second ones, and keeps the largest in registers. The gradients are those of the convolution
// with a source that is zero but at each window's largest element (conv_loaders.cuh).
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/conv_loaders.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr int kSide = 4;

struct PooledResult {
  MatrixResult<float> y;  // with bias and relu
  Elements argmax;
  Index rows, columns, batches;  // of argmax
};

// A batch is a group; the loaders' batches are (group, place in the window).
__global__ void __launch_bounds__(kTileThreads)
    conv_pool_kernel(const __grid_constant__ PatchLoader a, const __grid_constant__ MatrixLoader<float> b,
                     const __grid_constant__ PooledResult out, TileShape shape, int windows, bool a_along_k, bool b_along_k) {
  const TilePlace place(shape);
  const int64_t row = place.row_tile * kTileSide * kSide, column = place.column_tile * kTileSide * kSide;
  float best[kSide][kSide] = {};
  int where[kSide][kSide] = {};
#pragma unroll 1
  for (int q = 0; q < windows; ++q) {
    float sum[kSide][kSide];
    __syncthreads();  // the tiles of the place before are still read
    tile_sums<float, kSide, kSide>(a, b, shape, a_along_k, b_along_k, place.batch * windows + q, row, column, 0, shape.depth, sum);
    for (int i = 0; i < kSide; ++i)
      for (int j = 0; j < kSide; ++j) {
        const float x = sum[i][j];
        // The first of the largest; NaN wins, so that it is seen.
        const bool keep = q > 0 && (best[i][j] != best[i][j] || (!(x > best[i][j]) && x == x));
        if (!keep) best[i][j] = x, where[i][j] = q;
      }
  }
  const auto inside = [&](int i, int j) { return row + i < shape.rows && column + j < shape.columns; };
  spread_tile(best, [&](int i, int j, float value) {
    if (inside(i, j)) out.y(place.batch, row + i, column + j, value);
  });
  spread_tile(where, [&](int i, int j, int value) {
    if (!inside(i, j)) return;
    out.argmax.store<int64_t>(out.batches.offset(place.batch) + out.rows.offset(row + i) + out.columns.offset(column + j), value);
  });
}

void conv2d_pool(const KernelCall& call) {
  const View &x = call.in[0], &w = call.in[1], &y = call.out[0], &argmax = call.out[1];
  const ConvLoops shape(call.as<ConvParams>(), x, w, y);
  const int64_t groups = shape.p.groups, windows = int64_t{shape.p.pool[0]} * shape.p.pool[1];
  MatrixLoader<float> weights{
      .of = Elements(w), .lines = stride_index(shape.outputs, w.strides[0]), .depth = tap_index(w, 1, shape.inputs)};
  weights.batches.add(groups, shape.outputs * w.strides[0]);
  weights.batches.add(windows, 0);
  PooledResult result{.y = {.to = Elements(y),
                            .rows = pixel_index(y),
                            .columns = stride_index(shape.outputs, y.strides[1]),
                            .batches = stride_index(groups, shape.outputs * y.strides[1]),
                            .relu = shape.p.relu != 0},
                      .argmax = Elements(argmax),
                      .rows = pixel_index(argmax),
                      .columns = stride_index(shape.outputs, argmax.strides[1]),
                      .batches = stride_index(groups, shape.outputs * argmax.strides[1])};
  if (call.n_in > 2 && call.in[2].data != nullptr) {
    result.y.bias = Elements(call.in[2]);
    result.y.bias_stride = call.in[2].strides[0];
    result.y.bias_batch = shape.outputs * result.y.bias_stride;
  }
  const PatchLoader patches(shape, x);
  const TileShape tiles = tile_shape(shape.pixels(), shape.outputs, shape.taps() * shape.inputs, groups, kSide, false);
  Launches on(*call.queue, "conv2d_pool");
  on.launch(conv_pool_kernel, tiles.blocks(), kTileThreads, patches, weights, result, tiles, static_cast<int>(windows), patches.along_k(),
            weights.along_k());
}

// A convolution of which these are the gradients, as large as it was before pooling dropped rows and columns.
ConvLoops gradient_shape(const KernelCall& call, const View& x, const View& w) {
  ConvLoops shape(call.as<ConvParams>(), x, w, call.in[0]);
  shape.rows *= shape.p.pool[0], shape.columns *= shape.p.pool[1];
  shape.p.pool[0] = shape.p.pool[1] = 1;
  return shape;
}

PooledSource source_of(const KernelCall& call) { return {call.as<ConvParams>(), call.in[0], call.in[1], call.in[2]}; }

void conv2d_pool_grad_input(const KernelCall& call) {
  const ConvLoops shape = gradient_shape(call, call.out[0], call.in[3]);
  Launches on(*call.queue, "conv2d_pool_grad_input");
  run_grad_input(on, call, shape, source_of(call), call.in[3], shape.rows, shape.columns);
}

void conv2d_pool_grad_weight(const KernelCall& call) {
  Launches on(*call.queue, "conv2d_pool_grad_weight");
  run_grad_weight(on, call, gradient_shape(call, call.in[3], call.out[0]), source_of(call), call.in[3]);
}

size_t scratch_grad_input(const KernelCall& call) { return grad_input_scratch(gradient_shape(call, call.out[0], call.in[3])); }
size_t scratch_grad_weight(const KernelCall& call) { return grad_weight_scratch(gradient_shape(call, call.in[3], call.out[0])); }

// Column sums of dy where y > 0.
struct BiasTerm {
  PlainSource dy, y;
  int64_t rows, columns, pixels;
  bool relu;
  __device__ void operator()(int64_t i, int64_t o, float (&sum)[1]) const {
    const Pixel pixel = pixel_at(i, rows, columns, pixels);
    if (!relu || y.at(pixel.n, o, pixel.row, pixel.column) > 0) sum[0] += dy.at(pixel.n, o, pixel.row, pixel.column);
  }
};

struct BiasResult {
  Elements db;
  int64_t stride;
  bool accumulate;
  __device__ void operator()(int64_t o, const float (&sum)[1]) const { db.put<float>(o * stride, sum[0], accumulate); }
};

int64_t pixels_of(const View& dy) { return dy.dims[0] * dy.dims[2] * dy.dims[3]; }

void conv2d_pool_grad_bias(const KernelCall& call) {
  const View &dy = call.in[0], &y = call.in[1], &db = call.out[0];
  const BiasTerm term{PlainSource(dy), PlainSource(y), dy.dims[2], dy.dims[3], pixels_of(dy), call.as<ConvParams>().relu != 0};
  Launches on(*call.queue, "conv2d_pool_grad_bias");
  sum_columns<float, 1>(on, term, BiasResult{Elements(db), db.strides[0], call.accumulate}, pixels_of(dy), dy.dims[1], call.scratch);
}

size_t scratch_grad_bias(const KernelCall& call) { return columns_scratch<float, 1>(pixels_of(call.in[0]), call.in[0].dims[1]); }

constexpr Kernel kernel(const char* op, void (*run)(const KernelCall&), size_t (*scratch)(const KernelCall&)) {
  return {.op = op,
          .name = "tiles",
          .backend = Backend::cuda,
          .decline = decline_unless_f32,
          .run = run,
          .scratch_bytes = scratch,
          .accumulates = scratch != nullptr};
}

const Kernel kKernels[] = {
    kernel("conv2d_pool", conv2d_pool, nullptr),
    kernel("conv2d_pool_grad_input", conv2d_pool_grad_input, scratch_grad_input),
    kernel("conv2d_pool_grad_weight", conv2d_pool_grad_weight, scratch_grad_weight),
    kernel("conv2d_pool_grad_bias", conv2d_pool_grad_bias, scratch_grad_bias),
};

}  // namespace

extern const KernelList kernels_cuda_conv_pool;
const KernelList kernels_cuda_conv_pool = kernel_list(kKernels);

}  // namespace perigee
