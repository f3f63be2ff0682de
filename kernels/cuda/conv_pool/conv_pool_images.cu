// The gradient of a pooled convolution's input, for small images: a block makes that of one image, or of some of its channels, in shared
// memory. Of a window only the largest place has a gradient, and behind relu many windows have none, so that a block first lists what flows:
// for each place of each window the channels and their gradients. Then, window by window, a group of threads for each of the four places
// multiplies its list with the weights, a thread up to four elements of the patch, and the groups add their patches to the image one after
// the other, so that sums have one order. Of a dense form's products a quarter is multiplied, and nothing but dx is written.
// Bytes that have to be moved: dy, y, argmax and dx; the weights lie in caches.
#include "kernels/cuda/conv_pool/conv_strips.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr int kPlaces = 4;  // of a window
constexpr int kGroupThreads = 128, kImageThreads = kPlaces * kGroupThreads;
constexpr int kOwn = 4;  // elements of a patch, of a thread
constexpr int64_t kMostPatch = kOwn * kGroupThreads;
constexpr int64_t kMostImage = 3072;  // numbers of dx in a block
constexpr int64_t kMostFlows = 1024;  // windows of an image times output channels
constexpr int64_t kMostWindows = 64;  // of an image

struct ImageCall {
  Images<const float> dy, y;
  Images<const uint8_t> argmax;
  Images<const float> w;
  Images<float> dx;
  int outputs, rows, columns;  // of windows
  int height, width;           // of dx
  int kernel_height, kernel_width, taps;
  int channels, channel_blocks, inputs;  // channels of a block; of dx
  int stride[2], top, left;
  bool relu, accumulate;
  bool channels_beside;  // channels of the weights lie side by side, not taps
  bool image_in_a_row;   // a block's part of dx, in the order of the room

  explicit ImageCall(const KernelCall& call)
      : dy(call.in[0]),
        y(call.in[1]),
        argmax(call.in[2]),
        w(call.in[3]),
        dx(call.out[0]),
        outputs(static_cast<int>(call.in[3].dims[0])),
        rows(static_cast<int>(call.in[0].dims[2])),
        columns(static_cast<int>(call.in[0].dims[3])),
        height(static_cast<int>(call.out[0].dims[2])),
        width(static_cast<int>(call.out[0].dims[3])),
        kernel_height(static_cast<int>(call.in[3].dims[2])),
        kernel_width(static_cast<int>(call.in[3].dims[3])),
        taps(kernel_height * kernel_width),
        inputs(static_cast<int>(call.in[3].dims[1])),
        accumulate(call.accumulate),
        channels_beside(call.in[3].strides[1] == 1 && inputs > 1 && taps > 1) {
    const auto& p = call.as<ConvParams>();
    const int64_t most = max(int64_t{1}, min(kMostPatch / max(taps, 1), kMostImage / max(height * width, 1)));
    channel_blocks = static_cast<int>(ceil_divide(inputs, most));
    channels = static_cast<int>(ceil_divide(inputs, max(channel_blocks, 1)));
    image_in_a_row = channel_blocks == 1 && call.out[0].channels_last();
    stride[0] = p.stride[0], stride[1] = p.stride[1], top = p.padding[0], left = p.padding[2], relu = p.relu != 0;
  }
};

struct alignas(8) Flow {
  int weights;  // offset of its channel's
  float gradient;
};

static __device__ inline float* image_room() {  // [row, column, channel]
  __shared__ float room[kMostImage];
  return room;
}
static __device__ inline Flow* flow_room() {  // a window's `outputs`, by places
  __shared__ Flow room[kMostFlows];
  return room;
}
static __device__ inline int* first_room() {  // where in its window's a place's list begins, and the last one ends
  __shared__ int room[kMostWindows * (kPlaces + 1)];
  return room;
}

// The place in its window of which a channel's gradient is, or none.
__device__ inline int place_of(const ImageCall& call, int n, int o, int row, int column) {
  if (o >= call.outputs || (call.relu && !(*call.y.at(n, o, row, column) > 0))) return kPlaces;
  return *call.argmax.at(n, o, row, column);
}

// A warp a window, a lane a channel: first how long the lists are, then the lists, in the order of channels.
__device__ inline void list_flows(const ImageCall& call, int n) {
  const int windows = call.rows * call.columns, lane = lane_of_warp();
#pragma unroll 1
  for (int window = warp_of_block(); window < windows; window += kImageThreads / kWarp) {
    const int row = window / call.columns, column = window - row * call.columns;
    int next[kPlaces + 1] = {};
#pragma unroll 1
    for (int first = 0; first < call.outputs; first += kWarp) {
      const int place = place_of(call, n, first + lane, row, column);
      for (int p = 0; p < kPlaces; ++p) next[p + 1] += __popc(__ballot_sync(kAllLanes, place == p));
    }
    for (int p = 0; p < kPlaces; ++p) next[p + 1] += next[p];
    for (int p = 0; p <= kPlaces; ++p)
      if (lane == 0) first_room()[window * (kPlaces + 1) + p] = next[p];
    Flow* const flows = flow_room() + window * call.outputs;
#pragma unroll 1
    for (int first = 0; first < call.outputs; first += kWarp) {
      const int o = first + lane, place = place_of(call, n, o, row, column);
      for (int p = 0; p < kPlaces; ++p) {
        const unsigned with = __ballot_sync(kAllLanes, place == p);
        if (place == p) flows[next[p] + __popc(with & ((1u << lane) - 1))] = {o * call.w.strides[0], *call.dy.at(n, o, row, column)};
        next[p] += __popc(with);
      }
    }
  }
}

// A thread's elements of a patch.
struct Own {
  const float* weights;  // of the first element and of output channel 0; those of the others lie kGroupThreads apart
  bool there[kOwn];
  int rows[kOwn], columns[kOwn], channels[kOwn];

  __device__ Own(const ImageCall& call, int first_channel) {
    const int self = static_cast<int>(threadIdx.x) % kGroupThreads, beside = call.channels_beside ? call.channels : call.taps;
    weights = call.w.at(0, first_channel, 0, 0) + self;
    for (int i = 0; i < kOwn; ++i) {
      const int e = self + i * kGroupThreads, slow = e / beside, fast = e - slow * beside;
      const int tap = call.channels_beside ? slow : fast;
      channels[i] = call.channels_beside ? fast : slow;
      there[i] = e < call.channels * call.taps && first_channel + channels[i] < call.inputs;
      rows[i] = tap / call.kernel_width, columns[i] = tap - rows[i] * call.kernel_width;
    }
  }
};

// The product of a list with the thread's weights.
__device__ inline void multiply(const Flow* flow, const Flow* end, const Own& own, float (&sum)[kOwn]) {
#pragma unroll 4
  for (; flow < end; ++flow) {
    const float* const weights = own.weights + flow->weights;
    for (int i = 0; i < kOwn; ++i)
      if (own.there[i]) sum[i] = fmaf(flow->gradient, weights[i * kGroupThreads], sum[i]);
  }
}

__global__ void __launch_bounds__(kImageThreads, 2) images_kernel(const __grid_constant__ ImageCall call) {
  begin_kernel();
  const int n = static_cast<int>(blockIdx.x) / call.channel_blocks;
  const int first_channel = (static_cast<int>(blockIdx.x) - n * call.channel_blocks) * call.channels;
  const int numbers = call.height * call.width * call.channels, group = static_cast<int>(threadIdx.x) / kGroupThreads;
  list_flows(call, n);
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < numbers; i += kImageThreads) image_room()[i] = 0;
  const Own own(call, first_channel);
  __syncthreads();
  const int windows = call.rows * call.columns;
#pragma unroll 1
  for (int window = 0; window < windows; ++window) {  // a group has one of its places
    const int window_row = window / call.columns, row = (2 * window_row + (group >> 1)) * call.stride[0] - call.top;
    const int column = (2 * (window - window_row * call.columns) + (group & 1)) * call.stride[1] - call.left;
    const Flow* const flows = flow_room() + window * call.outputs;
    const int *const of_place = first_room() + window * (kPlaces + 1) + group, begin = of_place[0], end = of_place[1];
    float sum[kOwn] = {};
    multiply(flows + begin, flows + end, own, sum);
#pragma unroll 1
    for (int turn = 0; turn < kPlaces; ++turn) {
      if (turn == group && begin < end)
        for (int i = 0; i < kOwn; ++i) {
          const int r = row + own.rows[i], c = column + own.columns[i];
          const bool inside =
              static_cast<unsigned>(r) < static_cast<unsigned>(call.height) && static_cast<unsigned>(c) < static_cast<unsigned>(call.width);
          if (own.there[i] && inside) image_room()[(r * call.width + c) * call.channels + own.channels[i]] += sum[i];
        }
      __syncthreads();
    }
  }
  float* const image = call.dx.at(n, 0, 0, 0);
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < numbers; i += kImageThreads) {
    float* to = image + i;
    if (!call.image_in_a_row) {
      const int pixel = i / call.channels, channel = first_channel + i - pixel * call.channels, row = pixel / call.width;
      if (channel >= call.inputs) continue;
      to = call.dx.at(n, channel, row, pixel - row * call.width);
    }
    *to = call.accumulate ? *to + image_room()[i] : image_room()[i];
  }
}

void conv2d_pool_grad_input(const KernelCall& call) {
  const ImageCall images(call);
  Launches on(*call.queue, "conv2d_pool_grad_input");
  on.launch(images_kernel, call.out[0].dims[0] * images.channel_blocks, kImageThreads, images);
}

const char* decline(const KernelCall& call) {
  const auto& p = call.as<ConvParams>();
  const View &dy = call.in[0], &y = call.in[1], &argmax = call.in[2], &w = call.in[3], &dx = call.out[0];
  for (const View* view : {&dy, &y, &w, &dx})
    if (view->dtype != Dtype::f32) return "only f32";
  if (p.groups != 1 || p.dilation[0] != 1 || p.dilation[1] != 1) return "only in one group and without dilation";
  if (p.pool[0] != 2 || p.pool[1] != 2) return "only with windows of 2 x 2";
  for (const View& view : {dy, y, argmax, w, dx})
    if (!within_31_bits(view)) return "only operands of less than 2^31 elements";
  if (w.dims[2] * w.dims[3] > kMostPatch || dx.dims[2] * dx.dims[3] > kMostImage) return "only where patch and image fit into a block";
  const ImageCall images(call);
  const int64_t beside = images.channels_beside ? images.inputs : 1;
  const bool taps = (w.dims[3] == 1 || w.strides[3] == beside) && (w.dims[2] == 1 || w.strides[2] == beside * w.dims[3]);
  const bool channels = images.channels_beside ? images.channel_blocks == 1 : images.inputs == 1 || w.strides[1] == images.taps;
  if (!taps || !channels) return "only where an output channel's weights lie in a row";
  const int64_t windows = dy.dims[2] * dy.dims[3];
  return windows > kMostWindows || windows * w.dims[0] > kMostFlows ? "only with few windows and channels" : nullptr;
}

const Kernel kKernels[] = {{.op = "conv2d_pool_grad_input",
                            .name = "images",
                            .backend = Backend::cuda,
                            .decline = decline,
                            .run = conv2d_pool_grad_input,
                            .accumulates = true}};

}  // namespace

extern const KernelList kernels_cuda_conv_pool_images;
const KernelList kernels_cuda_conv_pool_images = kernel_list(kKernels);

}  // namespace perigee
