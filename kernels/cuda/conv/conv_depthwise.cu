// Convolution with few channels in a group (depthwise: one), where tiles of sums would be empty: a thread makes one element, and with channels
// last its neighbours read and write neighbouring channels. x, w and y are read or written once from memory, what windows share comes from the
// caches. The gradient of w is sums down columns (columns.cuh), with a column for each tap of each output channel.
#include "kernels/cuda/conv/conv_loaders.cuh"
#include "kernels/cuda/reduce/columns.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

struct Image {
  Elements of;
  int64_t strides[4];
  explicit Image(const View& view) : of(view) {
    for (int d = 0; d < 4; ++d) strides[d] = view.strides[d];
  }
  __device__ int64_t offset(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
  }
  __device__ float at(int64_t a, int64_t b, int64_t c, int64_t d) const { return of.load<float>(offset(a, b, c, d)); }
};

struct DirectCall {
  ConvLoops shape;
  Image x, w, y;  // for gradients, whichever is sought is the result
  Elements bias;
  int64_t bias_stride = 0;
  Walk<4> places;  // of the result's elements
  bool accumulate = false;
};

__global__ void __launch_bounds__(kThreads) direct_kernel(const __grid_constant__ DirectCall call) {
  begin_kernel();
  const ConvLoops& shape = call.shape;
  const ConvParams& p = shape.p;
#pragma unroll 1
  for (int64_t e = thread_of_grid(); e < call.places.n; e += threads_of_grid()) {
    int64_t at[4];
    locate(call.places, e, at);
    const int64_t o = at[1], first = divide(o, shape.outputs, INT32_MAX) * shape.inputs;
    float sum = 0;
#pragma unroll 1
    for (int tap = 0; tap < shape.taps(); ++tap) {
      const int kr = tap / static_cast<int>(shape.kernel_width), kc = tap % static_cast<int>(shape.kernel_width);
      const int64_t r = at[2] * p.stride[0] - p.padding[0] + kr * p.dilation[0],
                    c = at[3] * p.stride[1] - p.padding[2] + kc * p.dilation[1];
      if (r < 0 || c < 0 || r >= shape.height || c >= shape.width) continue;
#pragma unroll 1
      for (int64_t k = 0; k < shape.inputs; ++k) sum = fmaf(call.x.at(at[0], first + k, r, c), call.w.at(o, k, kr, kc), sum);
    }
    if (call.bias.data != nullptr) sum += call.bias.load<float>(o * call.bias_stride);
    if (p.relu && sum < 0) sum = 0;
    call.y.of.store<float>(call.y.offset(at[0], o, at[2], at[3]), sum);
  }
}

__global__ void __launch_bounds__(kThreads) direct_grad_input_kernel(const __grid_constant__ DirectCall call) {
  begin_kernel();
  const ConvLoops& shape = call.shape;
  const ConvParams& p = shape.p;
#pragma unroll 1
  for (int64_t e = thread_of_grid(); e < call.places.n; e += threads_of_grid()) {
    int64_t at[4];
    locate(call.places, e, at);
    const int64_t group = divide(at[1], shape.inputs, INT32_MAX), k = at[1] - group * shape.inputs;
    float sum = 0;
#pragma unroll 1
    for (int tap = 0; tap < shape.taps(); ++tap) {
      const int kr = tap / static_cast<int>(shape.kernel_width), kc = tap % static_cast<int>(shape.kernel_width);
      const int r = static_cast<int>(at[2]) + p.padding[0] - kr * p.dilation[0],
                c = static_cast<int>(at[3]) + p.padding[2] - kc * p.dilation[1];
      if (r < 0 || c < 0 || r % p.stride[0] != 0 || c % p.stride[1] != 0) continue;
      const int i = r / p.stride[0], j = c / p.stride[1];
      if (i >= shape.rows || j >= shape.columns) continue;
#pragma unroll 1
      for (int64_t o = group * shape.outputs; o < (group + 1) * shape.outputs; ++o)
        sum = fmaf(call.y.at(at[0], o, i, j), call.w.at(o, k, kr, kc), sum);
    }
    call.x.of.put<float>(call.x.offset(at[0], at[1], at[2], at[3]), sum, call.accumulate);
  }
}

// Columns are taps, each with the channels of a group, each with all output channels: (kr, kc, k, o).
struct WeightPlace {
  int64_t o, k;
  int kr, kc;
};

__device__ WeightPlace weight_place(const ConvLoops& shape, int64_t column) {
  const int64_t outputs = shape.outputs * shape.p.groups, rest = divide(column, outputs, INT32_MAX);
  const int64_t tap = divide(rest, shape.inputs, INT32_MAX), width = shape.kernel_width;
  return {column - rest * outputs, rest - tap * shape.inputs, static_cast<int>(tap / width), static_cast<int>(tap % width)};
}

struct WeightTerm {
  ConvLoops shape;
  Image dy, x;
  __device__ void operator()(int64_t row, int64_t column, float (&sum)[1]) const {
    const ConvParams& p = shape.p;
    const WeightPlace place = weight_place(shape, column);
    const Pixel pixel = pixel_at(row, shape.rows, shape.columns, shape.images * shape.rows * shape.columns);
    const int r = pixel.row * p.stride[0] - p.padding[0] + place.kr * p.dilation[0];
    const int c = pixel.column * p.stride[1] - p.padding[2] + place.kc * p.dilation[1];
    if (r < 0 || c < 0 || r >= shape.height || c >= shape.width) return;
    const int64_t channel = divide(place.o, shape.outputs, INT32_MAX) * shape.inputs + place.k;
    sum[0] = fmaf(dy.at(pixel.n, place.o, pixel.row, pixel.column), x.at(pixel.n, channel, r, c), sum[0]);
  }
};

struct WeightResult {
  ConvLoops shape;
  Image dw;
  bool accumulate;
  __device__ void operator()(int64_t column, const float (&sum)[1]) const {
    const WeightPlace place = weight_place(shape, column);
    dw.of.put<float>(dw.offset(place.o, place.k, place.kr, place.kc), sum[0], accumulate);
  }
};

void conv2d(const KernelCall& call) {
  const View &x = call.in[0], &w = call.in[1], &y = call.out[0];
  DirectCall all{
      .shape = ConvLoops(call.as<ConvParams>(), x, w, y), .x = Image(x), .w = Image(w), .y = Image(y), .places = make_coordinate_walk(y)};
  if (call.n_in > 2 && call.in[2].data != nullptr) all.bias = Elements(call.in[2]), all.bias_stride = call.in[2].strides[0];
  Launches on(*call.queue, "conv2d");
  on.launch(direct_kernel, blocks_for(all.places.n), kThreads, all);
}

void conv2d_grad_input(const KernelCall& call) {
  const View &dy = call.in[0], &w = call.in[1], &dx = call.out[0];
  const DirectCall all{.shape = ConvLoops(call.as<ConvParams>(), dx, w, dy),
                       .x = Image(dx),
                       .w = Image(w),
                       .y = Image(dy),
                       .places = make_coordinate_walk(dx),
                       .accumulate = call.accumulate};
  Launches on(*call.queue, "conv2d_grad_input");
  on.launch(direct_grad_input_kernel, blocks_for(all.places.n), kThreads, all);
}

void conv2d_grad_weight(const KernelCall& call) {
  const View &dy = call.in[0], &x = call.in[1], &dw = call.out[0];
  const ConvLoops shape(call.as<ConvParams>(), x, dw, dy);
  Launches on(*call.queue, "conv2d_grad_weight");
  sum_columns<float, 1>(on, WeightTerm{shape, Image(dy), Image(x)}, WeightResult{shape, Image(dw), call.accumulate}, shape.pixels(),
                        dw.elements(), call.scratch);
}

size_t weight_scratch(const KernelCall& call) {
  const View &dy = call.in[0], &dw = call.out[0];
  return columns_scratch<float, 1>(dy.dims[0] * dy.dims[2] * dy.dims[3], dw.elements());
}

const char* decline_groups(const KernelCall& call, const View& w) {
  const int groups = call.as<ConvParams>().groups;
  if (groups == 1 || w.dims[1] > 8 || w.dims[0] / groups > 8) return "only groups of few channels";
  return decline_unless_f32(call);
}
const char* decline_for_input(const KernelCall& call) { return decline_groups(call, call.in[1]); }
const char* decline_for_weight(const KernelCall& call) { return decline_groups(call, call.out[0]); }

const Kernel kKernels[] = {
    {.op = "conv2d", .name = "direct", .backend = Backend::cuda, .decline = decline_for_input, .run = conv2d},
    {.op = "conv2d_grad_input",
     .name = "direct",
     .backend = Backend::cuda,
     .decline = decline_for_input,
     .run = conv2d_grad_input,
     .accumulates = true},
    {.op = "conv2d_grad_weight",
     .name = "direct",
     .backend = Backend::cuda,
     .decline = decline_for_weight,
     .run = conv2d_grad_weight,
     .scratch_bytes = weight_scratch,
     .accumulates = true},
};

}  // namespace

extern const KernelList kernels_cuda_conv_depthwise;
const KernelList kernels_cuda_conv_depthwise = kernel_list(kKernels);

}  // namespace perigee
