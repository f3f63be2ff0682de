// Convolution at stride 1, bias, relu and max-pooling over 2 x 2 in one kernel, for few input channels and narrow windows, where tiles
// (conv_pool.cu) are filled up more than used: 20 channels to 64, 25 products to 32. A thread makes the 2 x 4 sums of two neighbouring
// windows in four channels. A block's weights and a strip of an image lie in shared memory; of them a thread reads two vectors for each row
// of taps and one for each tap, and multiplies 32 times a tap, in the order of tiles where there is one input channel.
// Bytes that have to be moved: x (again for each 32 channels), y and a quarter of y for the positions.
#include <cuda_pipeline.h>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/ops/conv.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr int kChannels = 4, kPair = 2;  // channels and windows of a thread
constexpr int kColumns = 2 * kPair;      // of its sums
constexpr int kNumbers = 8;              // that it reads of a row of x
constexpr int kBlockChannels = 32;       // at most
constexpr int kMostDepth = 100;          // products of a sum
constexpr int64_t kMostInput = 3072;     // numbers of a strip
constexpr int kLeastThreads = 128;       // fewer take long to bring weights and strip
constexpr int64_t kLeastBlocks = 132;    // one for each multiprocessor of the largest device
constexpr int64_t kMostBlocks = 4 * kLeastBlocks;

// Offsets are less than 2^31.
template <class T>
struct Images {
  T* data;
  int strides[4];

  explicit Images(const View& view) : data(static_cast<T*>(view.data)) {
    for (int d = 0; d < 4; ++d) strides[d] = static_cast<int>(view.strides[d]);
  }
  __device__ T* at(int n, int c, int row, int column) const {
    return data + (n * strides[0] + c * strides[1] + row * strides[2] + column * strides[3]);
  }
};

struct DirectCall {
  Images<const float> x, w;
  Images<float> y;
  Images<uint8_t> argmax;
  const float* bias = nullptr;
  int bias_stride = 0;
  int height, width, inputs, outputs, kernel_height, top, left;
  int rows, columns, pairs;            // of windows
  int strips, strip_rows, all_strips;  // of an image; of windows in a strip, 0 where not even one fits; of the call
  int input_rows, pitch;               // of a strip in shared memory
  int groups, channel_blocks;          // of a block's channels; of the call
  bool relu, vectors;                  // whether four channels of a result lie side by side, on a border

  explicit DirectCall(const KernelCall& call);
  constexpr int items() const { return strip_rows * pairs * groups; }
};

DirectCall::DirectCall(const KernelCall& call) : x(call.in[0]), w(call.in[1]), y(call.out[0]), argmax(call.out[1]) {
  const View &image = call.in[0], &weight = call.in[1], &result = call.out[0], &places = call.out[1];
  const auto& p = call.as<ConvParams>();
  if (call.n_in > 2 && call.in[2].data != nullptr) {
    bias = call.in[2].as<const float>();
    bias_stride = static_cast<int>(call.in[2].strides[0]);
  }
  const auto size = [](const View& view, int d) { return static_cast<int>(view.dims[d]); };
  height = size(image, 2), width = size(image, 3), inputs = size(weight, 1), outputs = size(weight, 0), kernel_height = size(weight, 2);
  rows = size(result, 2), columns = size(result, 3), pairs = (columns + kPair - 1) / kPair;
  top = p.padding[0], left = p.padding[2], relu = p.relu != 0;
  groups = (min(outputs, kBlockChannels) + kChannels - 1) / kChannels;
  channel_blocks = (outputs + kBlockChannels - 1) / kBlockChannels;
  pitch = kColumns * pairs + kNumbers - kColumns;
  // As many rows of windows as a block has threads for, but fewer where multiprocessors would be idle; strips are all alike.
  const auto strips_of = [&](int64_t in_strip) { return ceil_divide(rows, in_strip); };
  const auto input_of = [&](int64_t in_strip) { return 2 * in_strip + kernel_height - 1; };
  const auto fits = [&](int64_t in_strip) { return inputs * input_of(in_strip) * pitch <= kMostInput; };
  int64_t most = max(1, min(rows, kThreads / max(pairs * groups, 1)));
  while (most > 1 && (!fits(most) || image.dims[0] * strips_of(most) * channel_blocks < kLeastBlocks)) --most;
  strips = static_cast<int>(strips_of(most));
  strip_rows = fits(most) ? static_cast<int>(ceil_divide(rows, max(strips, 1))) : 0;
  input_rows = static_cast<int>(input_of(strip_rows));
  all_strips = static_cast<int>(image.dims[0]) * strips;
  const auto in_fours = [](const View& view, size_t border) {
    for (const int d : {0, 2, 3})
      if (view.strides[d] % kChannels != 0) return false;
    return view.strides[1] == 1 && reinterpret_cast<uintptr_t>(view.data) % border == 0;
  };
  vectors = outputs % kChannels == 0 && in_fours(result, sizeof(Vector<float>)) && in_fours(places, kChannels);
}

static __device__ inline float* weight_room() {  // [input channel, tap, channel], then bias
  __shared__ Vector<float> room[(kMostDepth + 1) * kBlockChannels / Vector<float>::kLanes];
  return reinterpret_cast<float*>(room);
}
static __device__ inline float* input_room() {  // [input channel, row, column]
  __shared__ Vector<float> room[kMostInput / Vector<float>::kLanes];
  return reinterpret_cast<float*>(room);
}

__device__ inline void take(float* to, const float* from, bool there) {
  if (there) __pipeline_memcpy_async(to, from, sizeof(float));
  else *to = 0;
}

// A warp a tap, a lane a channel; the bias is behind the last tap.
template <int kWidth>
__device__ void take_weights(const DirectCall& call, int first, int depth) {
  const int o = first + lane_of_warp();
#pragma unroll 1
  for (unsigned k = warp_of_block(); k <= static_cast<unsigned>(depth); k += blockDim.x / kWarp) {
    const unsigned line = k / kWidth, c = line / static_cast<unsigned>(call.kernel_height);
    const bool is_bias = k == static_cast<unsigned>(depth);
    const float* const from =
        is_bias ? call.bias + o * call.bias_stride
                : call.w.at(o, static_cast<int>(c), static_cast<int>(line - c * call.kernel_height), static_cast<int>(k - line * kWidth));
    take(weight_room() + k * kBlockChannels + lane_of_warp(), from, o < call.outputs && !(is_bias && call.bias == nullptr));
  }
}

// A warp a row.
__device__ inline void take_input(const DirectCall& call, int n, int first_row) {
  float* to = input_room() + warp_of_block() * call.pitch;
  int c = 0;
#pragma unroll 1
  for (int line = warp_of_block();; line += static_cast<int>(blockDim.x / kWarp), to += static_cast<int>(blockDim.x / kWarp) * call.pitch) {
    for (; line >= call.input_rows; line -= call.input_rows) ++c;
    if (c >= call.inputs) return;
    const int row = 2 * first_row - call.top + line;
#pragma unroll 1
    for (int i = lane_of_warp(); i < call.pitch; i += kWarp) {
      const int column = i - call.left;
      const bool there = static_cast<unsigned>(row) < static_cast<unsigned>(call.height) &&
                         static_cast<unsigned>(column) < static_cast<unsigned>(call.width);
      take(to + i, call.x.at(n, c, row, column), there);
    }
  }
}

template <int kCount>
__device__ void read_numbers(const float* from, float (&to)[kCount]) {
  constexpr int kLanes = Vector<float>::kLanes;
  for (int i = 0; i < kCount; i += kLanes) {
    const Vector<float> vector = *reinterpret_cast<const Vector<float>*>(from + i);
    for (int l = 0; l < kLanes; ++l) to[i + l] = vector.lane[l];
  }
}

using Sums = float[2][kColumns][kChannels];

// Leaves `weights` behind the last tap.
template <int kWidth>
__device__ void window_sums(const DirectCall& call, const float* input, const float*& weights, Sums& sum) {
  static_assert(kColumns + kWidth - 1 <= kNumbers);
#pragma unroll 1
  for (int c = 0; c < call.inputs; ++c, input += call.input_rows * call.pitch) {
    const float* from = input;
    float upper[kNumbers], lower[kNumbers];
    read_numbers(from, lower);
#pragma unroll 1
    for (int row = 0; row < call.kernel_height; ++row) {
      for (int i = 0; i < kNumbers; ++i) upper[i] = lower[i];
      read_numbers(from += call.pitch, lower);
      for (int tap = 0; tap < kWidth; ++tap, weights += kBlockChannels) {
        float weight[kChannels];
        read_numbers(weights, weight);
        for (int i = 0; i < kColumns; ++i)
          for (int j = 0; j < kChannels; ++j) {
            sum[0][i][j] = fmaf(upper[i + tap], weight[j], sum[0][i][j]);
            sum[1][i][j] = fmaf(lower[i + tap], weight[j], sum[1][i][j]);
          }
      }
    }
  }
}

struct Place {
  int n, channel, row, column;
};

// Of window number `window` of a pair.
__device__ inline void put_window(const DirectCall& call, const Sums& sum, int window, const float (&bias)[kChannels], const Place& at) {
  Vector<float> value;
  uint32_t places = 0;
  for (int j = 0; j < kChannels; ++j) {
    float best = sum[0][2 * window][j];
    uint32_t where = 0;
    for (int i = 1; i < 4; ++i) {
      const float x = sum[i / 2][2 * window + i % 2][j];
      // The first of the largest; NaN wins, so that it is seen.
      if (best == best && !(x <= best)) best = x, where = static_cast<uint32_t>(i);
    }
    best += bias[j];
    if (call.relu && best <= 0) best = 0;
    value.lane[j] = best;
    places |= where << (8 * j);
  }
  float* const y = call.y.at(at.n, at.channel, at.row, at.column);
  uint8_t* const argmax = call.argmax.at(at.n, at.channel, at.row, at.column);
  if (call.vectors) {
    *reinterpret_cast<Vector<float>*>(y) = value;
    *reinterpret_cast<uint32_t*>(argmax) = places;
    return;
  }
  for (int j = 0; j < kChannels; ++j)
    if (at.channel + j < call.outputs) {
      y[j * call.y.strides[1]] = value.lane[j];
      argmax[j * call.argmax.strides[1]] = static_cast<uint8_t>(places >> (8 * j));
    }
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads, 3) direct_kernel(const __grid_constant__ DirectCall call) {
  begin_kernel();
  const unsigned self = blockIdx.x / static_cast<unsigned>(call.channel_blocks);
  const int first = static_cast<int>(blockIdx.x - self * call.channel_blocks) * kBlockChannels;
  take_weights<kWidth>(call, first, call.inputs * call.kernel_height * kWidth);
#pragma unroll 1
  for (unsigned strip = self; strip < static_cast<unsigned>(call.all_strips); strip += gridDim.x / call.channel_blocks) {
    const int n = static_cast<int>(strip / call.strips), first_row = static_cast<int>(strip % call.strips) * call.strip_rows;
    __syncthreads();  // the strip before is still read
    take_input(call, n, first_row);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
#pragma unroll 1
    for (unsigned item = threadIdx.x; item < static_cast<unsigned>(call.items()); item += blockDim.x) {
      const unsigned line = item / static_cast<unsigned>(call.groups), row = line / static_cast<unsigned>(call.pairs);
      const int group = static_cast<int>(item - line * call.groups), pair = static_cast<int>(line - row * call.pairs);
      Place at = {n, first + group * kChannels, first_row + static_cast<int>(row), pair * kPair};
      if (at.row >= call.rows || at.channel >= call.outputs) continue;
      const float* weights = weight_room() + group * kChannels;
      Sums sum = {};
      window_sums<kWidth>(call, input_room() + 2 * static_cast<int>(row) * call.pitch + pair * kColumns, weights, sum);
      float bias[kChannels];
      read_numbers(weights, bias);
      for (int window = 0; window < kPair; ++window, ++at.column)
        if (at.column < call.columns) put_window(call, sum, window, bias, at);
    }
  }
}

void conv2d_pool(const KernelCall& call) {
  const DirectCall direct(call);
  const int64_t threads = ceil_divide(direct.items(), kWarp) * kWarp, channel_blocks = direct.channel_blocks;
  const int64_t blocks = min(int64_t{direct.all_strips}, max(kMostBlocks / max(channel_blocks, int64_t{1}), int64_t{1})) * channel_blocks;
  Launches on(*call.queue, "conv2d_pool");
  on.launch(call.in[1].dims[3] == 3 ? direct_kernel<3> : direct_kernel<5>, blocks,
            static_cast<int>(max(min(threads, int64_t{kThreads}), int64_t{kLeastThreads})), direct);
}

bool within_31_bits(const View& view) {
  int64_t span = 0;
  for (int d = 0; d < view.rank; ++d) {
    if (view.dims[d] > INT32_MAX || view.strides[d] > INT32_MAX || view.strides[d] < 0) return false;
    span += max(view.dims[d] - 1, int64_t{0}) * view.strides[d];
    if (span > INT32_MAX) return false;
  }
  return true;
}

const char* decline(const KernelCall& call) {
  const auto& p = call.as<ConvParams>();
  const View& w = call.in[1];
  for (int i = 0; i < call.n_in; ++i)
    if (call.in[i].data != nullptr && call.in[i].dtype != Dtype::f32) return "only f32";
  if (call.out[0].dtype != Dtype::f32) return "only f32";
  if (p.groups != 1 || p.stride[0] != 1 || p.stride[1] != 1 || p.dilation[0] != 1 || p.dilation[1] != 1)
    return "only in one group, at stride 1 and without dilation";
  if (p.pool[0] != 2 || p.pool[1] != 2) return "only with windows of 2 x 2";
  if (w.dims[3] != 3 && w.dims[3] != 5) return "only with kernels three or five wide";
  if (w.dims[1] * w.dims[2] * w.dims[3] > kMostDepth) return "only up to 100 products for a sum";
  for (const View& view : {call.in[0], w, call.out[0], call.out[1]})
    if (!within_31_bits(view)) return "only operands of less than 2^31 elements";
  return DirectCall(call).strip_rows == 0 ? "only where the rows of a window fit into shared memory" : nullptr;
}

const Kernel kKernels[] = {{.op = "conv2d_pool", .name = "direct", .backend = Backend::cuda, .decline = decline, .run = conv2d_pool}};

}  // namespace

extern const KernelList kernels_cuda_conv_pool_direct;
const KernelList kernels_cuda_conv_pool_direct = kernel_list(kKernels);

}  // namespace perigee
