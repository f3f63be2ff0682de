// Convolution at stride 1 or 2, bias, relu and max-pooling over 2 x 2 in one kernel, for small images of many channels. As conv_pool_direct.cu,
// but a block takes whole images, and their channels four at a time, with the weights that belong to them: sums stay in registers meanwhile.
// Per row of taps a thread reads six vectors of x and one of weights a tap, for 32 multiplications a tap.
// Bytes that have to be moved: x (again for each 64 channels), y and a quarter of y for the positions; the weights again for each block, out of
// caches.
#include "kernels/cuda/conv_pool/conv_windows.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr int kStage = 4;           // input channels at a time
constexpr int kBlockChannels = 64;  // at most
constexpr int kPitch = 68;          // of a tap's weights in shared memory: neighbours are brought to different banks
constexpr int kMostTaps = 25;

struct StagedCall {
  int inputs, kernel_height, taps;
  int height, width, top, left, stride;
  int groups, channel_blocks;  // groups of a block's channels
  int rows, pairs;             // of an image's windows
  int input_rows, pitch;       // of an image in shared memory
  int all, images;             // of the call; of a block
  Images<const float> x, w;
  WindowResults results;

  explicit StagedCall(const KernelCall& call)
      : inputs(static_cast<int>(call.in[1].dims[1])),
        kernel_height(static_cast<int>(call.in[1].dims[2])),
        taps(kernel_height * static_cast<int>(call.in[1].dims[3])),
        height(static_cast<int>(call.in[0].dims[2])),
        width(static_cast<int>(call.in[0].dims[3])),
        top(call.as<ConvParams>().padding[0]),
        left(call.as<ConvParams>().padding[2]),
        stride(call.as<ConvParams>().stride[0]),
        groups(static_cast<int>(ceil_divide(min(call.in[1].dims[0], int64_t{kBlockChannels}), kWindowChannels))),
        channel_blocks(static_cast<int>(ceil_divide(call.in[1].dims[0], kBlockChannels))),
        rows(static_cast<int>(call.out[0].dims[2])),
        pairs(static_cast<int>(ceil_divide(call.out[0].dims[3], kWindowPair))),
        input_rows(stride * (2 * rows - 1) + kernel_height),
        pitch(stride * kWindowColumns * (pairs - 1) + numbers_of_row(stride, static_cast<int>(call.in[1].dims[3]))),
        all(static_cast<int>(call.in[0].dims[0])),
        x(call.in[0]),
        w(call.in[1]),
        results(call) {
    // As many images as a block has threads and room for, but so that the multiprocessor with most of them has few.
    const int64_t of_image = int64_t{rows} * pairs * groups,
                  most = min(kThreads / max(of_image, int64_t{1}), kStripRoom / max(room(), int64_t{1}));
    images = static_cast<int>(min(most, int64_t{1}));
    const auto busiest = [&](int64_t each) { return each * ceil_divide(ceil_divide(all, each) * channel_blocks, kLeastStripBlocks); };
    for (int each = 2; each <= most; ++each)
      if (busiest(each) <= busiest(images)) images = each;
  }
  // Numbers of an image's stage.
  constexpr int64_t room() const { return int64_t{kStage} * input_rows * pitch; }
  constexpr int64_t blocks() const { return ceil_divide(all, images) * channel_blocks; }
  constexpr int items() const { return images * rows * pairs * groups; }
};

static __device__ inline float* weight_room() {  // [input channel, tap, channel]
  __shared__ Vector<float> room[kStage * kMostTaps * kPitch / Vector<float>::kLanes];
  return reinterpret_cast<float*>(room);
}

// Loads weights of input channels from first_input on: one warp per output channel, whose weights are contiguous; zeros beyond the end.
__device__ inline void take_weights(const StagedCall& call, int first, int first_input) {
  const int there = min(kStage, call.inputs - first_input) * call.taps;
#pragma unroll 1
  for (int o = warp_of_block(); o < call.groups * kWindowChannels; o += static_cast<int>(blockDim.x / kWarp)) {
    const float* const from = call.w.at(first + o, first_input, 0, 0);
    float* const to = weight_room() + o;
#pragma unroll 1
    for (int k = lane_of_warp(); k < kStage * call.taps; k += kWarp)
      copy_async(to + k * kPitch, from + k, k < there && first + o < call.results.outputs);
  }
}

// A warp a row of an image: of each column four channels, which are neighbours in memory where channels come last.
__device__ inline void take_images(const StagedCall& call, int first_image, int first_input) {
#pragma unroll 1
  for (int line = warp_of_block(); line < call.images * call.input_rows; line += static_cast<int>(blockDim.x / kWarp)) {
    const int image = line / call.input_rows, in_image = line - image * call.input_rows;
    const int n = first_image + image, row = in_image - call.top;
    const bool there = n < call.all && static_cast<unsigned>(row) < static_cast<unsigned>(call.height);
    float* const to = strip_room() + image * kStage * call.input_rows * call.pitch + in_image * call.pitch;
#pragma unroll 1
    for (int i = lane_of_warp(); i < kStage * call.pitch; i += kWarp) {
      const int c = i % kStage, at = i / kStage, column = at - call.left;
      const bool inside = there && first_input + c < call.inputs && static_cast<unsigned>(column) < static_cast<unsigned>(call.width);
      copy_async(to + c * call.input_rows * call.pitch + at, call.x.at(n, first_input + c, row, column), inside);
    }
  }
}

template <int kStride, int kWidth>
__global__ void __launch_bounds__(kThreads, 3) staged_kernel(const __grid_constant__ StagedCall call) {
  begin_kernel();
  const int block = static_cast<int>(blockIdx.x) / call.channel_blocks;
  const int first = (static_cast<int>(blockIdx.x) - block * call.channel_blocks) * kBlockChannels;
  const int self = static_cast<int>(threadIdx.x), line = self / call.groups, group = self - line * call.groups;
  const int row_of_all = line / call.pairs, pair = line - row_of_all * call.pairs;
  const int image = row_of_all / call.rows, row = row_of_all - image * call.rows;
  const WindowPlace at = {block * call.images + image, first + group * kWindowChannels, row, pair * kWindowPair};
  const bool works = self < call.items() && at.n < call.all && at.channel < call.results.outputs;
  const int plane = call.input_rows * call.pitch;
  const float* const input = strip_room() + image * kStage * plane + (2 * kStride * row) * call.pitch + kStride * kWindowColumns * pair;
  WindowSums sum = {};
#pragma unroll 1
  for (int first_input = 0; first_input < call.inputs; first_input += kStage) {
    __syncthreads();  // the stage before is still read
    take_weights(call, first, first_input);
    take_images(call, block * call.images, first_input);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    if (!works) continue;
    const float* weights = weight_room() + group * kWindowChannels;
#pragma unroll 1
    for (int c = 0; c < kStage; ++c) {
      const float* from = input + c * plane;
#pragma unroll 1
      for (int r = 0; r < call.kernel_height; ++r, from += call.pitch, weights += kWidth * kPitch) {
        float upper[numbers_of_row(kStride, kWidth)], lower[numbers_of_row(kStride, kWidth)];
        read_numbers(from, upper);
        read_numbers(from + kStride * call.pitch, lower);
        add_taps<kStride, kWidth>(upper, lower, weights, kPitch, sum);
      }
    }
  }
  if (!works) return;
  float bias[kWindowChannels];
  for (int j = 0; j < kWindowChannels; ++j) {
    const bool there = call.results.bias != nullptr && at.channel + j < call.results.outputs;
    bias[j] = there ? call.results.bias[(at.channel + j) * call.results.bias_stride] : 0.0f;
  }
  call.results.put(sum, bias, at);
}

void conv2d_pool(const KernelCall& call) {
  const StagedCall staged(call);
  const bool narrow = call.in[1].dims[3] == 3;
  void (*const kernel)(StagedCall) = staged.stride == 1 ? narrow ? staged_kernel<1, 3> : staged_kernel<1, 5>
                                     : narrow ? staged_kernel<2, 3>
                                                        : staged_kernel<2, 5>;
  Launches on(*call.queue, "conv2d_pool");
  on.launch(kernel, staged.blocks(), static_cast<int>(ceil_divide(staged.items(), kWarp)) * kWarp, staged);
}

const char* decline(const KernelCall& call) {
  const auto& p = call.as<ConvParams>();
  const View &x = call.in[0], &w = call.in[1];
  for (int i = 0; i < call.n_in; ++i)
    if (call.in[i].data != nullptr && call.in[i].dtype != Dtype::f32) return "only f32";
  if (call.out[0].dtype != Dtype::f32) return "only f32";
  if (p.groups != 1 || p.stride[0] != p.stride[1] || p.stride[0] > 2 || p.dilation[0] != 1 || p.dilation[1] != 1)
    return "only in one group, at stride 1 or 2 and without dilation";
  if (p.pool[0] != 2 || p.pool[1] != 2) return "only with windows of 2 x 2";
  if (w.dims[3] != 3 && w.dims[3] != 5) return "only with kernels three or five wide";
  if (w.dims[2] * w.dims[3] > kMostTaps) return "only up to 25 taps";
  for (const View& view : {x, w, call.out[0], call.out[1]})
    if (!within_31_bits(view)) return "only operands of less than 2^31 elements";
  if (w.strides[3] != 1 || w.strides[2] != w.dims[3] || (w.dims[1] > 1 && w.strides[1] != w.dims[2] * w.dims[3]))
    return "only where an output channel's weights lie in a row";
  return StagedCall(call).images == 0 ? "only where an image fits into a block" : nullptr;
}

const Kernel kKernels[] = {{.op = "conv2d_pool", .name = "staged", .backend = Backend::cuda, .decline = decline, .run = conv2d_pool}};

}  // namespace

extern const KernelList kernels_cuda_conv_pool_staged;
const KernelList kernels_cuda_conv_pool_staged = kernel_list(kKernels);

}  // namespace perigee
