// update_<rule>: one launch for all windows of a block (update.h). The gradient, the parameter and each state are read once, parameter and
// states written once: 28 bytes an element for Adam, and 6 more where mixed precision keeps the parameters in 16 bits too. A block of threads
// takes one run of the parameters, so that its threads seldom come to another window, whose scalars they then read and round. The bits are the
// host's: the same arithmetic (update_rules.h), and no contraction in this module.
#include "kernels/cuda/runtime/update.h"

#include <array>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/halves.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/ops/update_rules.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr int kMaxSlots = 3;
constexpr int64_t kMostBlocks = 4096;

struct Block {
  const float* gradient;
  float* parameter;
  float* state[kMaxSlots];
  int64_t n;
  uint16_t* half;  // may be null
  bool bf16;
};

template <class Rule>
struct Updater {
  __device__ explicit Updater(const UpdateParams& params)
      : prepare(params), step(params), full(update::Gradient<float>::wanted(params)), decay(float(params.decay)) {}

  __device__ void operator()(float gradient, float& parameter, float (&state)[kMaxSlots]) const {
    const float g = full ? prepare.full(gradient, parameter) : prepare.plain(gradient);
    float delta;
    if constexpr (Rule::kSlots == 0) delta = step(g);
    if constexpr (Rule::kSlots == 1) delta = step(g, state[0]);
    if constexpr (Rule::kSlots == 2) delta = step(g, state[0], state[1]);
    if constexpr (Rule::kSlots == 3) delta = step(g, state[0], state[1], state[2]);
    parameter = (parameter - decay * parameter) - delta;
  }

  update::Gradient<float> prepare;
  typename Rule::template Step<float> step;
  bool full;
  float decay;
};

// The parameters of a block's run in 16 bits: each thread those that it has updated, which it need not wait for. A function of its own, which
// all rules share.
__device__ __attribute__((noinline)) void round_run(const float* from, uint16_t* to, bool bf16, int64_t begin, int64_t end) {
  constexpr int kLanes = Vector<float>::kLanes;
#pragma unroll 1
  for (int64_t i = begin + int64_t{threadIdx.x} * kLanes; i < end; i += int64_t{blockDim.x} * kLanes) {
    if (i + kLanes <= end) {
      const Vector<float> p = *reinterpret_cast<const Vector<float>*>(from + i);
      const auto pair = [&](int l) {
        return half_from_float(p.lane[l], bf16) | static_cast<uint32_t>(half_from_float(p.lane[l + 1], bf16)) << 16;
      };
      *reinterpret_cast<uint2*>(to + i) = {pair(0), pair(2)};
    } else {
      for (int64_t j = i; j < end; ++j) to[j] = half_from_float(from[j], bf16);
    }
  }
}

// Elements i .. i + kLanes - 1, all of them in the window.
template <class Rule>
__device__ void update_vector(const Updater<Rule>& update, const Block& block, int64_t i) {
  const auto at = [&](float* array) -> Vector<float>& { return *reinterpret_cast<Vector<float>*>(array + i); };
  const Vector<float> gradient = *reinterpret_cast<const Vector<float>*>(block.gradient + i);
  Vector<float> parameter = at(block.parameter), states[kMaxSlots] = {};
  for (int s = 0; s < Rule::kSlots; ++s) states[s] = at(block.state[s]);
  for (int l = 0; l < Vector<float>::kLanes; ++l) {
    float state[kMaxSlots] = {states[0].lane[l], states[1].lane[l], states[2].lane[l]};
    update(gradient.lane[l], parameter.lane[l], state);
    for (int s = 0; s < Rule::kSlots; ++s) states[s].lane[l] = state[s];
  }
  at(block.parameter) = parameter;
  for (int s = 0; s < Rule::kSlots; ++s) at(block.state[s]) = states[s];
}

template <class Rule>
__device__ void update_one(const Updater<Rule>& update, const Block& block, int64_t i) {
  float state[kMaxSlots] = {};
  for (int s = 0; s < Rule::kSlots; ++s) state[s] = block.state[s][i];
  update(block.gradient[i], block.parameter[i], state);
  for (int s = 0; s < Rule::kSlots; ++s) block.state[s][i] = state[s];
}

// The first window that ends behind element i.
__device__ inline int window_behind(const CudaUpdateWindow* windows, int n, int64_t i) {
  int low = 0;
  while (low < n) {
    const int middle = (low + n) / 2;
    if (windows[middle].end > i) n = middle;
    else low = middle + 1;
  }
  return low;
}

// Each block takes `run` elements. Windows begin on borders of vectors.
template <class Rule>
__global__ void __launch_bounds__(kThreads) update_kernel(const CudaUpdate* call, Block block, int64_t run) {
  begin_kernel();
  constexpr int kLanes = Vector<float>::kLanes;
  if (call->skip != 0) return;
  const auto* const windows = reinterpret_cast<const CudaUpdateWindow*>(call + 1);
  const int count = call->windows;
  const int64_t begin = blockIdx.x * run, end = min(begin + run, block.n);
  int64_t i = begin + int64_t{threadIdx.x} * kLanes;
  int window = i < end ? window_behind(windows, count, i) : count;
  while (window < count && i < end) {
    const Updater<Rule> update(windows[window].params);
    const int64_t first = windows[window].begin, last = min(windows[window].end, block.n);
    for (; i < min(last, end); i += int64_t{blockDim.x} * kLanes) {
      if (i < first) continue;
      if (i + kLanes <= last) update_vector(update, block, i);
      else
        for (int64_t j = i; j < last; ++j) update_one(update, block, j);
    }
    while (window < count && windows[window].end <= i) ++window;
  }
  if (block.half != nullptr) round_run(block.parameter, block.half, block.bf16, begin, end);
}

template <class Rule>
void run(const KernelCall& call) {
  const View half = call.n_out > kUpdateHalves ? call.out[kUpdateHalves] : View();
  Block block{call.in[0].as<float>(), call.out[0].as<float>(), {}, call.out[0].elements(), half.as<uint16_t>(), half.dtype == Dtype::bf16};
  for (int s = 1; s < call.n_out && s <= kMaxSlots; ++s) block.state[s - 1] = call.out[s].as<float>();
  constexpr int64_t kAtOnce = kThreads * Vector<float>::kLanes;
  const int64_t pieces = ceil_divide(block.n, kAtOnce), run = ceil_divide(pieces, kMostBlocks) * kAtOnce;
  Launches on(*call.queue, Rule::kOp);
  on.launch(update_kernel<Rule>, ceil_divide(block.n, run > 0 ? run : 1), kThreads, static_cast<const CudaUpdate*>(call.params), block,
            run);
}

const char* decline(const KernelCall& call) {
  if (call.in[0].dtype != Dtype::f32 || !call.in[0].contiguous()) return "only contiguous f32";
  for (int i = 0; i < call.n_out && i < kUpdateHalves; ++i)
    if (call.out[i].dtype != Dtype::f32 || !call.out[i].contiguous()) return "only contiguous f32";
  return nullptr;
}

void keep(const KernelCall&) {}

template <class Rule>
constexpr Kernel kernel() {
  return {.op = Rule::kOp, .name = "update", .backend = Backend::cuda, .decline = decline, .run = run<Rule>};
}

template <class... Rule>
constexpr std::array<Kernel, sizeof...(Rule) + 1> kernels(update::RuleList<Rule...>) {
  return {kernel<Rule>()..., Kernel{.op = "update_noop", .name = "update", .backend = Backend::cuda, .run = keep}};
}

constexpr auto kKernels = kernels(update::Rules());

}  // namespace

extern const KernelList kernels_cuda_update;
const KernelList kernels_cuda_update = {kKernels.data(), kKernels.size()};

}  // namespace perigee
