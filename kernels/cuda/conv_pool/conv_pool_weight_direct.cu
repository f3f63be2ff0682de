// The gradients of a pooled convolution's weights and bias, as conv_pool_weight.cu, for few input channels. A thread has one output channel
// and all taps of one input channel, whose sums stay in registers, and every few windows of a strip of x in shared memory: of a window whose
// gradient flows it reads the patch of the largest, one number and one multiplication a tap. A block adds up its threads' sums, the last of
// some dozen blocks theirs, and the last of these all, each in the order of their numbers.
// Bytes that have to be moved: dy, y and argmax (again for each input channel), and x (again for each block of channels).
#include "kernels/cuda/conv_pool/conv_strips.cuh"
#include "kernels/cuda/reduce/last_block.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr int kMostSums = 26;       // of a thread: one a tap, and the gradients'
constexpr int kBlockChannels = 64;  // at most
constexpr int64_t kMostInputs = 4;  // each reads the gradients again
constexpr int64_t kMostBlocks = 4 * kLeastStripBlocks;
static_assert(kMostBlocks <= kCudaCounters);  // a tile of n parts needs n at most

struct WeightCall {
  int outputs, channels, channel_blocks;  // channels of a block
  int slots;                              // threads of a block for each of its channels
  int tiles;                              // input channels times blocks of channels
  Strips strips;
  Images<const float> dy;
  const float* y;         // lies as dy; null where there is no relu
  const uint8_t* argmax;  // lies as dy
  Images<float> dw;
  float* db = nullptr;
  int db_stride = 0;
  bool accumulate;
  int parts, group_parts, groups;  // of a tile's strips; parts of a group; groups

  explicit WeightCall(const KernelCall& call)
      : outputs(static_cast<int>(call.out[0].dims[0])),
        channels(static_cast<int>(ceil_divide(outputs, max(int64_t{1}, ceil_divide(outputs, kBlockChannels))))),
        channel_blocks(static_cast<int>(ceil_divide(outputs, max(channels, 1)))),
        slots(kThreads / max(channels, 1)),
        tiles(static_cast<int>(call.out[0].dims[1]) * channel_blocks),
        strips(call.as<ConvParams>(), call.in[3], call.in[0], call.out[0].dims[2], 1, 2 * call.in[0].dims[3] + call.out[0].dims[3] - 1,
               call.in[0].dims[2], tiles),
        dy(call.in[0]),
        y(call.as<ConvParams>().relu != 0 ? call.in[1].as<const float>() : nullptr),
        argmax(call.in[2].as<const uint8_t>()),
        dw(call.out[0]),
        accumulate(call.accumulate) {
    if (call.n_out > 1 && call.out[1].data != nullptr) {
      db = call.out[1].as<float>();
      db_stride = static_cast<int>(call.out[1].strides[0]);
    }
    const int64_t strips_of_part = ceil_divide(strips.all, max(int64_t{1}, kMostBlocks / max(tiles, 1)));
    parts = static_cast<int>(max(int64_t{1}, ceil_divide(strips.all, max(int64_t{1}, strips_of_part))));
    group_parts = 1;
    while (group_parts * group_parts < parts) ++group_parts;
    groups = static_cast<int>(ceil_divide(parts, group_parts));
  }
};

static __device__ inline float* sums_room() {  // [slot, sum, channel]
  __shared__ float room[kThreads * kMostSums];
  return room;
}

// One window's contribution.
struct Window {
  float gradient = 0, value = 0;
  int chosen = 0;

  __device__ Window() {}
  __device__ Window(const WeightCall& call, int at)
      : gradient(call.dy.data[at]), value(call.y != nullptr ? call.y[at] : 1.0f), chosen(call.argmax[at]) {}
};

// A thread's windows of the strip in shared memory: number `slot`, and every slots-th from there. The next is read while one is added.
template <int kHeight, int kWidth>
__device__ void add_windows(const WeightCall& call, int n, int first_row, int channel, int slot, float (&sum)[kHeight * kWidth + 1]) {
  const Strips& strips = call.strips;
  const int columns = strips.columns, rows = min(strips.rows_each, strips.rows - first_row), pitch = strips.pitch;
  const int row = slot / columns, step_rows = call.slots / columns, step_columns = call.slots - step_rows * columns;
  int column = slot - row * columns, at = call.dy.place(n, channel, first_row + row, column), from = 2 * (row * pitch + column);
  const int step_at = step_rows * call.dy.strides[2] + step_columns * call.dy.strides[3],
            step_from = 2 * (step_rows * pitch + step_columns);
  const int wrap_at = call.dy.strides[2] - columns * call.dy.strides[3], wrap_from = 2 * (pitch - columns);  // to the next row
  int left = rows * columns - slot;
  Window next = left > 0 ? Window(call, at) : Window();
#pragma unroll 1
  while (left > 0) {
    const Window window = next;
    const float* const patch = strip_room() + from + (window.chosen >> 1) * pitch + (window.chosen & 1);
    left -= call.slots, column += step_columns, at += step_at, from += step_from;
    if (column >= columns) column -= columns, at += wrap_at, from += wrap_from;
    next = left > 0 ? Window(call, at) : Window();
    if (!(window.value > 0)) continue;  // relu lets nothing through, not even a gradient that is not finite
    for (int i = 0; i < kHeight; ++i)
      for (int j = 0; j < kWidth; ++j) sum[i * kWidth + j] = fmaf(window.gradient, patch[i * pitch + j], sum[i * kWidth + j]);
    sum[kHeight * kWidth] += window.gradient;
  }
}

// Calls f(i, number i of `lots` many, added up in their order) for the block's sums; a lot is `sums` numbers.
template <class F>
__device__ void add_lots(const float* from, int lots, int sums, F f) {
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < sums; i += kThreads) {
    float total = 0;
#pragma unroll 8
    for (int lot = 0; lot < lots; ++lot) total += __ldcg(from + lot * sums + i);
    f(i, total);
  }
}

template <int kHeight, int kWidth>
__global__ void __launch_bounds__(kThreads, 4)
    direct_weights_kernel(const __grid_constant__ WeightCall call, float* all_parts, uint32_t* counters) {
  begin_kernel();
  constexpr int kTaps = kHeight * kWidth;
  const Strips& strips = call.strips;
  const int tile = static_cast<int>(blockIdx.x) / call.parts, part = static_cast<int>(blockIdx.x) - tile * call.parts;
  const int input = tile / call.channel_blocks, first = (tile - input * call.channel_blocks) * call.channels;
  const int self = static_cast<int>(threadIdx.x), slot = self / call.channels, channel = self - slot * call.channels;
  float sum[kTaps + 1] = {};
#pragma unroll 1
  for (int strip = part; strip < strips.all; strip += call.parts) {
    const int n = strip / strips.count, first_row = (strip - n * strips.count) * strips.rows_each;
    __syncthreads();  // the strip before is still read
    take_strip(strips, n, input, first_row);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    if (slot < call.slots && first + channel < call.outputs) add_windows<kHeight, kWidth>(call, n, first_row, first + channel, slot, sum);
  }
  const int sums = (kTaps + 1) * call.channels;  // of a block
  if (slot < call.slots)
    for (int s = 0; s <= kTaps; ++s) sums_room()[slot * sums + s * call.channels + channel] = sum[s];
  __syncthreads();

  const auto put = [&](int i, float total) {
    const int s = i / call.channels, o = first + i - s * call.channels;
    if (o >= call.outputs || (s == kTaps && (call.db == nullptr || input > 0))) return;
    float* const to = s == kTaps ? call.db + o * call.db_stride : call.dw.at(o, input, s / kWidth, s % kWidth);
    *to = call.accumulate ? *to + total : total;
  };
  const int group = part / call.group_parts, members = min(call.group_parts, call.parts - group * call.group_parts);
  float* const parts = all_parts + tile * (call.parts + call.groups) * sums;
  float* const groups = parts + call.parts * sums;
  uint32_t* const arrived = counters + tile * (call.groups + 1);
#pragma unroll 1
  for (int i = self; i < sums; i += kThreads) {
    float total = 0;
    for (int k = 0; k < call.slots; ++k) total += sums_room()[k * sums + i];
    if (call.parts > 1) parts[part * sums + i] = total;
    else put(i, total);
  }
  if (call.parts == 1 || !last_to_finish(arrived + group, members)) return;
  add_lots(parts + group * call.group_parts * sums, members, sums, [&](int i, float total) {
    if (call.groups > 1) groups[group * sums + i] = total;
    else put(i, total);
  });
  if (call.groups > 1 && last_to_finish(arrived + call.groups, call.groups)) add_lots(groups, call.groups, sums, put);
}

size_t scratch(const KernelCall& call) {
  const WeightCall weights(call);
  const int64_t sums = (call.out[0].dims[2] * call.out[0].dims[3] + 1) * weights.channels;
  return weights.parts == 1 ? 0 : static_cast<size_t>(weights.tiles * (weights.parts + weights.groups) * sums) * sizeof(float);
}

void conv2d_pool_grad_weight(const KernelCall& call) {
  const WeightCall weights(call);
  Launches on(*call.queue, "conv2d_pool_grad_weight");
  on.launch(call.out[0].dims[3] == 3 ? direct_weights_kernel<3, 3> : direct_weights_kernel<5, 5>, int64_t{weights.tiles} * weights.parts,
            kThreads, weights, static_cast<float*>(call.scratch), on.counters());
}

const char* decline(const KernelCall& call) {
  const View &dy = call.in[0], &y = call.in[1], &argmax = call.in[2], &x = call.in[3], &dw = call.out[0];
  for (const View* view : {&dy, &y, &x, &dw})
    if (view->dtype != Dtype::f32) return "only f32";
  if (const char* const why = decline_strips(call.as<ConvParams>(), dw.dims[3])) return why;
  if (dw.dims[2] != dw.dims[3]) return "only with kernels as high as they are wide";
  if (dw.dims[1] > kMostInputs) return "only up to four input channels";
  if (dy.dims[3] == 0) return "only with windows";
  for (const View& view : {dy, argmax, x, dw})
    if (!within_31_bits(view)) return "only operands of less than 2^31 elements";
  for (int d = 0; d < 4; ++d)
    if (argmax.strides[d] != dy.strides[d] || y.strides[d] != dy.strides[d]) return "only where gradient, result and positions lie alike";
  return WeightCall(call).strips.rows_each == 0 ? "only where the rows of a window fit into shared memory" : nullptr;
}

const Kernel kKernels[] = {{.op = "conv2d_pool_grad_weight",
                            .name = "direct",
                            .backend = Backend::cuda,
                            .decline = decline,
                            .run = conv2d_pool_grad_weight,
                            .scratch_bytes = scratch,
                            .accumulates = true}};

}  // namespace

extern const KernelList kernels_cuda_conv_pool_weight_direct;
const KernelList kernels_cuda_conv_pool_weight_direct = kernel_list(kKernels);

}  // namespace perigee
