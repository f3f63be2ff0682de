// Convolution at stride 1, bias, relu and max-pooling over 2 x 2 in one kernel, for few input channels and narrow windows, where tiles
// (conv_pool.cu) are filled up more than used: 20 channels to 64, 25 products to 32. A thread makes the 2 x 4 sums of two neighbouring
// windows in four channels. A block's weights and a strip of an image lie in shared memory; of them a thread reads two vectors for each row
// of taps and one for each tap, and multiplies 32 times a tap, in the order of tiles where there is one input channel.
// Bytes that have to be moved: x (again for each 32 channels), y and a quarter of y for the positions.
#include "kernels/cuda/conv_strips.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr int kChannels = 4, kPair = 2;  // channels and windows of a thread
constexpr int kColumns = 2 * kPair;      // of its sums
constexpr int kNumbers = 8;              // that it reads of a row of x
constexpr int kBlockChannels = 32;       // at most
constexpr int kMostDepth = 100;          // products of a sum
constexpr int kLeastThreads = 128;       // fewer take long to bring weights and strip
constexpr int64_t kMostBlocks = 4 * kLeastStripBlocks;

struct DirectCall {
  int outputs, groups, channel_blocks;  // groups of a block's channels
  int pairs;                            // of windows in a row
  Strips strips;
  Images<const float> w;
  Images<float> y;
  Images<uint8_t> argmax;
  const float* bias = nullptr;
  int bias_stride = 0;
  bool relu, vectors;  // whether four channels of a result lie side by side, on a border

  explicit DirectCall(const KernelCall& call);
  constexpr int items() const { return strips.rows_each * pairs * groups; }
};

DirectCall::DirectCall(const KernelCall& call)
    : outputs(static_cast<int>(call.in[1].dims[0])),
      groups((min(outputs, kBlockChannels) + kChannels - 1) / kChannels),
      channel_blocks((outputs + kBlockChannels - 1) / kBlockChannels),
      pairs(static_cast<int>(ceil_divide(call.out[0].dims[3], kPair))),
      strips(call.as<ConvParams>(), call.in[0], call.out[0], call.in[1].dims[2], call.in[1].dims[1],
             int64_t{kColumns} * pairs + kNumbers - kColumns, kThreads / max(pairs * groups, 1), channel_blocks),
      w(call.in[1]),
      y(call.out[0]),
      argmax(call.out[1]),
      relu(call.as<ConvParams>().relu != 0) {
  if (call.n_in > 2 && call.in[2].data != nullptr) {
    bias = call.in[2].as<const float>();
    bias_stride = static_cast<int>(call.in[2].strides[0]);
  }
  const auto in_fours = [](const View& view, size_t border) {
    for (const int d : {0, 2, 3})
      if (view.strides[d] % kChannels != 0) return false;
    return view.strides[1] == 1 && reinterpret_cast<uintptr_t>(view.data) % border == 0;
  };
  vectors = outputs % kChannels == 0 && in_fours(call.out[0], sizeof(Vector<float>)) && in_fours(call.out[1], kChannels);
}

static __device__ inline float* weight_room() {  // [input channel, tap, channel], then bias
  __shared__ Vector<float> room[(kMostDepth + 1) * kBlockChannels / Vector<float>::kLanes];
  return reinterpret_cast<float*>(room);
}
// A warp a tap, a lane a channel; the bias is behind the last tap.
template <int kWidth>
__device__ void take_weights(const DirectCall& call, int first, int depth) {
  const int o = first + lane_of_warp();
#pragma unroll 1
  for (unsigned k = warp_of_block(); k <= static_cast<unsigned>(depth); k += blockDim.x / kWarp) {
    const unsigned line = k / kWidth, c = line / static_cast<unsigned>(call.strips.kernel_height);
    const bool is_bias = k == static_cast<unsigned>(depth);
    const float* const from = is_bias ? call.bias + o * call.bias_stride
                                      : call.w.at(o, static_cast<int>(c), static_cast<int>(line - c * call.strips.kernel_height),
                                                  static_cast<int>(k - line * kWidth));
    take_number(weight_room() + k * kBlockChannels + lane_of_warp(), from, o < call.outputs && !(is_bias && call.bias == nullptr));
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
  for (int c = 0; c < call.strips.inputs; ++c, input += call.strips.input_rows * call.strips.pitch) {
    const float* from = input;
    float upper[kNumbers], lower[kNumbers];
    read_numbers(from, lower);
#pragma unroll 1
    for (int row = 0; row < call.strips.kernel_height; ++row) {
      for (int i = 0; i < kNumbers; ++i) upper[i] = lower[i];
      read_numbers(from += call.strips.pitch, lower);
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
  const Strips& strips = call.strips;
  const unsigned self = blockIdx.x / static_cast<unsigned>(call.channel_blocks);
  const int first = static_cast<int>(blockIdx.x - self * call.channel_blocks) * kBlockChannels;
  take_weights<kWidth>(call, first, strips.inputs * strips.kernel_height * kWidth);
#pragma unroll 1
  for (unsigned strip = self; strip < static_cast<unsigned>(strips.all); strip += gridDim.x / call.channel_blocks) {
    const int n = static_cast<int>(strip / strips.count), first_row = static_cast<int>(strip % strips.count) * strips.rows_each;
    __syncthreads();  // the strip before is still read
    take_strip(strips, n, 0, first_row);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
#pragma unroll 1
    for (unsigned item = threadIdx.x; item < static_cast<unsigned>(call.items()); item += blockDim.x) {
      const unsigned line = item / static_cast<unsigned>(call.groups), row = line / static_cast<unsigned>(call.pairs);
      const int group = static_cast<int>(item - line * call.groups), pair = static_cast<int>(line - row * call.pairs);
      Place at = {n, first + group * kChannels, first_row + static_cast<int>(row), pair * kPair};
      if (at.row >= strips.rows || at.channel >= call.outputs) continue;
      const float* weights = weight_room() + group * kChannels;
      Sums sum = {};
      window_sums<kWidth>(call, strip_room() + 2 * static_cast<int>(row) * strips.pitch + pair * kColumns, weights, sum);
      float bias[kChannels];
      read_numbers(weights, bias);
      for (int window = 0; window < kPair; ++window, ++at.column)
        if (at.column < strips.columns) put_window(call, sum, window, bias, at);
    }
  }
}

void conv2d_pool(const KernelCall& call) {
  const DirectCall direct(call);
  const int64_t threads = ceil_divide(direct.items(), kWarp) * kWarp, channel_blocks = direct.channel_blocks;
  const int64_t blocks = min(int64_t{direct.strips.all}, max(kMostBlocks / max(channel_blocks, int64_t{1}), int64_t{1})) * channel_blocks;
  Launches on(*call.queue, "conv2d_pool");
  on.launch(call.in[1].dims[3] == 3 ? direct_kernel<3> : direct_kernel<5>, blocks,
            static_cast<int>(max(min(threads, int64_t{kThreads}), int64_t{kLeastThreads})), direct);
}

const char* decline(const KernelCall& call) {
  const View& w = call.in[1];
  for (int i = 0; i < call.n_in; ++i)
    if (call.in[i].data != nullptr && call.in[i].dtype != Dtype::f32) return "only f32";
  if (call.out[0].dtype != Dtype::f32) return "only f32";
  if (const char* const why = decline_strips(call.as<ConvParams>(), w.dims[3])) return why;
  if (w.dims[1] * w.dims[2] * w.dims[3] > kMostDepth) return "only up to 100 products for a sum";
  for (const View& view : {call.in[0], w, call.out[0], call.out[1]})
    if (!within_31_bits(view)) return "only operands of less than 2^31 elements";
  return DirectCall(call).strips.rows_each == 0 ? "only where the rows of a window fit into shared memory" : nullptr;
}

const Kernel kKernels[] = {{.op = "conv2d_pool", .name = "direct", .backend = Backend::cuda, .decline = decline, .run = conv2d_pool}};

}  // namespace

extern const KernelList kernels_cuda_conv_pool_direct;
const KernelList kernels_cuda_conv_pool_direct = kernel_list(kKernels);

}  // namespace perigee
