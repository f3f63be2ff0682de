// Convolution, bias, relu and max-pooling in one kernel, so that nothing of the convolution's own size is ever written: a thread makes the
// sums of four places of one window and keeps the largest. The gradients are those of the convolution with a source that is zero but at
// each window's largest element (conv_loaders.cuh). That of x has two forms: sums over the taps that reach a pixel, or, where there is
// room, the product of each pixel's gradients with all taps, which a second kernel adds up where they fall: no tap that a stride passes
// over is multiplied, and nothing is looked up twice.
#include "kernels/cuda/conv/conv_loaders.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr int kSide = 4;
constexpr size_t kMostProducts = size_t{64} << 20;  // bytes: about what L2 holds

// Lines are places in windows, in fours; behind a window's last place comes that again. A batch is a group and four of the window's places.
struct WindowLoader {
  using Line = PatchLoader::Line;
  using Place = PatchLoader::Place;
  using Read = PatchLoader::Read;
  PatchLoader patch;
  int places, rounds;  // of a window

  bool along_k() const { return patch.along_k(); }
  __device__ Line line(int64_t i, int64_t batch) const {
    const int64_t group = divide(batch, rounds, INT32_MAX), first = (batch - group * rounds) * kSide;
    return patch.line(i / kSide, group * places + min(first + i % kSide, int64_t{places} - 1));
  }
  __device__ Place place(int64_t k) const { return patch.place(k); }
  __device__ Read read(const Line& line, const Place& place) const { return patch.read(line, place); }
  __device__ float number(Read read) const { return patch.number(read); }
};

struct PooledResult {
  MatrixResult<float> y;  // with bias and relu
  uint8_t* argmax;
  Index rows, columns, batches;  // of argmax
};

__global__ void __launch_bounds__(kTileThreads, 2)
    conv_pool_kernel(const __grid_constant__ WindowLoader a, const __grid_constant__ MatrixLoader<float> b,
                     const __grid_constant__ PooledResult out, TileShape shape, float* parts, uint32_t* counters, bool a_along_k,
                     bool b_along_k) {
  begin_kernel();
  const TilePlace place(shape);
  const int64_t row = place.row_tile * kTileSide * kSide, column = place.column_tile * kTileSide * kSide;
  const int64_t begin = place.part * shape.part_depth, end = min(begin + shape.part_depth, shape.depth);
  float best[kSide] = {};
  int where[kSide] = {};
#pragma unroll 1
  for (int round = 0; round < a.rounds; ++round) {
    float sum[kSide][kSide];
    __syncthreads();  // the tiles of the round before are still read
    tile_sums<float, kSide, kSide>(a, b, shape, a_along_k, b_along_k, place.batch * a.rounds + round, row, column, begin, end, sum);
    if (shape.parts > 1 && !join_parts(shape, place, parts, counters, sum)) return;
    for (int i = 0; i < kSide; ++i)
      for (int j = 0; j < kSide; ++j) {
        const float x = sum[i][j];
        // The first of the largest; NaN wins, so that it is seen.
        const bool keep = round + i > 0 && (best[j] != best[j] || (!(x > best[j]) && x == x));
        if (!keep) best[j] = x, where[j] = round * kSide + i;
      }
  }
  // By way of the shared memory, so that neighbouring threads write neighbouring channels.
  constexpr int kWidth = kTileSide * kSide, kAll = kTileSide * kWidth;
  auto* const values = reinterpret_cast<float*>(tile_room());
  auto* const places = reinterpret_cast<int*>(values + kAll);
  __syncthreads();  // the last tiles are still read
  for (int j = 0; j < kSide; ++j) values[threadIdx.x * kSide + j] = best[j], places[threadIdx.x * kSide + j] = where[j];
  __syncthreads();
#pragma unroll 1
  for (int e = static_cast<int>(threadIdx.x); e < kAll; e += kTileThreads) {
    const int64_t window = row / kSide + e / kWidth, channel = column + e % kWidth;
    if (window * kSide >= shape.rows || channel >= shape.columns) continue;
    out.y(place.batch, window, channel, values[e]);
    out.argmax[out.batches.offset(place.batch) + out.rows.offset(window) + out.columns.offset(channel)] = static_cast<uint8_t>(places[e]);
  }
}

struct PoolSizes {
  int64_t lines, depth;
  int places, rounds;
  explicit PoolSizes(const ConvLoops& shape)
      : lines(shape.pixels() * kSide),
        depth(shape.taps() * shape.inputs),
        places(shape.p.pool[0] * shape.p.pool[1]),
        rounds(static_cast<int>(ceil_divide(places, kSide))) {}
};

ConvLoops forward_shape(const KernelCall& call) { return {call.as<ConvParams>(), call.in[0], call.in[1], call.out[0]}; }

void conv2d_pool(const KernelCall& call) {
  const View &x = call.in[0], &w = call.in[1], &y = call.out[0], &argmax = call.out[1];
  const ConvLoops shape = forward_shape(call);
  const PoolSizes sizes(shape);
  const int64_t groups = shape.p.groups;
  MatrixLoader<float> weights{
      .of = Elements(w), .lines = stride_index(shape.outputs, w.strides[0]), .depth = tap_index(w, 1, shape.inputs)};
  weights.batches.add(groups, shape.outputs * w.strides[0]);
  weights.batches.add(sizes.rounds, 0);
  PooledResult result{.y = {.to = Elements(y),
                            .rows = pixel_index(y),
                            .columns = stride_index(shape.outputs, y.strides[1]),
                            .batches = stride_index(groups, shape.outputs * y.strides[1]),
                            .relu = shape.p.relu != 0},
                      .argmax = argmax.as<uint8_t>(),
                      .rows = pixel_index(argmax),
                      .columns = stride_index(shape.outputs, argmax.strides[1]),
                      .batches = stride_index(groups, shape.outputs * argmax.strides[1])};
  if (call.n_in > 2 && call.in[2].data != nullptr) {
    result.y.bias = Elements(call.in[2]);
    result.y.bias_stride = call.in[2].strides[0];
    result.y.bias_batch = shape.outputs * result.y.bias_stride;
  }
  const WindowLoader windows{PatchLoader(shape, x), sizes.places, sizes.rounds};
  const TileShape tiles = tile_shape(sizes.lines, shape.outputs, sizes.depth, groups, kSide, sizes.rounds == 1);
  Launches on(*call.queue, "conv2d_pool");
  on.launch(conv_pool_kernel, tiles.blocks(), kTileThreads, windows, weights, result, tiles, static_cast<float*>(call.scratch),
            on.counters(), windows.along_k(), weights.along_k());
}

size_t scratch_forward(const KernelCall& call) {
  const ConvLoops shape = forward_shape(call);
  const PoolSizes sizes(shape);
  return sizes.rounds > 1 ? 0 : tile_scratch<float>(sizes.lines, shape.outputs, sizes.depth, shape.p.groups);
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

// The gradients of the convolution's result: lines are its pixels, k are output channels.
struct PixelLoader {
  struct Line {
    PooledSource::Place place;
    int64_t first;  // channel of the group
  };
  using Place = int64_t;
  using Read = PooledSource::Read;
  ConvLoops shape;
  PooledSource source;

  bool along_k() const { return !source.channels_first(); }
  __device__ Line line(int64_t i, int64_t batch) const {
    return {source.place(pixel_at(i, shape.rows, shape.columns, shape.pixels())), batch * shape.outputs};
  }
  __device__ Place place(int64_t k) const { return k; }
  __device__ Read read(const Line& line, Place k) const { return source.read(line.place, line.first + k); }
  __device__ float number(const Read& read) const { return source.number(read); }
};

struct Spread {
  ConvLoops shape;
  const float* products;  // [group, pixel of the convolution's result, tap, channel of x]
  Elements dx;
  int64_t strides[4];
  bool accumulate;
};

// A thread an element of x's gradient, channels side by side.
__global__ void __launch_bounds__(kThreads) spread_kernel(const __grid_constant__ Spread spread, int64_t n) {
  begin_kernel();
  const ConvLoops& shape = spread.shape;
  const ConvParams& p = shape.p;
  const int64_t channels = shape.inputs * p.groups;
#pragma unroll 1
  for (int64_t at = thread_of_grid(); at < n; at += threads_of_grid()) {
    const int64_t i = divide(at, channels, n), channel = at - i * channels;
    const Pixel pixel = pixel_at(i, shape.height, shape.width, n);
    const int64_t group = p.groups == 1 ? 0 : divide(channel, shape.inputs, n);
    const int row = pixel.row + p.padding[0], column = pixel.column + p.padding[2];
    const int last_row = row / p.stride[0], last_column = column / p.stride[1];
    const int64_t first = (group * shape.images + pixel.n) * shape.rows;
    float sum = 0;
#pragma unroll 1
    for (int v = last_row, tap_row = row - v * p.stride[0]; v >= 0 && tap_row < shape.kernel_height; --v, tap_row += p.stride[0]) {
      if (v >= shape.rows) continue;
#pragma unroll 2
      for (int u = last_column, tap = column - u * p.stride[1]; u >= 0 && tap < shape.kernel_width; --u, tap += p.stride[1]) {
        if (u >= shape.columns) continue;
        const int64_t product = ((first + v) * shape.columns + u) * shape.taps() + tap_row * shape.kernel_width + tap;
        sum += spread.products[product * shape.inputs + channel - group * shape.inputs];
      }
    }
    spread.dx.put<float>(
        pixel.n * spread.strides[0] + channel * spread.strides[1] + pixel.row * spread.strides[2] + pixel.column * spread.strides[3], sum,
        spread.accumulate);
  }
}

size_t product_bytes(const ConvLoops& shape) {
  return (static_cast<size_t>(shape.p.groups * shape.pixels() * shape.taps() * shape.inputs) * sizeof(float) + 15) / 16 * 16;
}

void grad_input_by_products(const KernelCall& call) {
  const View &dx = call.out[0], &w = call.in[3];
  const ConvLoops shape = gradient_shape(call, dx, w);
  const int64_t groups = shape.p.groups, width = shape.taps() * shape.inputs;
  const MatrixLoader<float> taps{.of = Elements(w),
                                 .lines = tap_index(w, 1, shape.inputs),
                                 .depth = stride_index(shape.outputs, w.strides[0]),
                                 .batches = stride_index(groups, shape.outputs * w.strides[0])};
  MatrixResult<float> products{.rows = stride_index(shape.pixels(), width),
                               .columns = stride_index(width, 1),
                               .batches = stride_index(groups, shape.pixels() * width)};
  products.to.data = call.scratch;
  Launches on(*call.queue, "conv2d_pool_grad_input");
  run_tiles<float>(on, PixelLoader{shape, source_of(call)}, taps, products, shape.pixels(), width, shape.outputs, groups,
                   static_cast<std::byte*>(call.scratch) + product_bytes(shape));
  Spread spread{shape, static_cast<const float*>(call.scratch), Elements(dx), {}, call.accumulate};
  for (int d = 0; d < 4; ++d) spread.strides[d] = dx.strides[d];
  on.launch(spread_kernel, blocks_for(dx.elements()), kThreads, spread, dx.elements());
}

size_t products_scratch(const KernelCall& call) {
  const ConvLoops shape = gradient_shape(call, call.out[0], call.in[3]);
  return product_bytes(shape) + tile_scratch<float>(shape.pixels(), shape.taps() * shape.inputs, shape.outputs, shape.p.groups);
}

const char* decline_products(const KernelCall& call) {
  if (const char* why = decline_unless_f32(call)) return why;
  const ConvLoops shape = gradient_shape(call, call.out[0], call.in[3]);
  if (shape.p.dilation[0] != 1 || shape.p.dilation[1] != 1) return "only without dilation";
  return product_bytes(shape) > kMostProducts ? "only up to 64 MiB of products" : nullptr;
}

size_t scratch_grad_input(const KernelCall& call) { return grad_input_scratch(gradient_shape(call, call.out[0], call.in[3])); }

constexpr Kernel kernel(const char* op, void (*run)(const KernelCall&), size_t (*scratch)(const KernelCall&), bool accumulates = true) {
  return {.op = op,
          .name = "tiles",
          .backend = Backend::cuda,
          .decline = decline_unless_f32,
          .run = run,
          .scratch_bytes = scratch,
          .accumulates = accumulates};
}

const Kernel kKernels[] = {
    kernel("conv2d_pool", conv2d_pool, scratch_forward, false),
    kernel("conv2d_pool_grad_input", conv2d_pool_grad_input, scratch_grad_input),
    {.op = "conv2d_pool_grad_input",
     .name = "products",
     .backend = Backend::cuda,
     .decline = decline_products,
     .run = grad_input_by_products,
     .scratch_bytes = products_scratch,
     .accumulates = true},
};

}  // namespace

extern const KernelList kernels_cuda_conv_pool;
const KernelList kernels_cuda_conv_pool = kernel_list(kKernels);

}  // namespace perigee
