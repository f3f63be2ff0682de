// Convolution at stride 1, bias, relu and max-pooling over 2 x 2 in one kernel, for few input channels and narrow windows, where tiles
// (conv_pool.cu) are filled up more than used: 20 channels to 64, 25 products to 32. A thread makes the 2 x 4 sums of two neighbouring
// windows in four channels. A block's weights and a strip of an image lie in shared memory; of them a thread reads two vectors for each row
// of taps and one for each tap, and multiplies 32 times a tap, in the order of tiles where there is one input channel.
// Bytes that have to be moved: x (again for each 32 channels), y and a quarter of y for the positions.
#include "kernels/cuda/conv_pool/conv_windows.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr int kNumbers = numbers_of_row(1, 5);  // as many where windows are three wide
constexpr int kBlockChannels = 32;              // at most
constexpr int kMostDepth = 100;                 // products of a sum
constexpr int kLeastThreads = 128;              // fewer take long to bring weights and strip
constexpr int64_t kMostBlocks = 4 * kLeastStripBlocks;

struct DirectCall {
  int groups, channel_blocks;  // groups of a block's channels
  int pairs;                   // of windows in a row
  Strips strips;
  Images<const float> w;
  WindowResults results;

  explicit DirectCall(const KernelCall& call)
      : groups(static_cast<int>(ceil_divide(min(call.in[1].dims[0], int64_t{kBlockChannels}), kWindowChannels))),
        channel_blocks(static_cast<int>(ceil_divide(call.in[1].dims[0], kBlockChannels))),
        pairs(static_cast<int>(ceil_divide(call.out[0].dims[3], kWindowPair))),
        strips(call.as<ConvParams>(), call.in[0], call.out[0], call.in[1].dims[2], call.in[1].dims[1],
               int64_t{kWindowColumns} * pairs + kNumbers - kWindowColumns, kThreads / max(pairs * groups, 1), channel_blocks),
        w(call.in[1]),
        results(call) {}
  constexpr int items() const { return strips.rows_each * pairs * groups; }
};

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
    const float* const from = is_bias ? call.results.bias + o * call.results.bias_stride
                                      : call.w.at(o, static_cast<int>(c), static_cast<int>(line - c * call.strips.kernel_height),
                                                  static_cast<int>(k - line * kWidth));
    copy_async(weight_room() + k * kBlockChannels + lane_of_warp(), from,
               o < call.results.outputs && !(is_bias && call.results.bias == nullptr));
  }
}

// Leaves `weights` behind the last tap.
template <int kWidth>
__device__ void window_sums(const Strips& strips, const float* input, const float*& weights, WindowSums& sum) {
#pragma unroll 1
  for (int c = 0; c < strips.inputs; ++c, input += strips.input_rows * strips.pitch) {
    const float* from = input;
    float upper[kNumbers], lower[kNumbers];
    read_numbers(from, lower);
#pragma unroll 1
    for (int row = 0; row < strips.kernel_height; ++row, weights += kWidth * kBlockChannels) {
      for (int i = 0; i < kNumbers; ++i) upper[i] = lower[i];
      read_numbers(from += strips.pitch, lower);
      add_taps<1, kWidth>(upper, lower, weights, kBlockChannels, sum);
    }
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
      const WindowPlace at = {n, first + group * kWindowChannels, first_row + static_cast<int>(row), pair * kWindowPair};
      if (at.row >= strips.rows || at.channel >= call.results.outputs) continue;
      const float* weights = weight_room() + group * kWindowChannels;
      WindowSums sum = {};
      window_sums<kWidth>(strips, strip_room() + 2 * static_cast<int>(row) * strips.pitch + pair * kWindowColumns, weights, sum);
      float bias[kWindowChannels];
      read_numbers(weights, bias);
      call.results.put(sum, bias, at);
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
