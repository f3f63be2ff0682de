// The gradients of a pooled convolution's weights and bias. A window's gradient belongs to one pixel of the convolution alone, so that it
// is multiplied with one patch of x: a quarter of the convolution's products where windows are 2 x 2, and none where relu let nothing
// through. A warp has an output channel and up to 128 elements of its weights, four a lane; where there are fewer, several runs of lanes
// take turns with the windows. Windows are shared among blocks, whose sums the last block adds up in their order.
#include "kernels/cuda/conv/conv_loaders.cuh"
#include "kernels/cuda/reduce/rows.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr int kSums = 4;                                // of a lane
constexpr int kOutputs = kThreads / kWarp;              // of a block
constexpr int kPartSums = kThreads * kSums + kOutputs;  // of a block: of weights, then of bias
constexpr int64_t kMostBlocks = 528;                    // four for each multiprocessor of the largest device
static_assert(kMostBlocks / 2 <= kCudaCounters);

// A window whose gradient flows: the offset, row and column of the first element of its patch.
struct Patch {
  int64_t offset;
  int row, column;
  float gradient;
};

struct WeightCall {
  ConvLoops shape;  // rows and columns of windows
  PlainSource dy, y, argmax, x, dw;
  Elements db;  // or none
  int64_t db_stride = 0;
  bool padded, accumulate;
  bool plain;                     // patches of f32 that lie inside x
  int64_t windows, elements;      // of all images; of a channel's weights
  int64_t chunks, chunk;          // of elements, of one warp each
  int64_t channel_blocks, tiles;  // of a group; of the call
  int64_t parts = 1, part_windows;
  int lanes, runs;  // of a chunk, of a warp

  explicit WeightCall(const KernelCall& call)
      : shape(call.as<ConvParams>(), call.in[3], call.out[0], call.in[0]),
        dy(call.in[0]),
        y(call.in[1]),
        argmax(call.in[2]),
        x(call.in[3]),
        dw(call.out[0]),
        accumulate(call.accumulate),
        windows(shape.pixels()),
        elements(shape.taps() * shape.inputs),
        chunks(ceil_divide(elements, kSums * kWarp)),
        chunk(ceil_divide(elements, max(chunks, int64_t{1}))),
        channel_blocks(ceil_divide(shape.outputs, kOutputs)),
        tiles(chunks * channel_blocks * shape.p.groups),
        lanes(static_cast<int>(ceil_divide(chunk, kSums))),
        runs(kWarp / max(lanes, 1)) {
    const int32_t* const padding = shape.p.padding;
    if (call.n_out > 1 && call.out[1].data != nullptr) db = Elements(call.out[1]), db_stride = call.out[1].strides[0];
    padded = padding[0] != 0 || padding[1] != 0 || padding[2] != 0 || padding[3] != 0;
    plain = !padded && call.in[3].dtype == Dtype::f32;
    if (tiles > 0) parts = max(int64_t{1}, min(kMostBlocks / tiles, windows / kWarp));
    while (parts > 1 && parts * parts > windows) --parts;  // the last block reads all parts
    part_windows = ceil_divide(windows, parts);
  }
};

static __device__ inline std::byte* patch_room() {
  __shared__ Vector<float> room[kThreads * sizeof(Patch) / sizeof(Vector<float>)];
  return reinterpret_cast<std::byte*>(room);
}

// A lane's elements.
struct Own {
  bool there[kSums];
  Tap taps[kSums];
  int64_t offsets[kSums];

  __device__ Own(const WeightCall& call, int64_t first, int lane) {
    for (int s = 0; s < kSums; ++s) {
      const int64_t at = lane % call.lanes + s * call.lanes, k = first + at;
      there[s] = lane < call.lanes * call.runs && at < call.chunk && k < call.elements;
      taps[s] = call.shape.tap_at(there[s] ? k : 0, call.shape.inputs);
      offsets[s] = taps[s].channel * call.x.strides[1] + taps[s].row * call.x.strides[2] + taps[s].column * call.x.strides[3];
    }
  }
};

// Whether relu let the window through, and where its patch is.
__device__ inline bool find_patch(const WeightCall& call, int64_t window, int64_t group, int64_t channel, Patch* patch) {
  const ConvParams& p = call.shape.p;
  Pixel at = pixel_at(window, call.shape.rows, call.shape.columns, call.windows);
  const int64_t o = group * call.shape.outputs + channel;
  const int chosen = static_cast<const uint8_t*>(call.argmax.dy.data)[call.argmax.place(at) + o * call.argmax.strides[1]];
  const uint32_t gradient = call.dy.read(call.dy.place(at), o), value = p.relu != 0 ? call.y.read(call.y.place(at), o) : 0;
  if (p.relu != 0 && !(call.y.number(value) > 0)) return false;
  const int row_of_window = chosen / p.pool[1];
  at.row = (at.row * p.pool[0] + row_of_window) * p.stride[0] - p.padding[0];
  at.column = (at.column * p.pool[1] + chosen - row_of_window * p.pool[1]) * p.stride[1] - p.padding[2];
  *patch = {call.x.place(at) + group * call.shape.inputs * call.x.strides[1], at.row, at.column, call.dy.number(gradient)};
  return true;
}

__device__ inline float element_of(const WeightCall& call, const Patch& patch, const Own& own, int s) {
  const auto row = static_cast<uint32_t>(patch.row + own.taps[s].row), column = static_cast<uint32_t>(patch.column + own.taps[s].column);
  const bool inside = own.there[s] && (!call.padded || (row < call.shape.height && column < call.shape.width));
  return inside ? call.x.at(patch.offset + own.offsets[s], 0) : 0.0f;
}

// Every `runs`th patch, from that of the lane's run on.
template <bool kPlain>
__device__ void add_patches(const WeightCall& call, const Patch* patches, int count, int run, const Own& own, float (&sum)[kSums]) {
#pragma unroll 4
  for (int i = run; i < count; i += call.runs) {
    const Patch patch = patches[i];
    if constexpr (kPlain) {  // an element that is not there is the patch's first, whose sum is unused
      const float* const from = static_cast<const float*>(call.x.dy.data) + patch.offset;
      for (int s = 0; s < kSums; ++s) sum[s] = fmaf(patch.gradient, from[own.offsets[s]], sum[s]);
    } else {
      for (int s = 0; s < kSums; ++s) sum[s] = fmaf(patch.gradient, element_of(call, patch, own, s), sum[s]);
    }
  }
}

// Over the runs of lanes, in their order, to all lanes of the first.
__device__ inline void join_runs(const WeightCall& call, float (&sum)[kSums]) {
  for (int s = 0; s < kSums; ++s) {
    const float own = sum[s];
#pragma unroll 1
    for (int run = 1; run < call.runs; ++run) sum[s] += __shfl_sync(kAllLanes, own, (lane_of_warp() + run * call.lanes) % kWarp);
  }
}

__global__ void __launch_bounds__(kThreads)
    pooled_weights_kernel(const __grid_constant__ WeightCall call, float* parts, uint32_t* counters) {
  begin_kernel();
  const int lane = lane_of_warp(), run = lane / call.lanes;
  const int64_t tile = divide(blockIdx.x, call.parts, INT32_MAX), part = blockIdx.x - tile * call.parts;
  const int64_t block = divide(tile, call.chunks, INT32_MAX), group = divide(block, call.channel_blocks, INT32_MAX);
  const int64_t channel = (block - group * call.channel_blocks) * kOutputs + warp_of_block();
  const Own own(call, (tile - block * call.chunks) * call.chunk, lane);
  Patch* const patches = reinterpret_cast<Patch*>(patch_room()) + warp_of_block() * kWarp;
  const int64_t end = channel < call.shape.outputs ? min((part + 1) * call.part_windows, call.windows) : 0;
  float sum[kSums] = {}, bias = 0;
#pragma unroll 1
  for (int64_t first = part * call.part_windows; first < end; first += kWarp) {
    Patch found;
    const bool flows = first + lane < end && find_patch(call, first + lane, group, channel, &found);
    const uint32_t all = __ballot_sync(kAllLanes, flows);
    __syncwarp();  // the patches before are still read
    if (flows) patches[__popc(all & ((1u << lane) - 1))] = found, bias += found.gradient;
    __syncwarp();
    const int count = __popc(all);
    if (call.plain) add_patches<true>(call, patches, count, run, own, sum);
    else add_patches<false>(call, patches, count, run, own, sum);
  }
  join_runs(call, sum);
  bias = group_sum<kWarp>(bias);
  if (call.parts > 1) {
    const int64_t all = call.tiles * kPartSums;
    float* const at = parts + tile * kPartSums + warp_of_block() * (kWarp * kSums) + lane % call.lanes;
    float* const bias_at = parts + tile * kPartSums + kThreads * kSums + warp_of_block();
    if (lane == 0) bias_at[part * all] = bias;
    for (int s = 0; s < kSums; ++s)
      if (run == 0) at[part * all + s * kWarp] = sum[s];
    if (!last_to_finish(counters + tile, call.parts)) return;
    for (int s = 0; s < kSums; ++s) sum[s] = 0;
#pragma unroll 4
    for (int64_t p = run; p < call.parts; p += call.runs)
      for (int s = 0; s < kSums; ++s) sum[s] += __ldcg(at + p * all + s * kWarp);
    join_runs(call, sum);
    bias = 0;
#pragma unroll 1
    for (int64_t p = lane; p < call.parts; p += kWarp) bias += __ldcg(bias_at + p * all);
    bias = group_sum<kWarp>(bias);
  }
  if (lane == 0 && channel < call.shape.outputs && call.db.data != nullptr && tile == block * call.chunks)
    call.db.put<float>((group * call.shape.outputs + channel) * call.db_stride, bias, call.accumulate);
  if (run != 0 || channel >= call.shape.outputs) return;
  const int64_t to = (group * call.shape.outputs + channel) * call.dw.strides[0];
  for (int s = 0; s < kSums; ++s) {
    const Tap tap = own.taps[s];
    const int64_t at = to + tap.channel * call.dw.strides[1] + tap.row / call.shape.p.dilation[0] * call.dw.strides[2] +
                       tap.column / call.shape.p.dilation[1] * call.dw.strides[3];
    if (own.there[s]) call.dw.dy.put<float>(at, sum[s], call.accumulate);
  }
}

void conv2d_pool_grad_weight(const KernelCall& call) {
  const WeightCall weights(call);
  Launches on(*call.queue, "conv2d_pool_grad_weight");
  on.launch(pooled_weights_kernel, weights.tiles * weights.parts, kThreads, weights, static_cast<float*>(call.scratch), on.counters());
}

size_t scratch(const KernelCall& call) {
  const WeightCall weights(call);
  return weights.parts == 1 ? 0 : static_cast<size_t>(weights.parts * weights.tiles) * kPartSums * sizeof(float);
}

const Kernel kKernels[] = {{.op = "conv2d_pool_grad_weight",
                            .name = "windows",
                            .backend = Backend::cuda,
                            .decline = decline_unless_f32,
                            .run = conv2d_pool_grad_weight,
                            .scratch_bytes = scratch,
                            .accumulates = true}};

}  // namespace

extern const KernelList kernels_cuda_conv_pool_weight;
const KernelList kernels_cuda_conv_pool_weight = kernel_list(kKernels);

}  // namespace perigee
