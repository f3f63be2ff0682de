// Work of a training step beside the kernels of ops (step.h). All of it is small against forward and backward: the gather moves each
// row of a batch once in and once out, norms read the gradient once, constraints read and write what they bind; the rest is a few words.
// Sums have a fixed order: those of norms the host's, so that clipped updates have its bits.
#include "kernels/cuda/runtime/step.h"

#include <type_traits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace perigee {
namespace {

template <class Word>
__device__ void gather_words(const CudaGatherField& field, const int64_t* rows, int64_t n, int64_t begin, int64_t step) {
  const auto* const from = static_cast<const Word*>(field.from);
  auto* const to = static_cast<Word*>(field.to);
  const int64_t words = field.bytes / static_cast<int64_t>(sizeof(Word));
  for (int64_t i = begin; i < n * words; i += step) to[i] = from[rows[i / words] * words + i % words];
}

struct GatherGrid {
  int64_t ends[kGatherFields];  // by field: one behind its last block
};

// All fields at once: each has a run of the blocks.
__global__ void __launch_bounds__(kThreads) gather_kernel(CudaGatherCall call, GatherGrid grid) {
  begin_kernel();
  const int64_t block = blockIdx.x;
  int f = 0;
  while (block >= grid.ends[f]) ++f;
  const CudaGatherField& field = call.fields[f];
  const int64_t first = f > 0 ? grid.ends[f - 1] : 0;
  const int64_t begin = (block - first) * kThreads + threadIdx.x, step = (grid.ends[f] - first) * kThreads;
  if (field.bytes % 16 == 0) gather_words<uint4>(field, call.rows, call.n, begin, step);
  else if (field.bytes % 4 == 0) gather_words<uint32_t>(field, call.rows, call.n, begin, step);
  else gather_words<uint8_t>(field, call.rows, call.n, begin, step);
}

void gather(const CudaGatherCall& call, CudaQueue& queue) {
  Launches on(queue, "gather_rows");
  GatherGrid grid = {};
  int64_t blocks = 0;
  for (int f = 0; f < call.count; ++f) {
    const int64_t bytes = call.fields[f].bytes, word = bytes % 16 == 0 ? 16 : bytes % 4 == 0 ? 4 : 1;
    blocks += blocks_for(call.n * (bytes / word));
    grid.ends[f] = blocks;
  }
  on.launch(gather_kernel, blocks, kThreads, call, grid);
}

__device__ inline double number_at(const View& view, int64_t i) {
  return view.dtype == Dtype::f64 ? static_cast<const double*>(view.data)[i] : static_cast<double>(static_cast<const float*>(view.data)[i]);
}

// By a warp: whether the first of a row's largest elements is where the label says.
__device__ inline bool answers_rightly(const CudaJudgeCall& call, int64_t row) {
  const int64_t classes = call.output.dims[1], first = row * classes;
  int64_t at = min(static_cast<int64_t>(lane_of_warp()), classes - 1);
  double best = number_at(call.output, first + at);
  for (int64_t i = at + kWarp; i < classes; i += kWarp) {
    const double value = number_at(call.output, first + i);
    if (value > best) best = value, at = i;
  }
  for (int other = kWarp / 2; other > 0; other /= 2) {
    const double value = __shfl_sync(kAllLanes, best, lane_of_warp() ^ other);
    const int64_t where = __shfl_sync(kAllLanes, at, lane_of_warp() ^ other);
    if (value > best || (value == best && where < at)) best = value, at = where;
  }
  return at == call.labels[row];
}

__device__ inline void conclude(double loss, int64_t correct, int32_t* stopped, CudaUpdate* update, CudaStepRecord* record) {
  if (!(fabs(loss) <= 1.7976931348623157e308)) *stopped = 1;
  if (update != nullptr) update->skip = *stopped;
  record->loss_sum = loss;
  record->gradient_norm = -1;
  record->correct = correct;
  record->stopped = *stopped;
  record->overflowed = 0;
  record->seed = 0;
}

// A warp a row; the block that is done last sums up. The counter's upper half counts the blocks that are done.
__global__ void __launch_bounds__(kThreads) judge_kernel(CudaJudgeCall call) {
  begin_kernel();
  __shared__ double sums[kThreads];
  __shared__ int last;
  auto* const counter = reinterpret_cast<unsigned long long*>(call.counter);
  const int64_t row = warp_of_grid();
  if (call.output.data != nullptr && row < call.output.dims[0]) {
    const bool right = answers_rightly(call, row);
    if (lane_of_warp() == 0 && right) atomicAdd(counter, 1ull);  // of integers: any order will do
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(counter, 1ull << 32) >> 32 == gridDim.x - 1;
  double own = 0;
  for (int64_t i = threadIdx.x; i < call.loss.dims[0]; i += kThreads) own += number_at(call.loss, i);
  sums[threadIdx.x] = own;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x != 0 || !last) return;
  const double sum = sums[0];
  const auto correct = static_cast<int64_t>(atomicAdd(counter, 0ull) & 0xffffffffu);
  if (call.shares == nullptr) {
    conclude(sum, correct, call.stopped, call.update, call.record);
  } else {
    call.shares[0] = sum, call.shares[1] = static_cast<double>(correct), call.shares[2] = *call.stopped;
  }
  *counter = 0;
}

void judge(const CudaJudgeCall& call, CudaQueue& queue) {
  Launches on(queue, "judge");
  const int64_t rows = call.output.data != nullptr ? call.output.dims[0] : 0;
  on.launch(judge_kernel, rows > 0 ? ceil_divide(rows, kThreads / kWarp) : 1, kThreads, call);
}

__device__ inline CudaUpdateWindow* windows_of(CudaUpdate* update) { return reinterpret_cast<CudaUpdateWindow*>(update + 1); }

constexpr int kLanes = 8;  // of block_math's sums of squares

// Eight threads a piece, each the sum of every eighth element.
template <class T>
__global__ void __launch_bounds__(kThreads)
    squares_kernel(const T* gradient, CudaUpdate* update, const int64_t* pieces, int64_t piece_count, double* sums) {
  begin_kernel();
  const int64_t piece = thread_of_grid() / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  double own = 0;
  if (piece < piece_count) {
    int low = 0, high = update->windows;  // the last window whose first piece is not behind this one
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (pieces[middle] <= piece) low = middle;
      else high = middle;
    }
    const CudaUpdateWindow& window = windows_of(update)[low];
    const int64_t begin = window.begin + (piece - pieces[low]) * kNormPiece, end = min(window.end, begin + kNormPiece);
#pragma unroll 8  // so many loads in flight
    for (int64_t i = begin + lane; i < end; i += kLanes) own += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
  }
  for (int other = 1; other < kLanes; other *= 2) own += __shfl_xor_sync(kAllLanes, own, other);
  if (lane == 0 && piece < piece_count) sums[piece] = own;
}

// One block: a warp for each window's pieces, in turns; then a thread for each group, in turns, and one for the whole.
__global__ void __launch_bounds__(kThreads) norms_kernel(CudaNormCall call) {
  begin_kernel();
  CudaUpdateWindow* const windows = windows_of(call.update);
  const auto scale_of = [&](int window) { return windows[window].params.gradient_scale; };
  const double scale = call.windows > 0 ? scale_of(0) : 0;  // the same for all, until here
  double* const by_window = call.sums + call.piece_count;
  for (int w = warp_of_block(); w < call.windows; w += kThreads / kWarp) {
    double sum = 0;
    for (int64_t piece = call.pieces[w] + lane_of_warp(); piece < call.pieces[w + 1]; piece += kWarp) sum += call.sums[piece];
    for (int other = kWarp / 2; other > 0; other /= 2) sum += __shfl_xor_sync(kAllLanes, sum, other);
    if (lane_of_warp() == 0) by_window[w] = sum;
  }
  __syncthreads();
  for (int group = static_cast<int>(threadIdx.x); group <= call.group_count; group += kThreads) {
    const bool whole = group == call.group_count;
    double sum = 0;
    for (int w = 0; w < call.windows; ++w)
      if (whole || call.groups[w] == group) sum += by_window[w];
    const double norm = sqrt(sum) * fabs(scale);
    if (whole) {
      call.record->gradient_norm = norm;
      continue;
    }
    double factor = 1;
    if (call.kind == CudaNorms::renormalize) factor = norm > 0 ? 1 / norm : 1;
    else if (norm > call.threshold) factor = call.threshold / norm;
    for (int w = 0; w < call.windows; ++w)
      if (call.groups[w] == group) windows[w].params.gradient_scale = scale * factor;
  }
}

void norms(const CudaNormCall& call, CudaQueue& queue) {
  Launches on(queue, "norms");
  const int64_t blocks = ceil_divide(call.piece_count * kLanes, kThreads);
  if (call.dtype == Dtype::f64)
    on.launch(squares_kernel<double>, blocks, kThreads, static_cast<const double*>(call.gradient), call.update, call.pieces,
              call.piece_count, call.sums);
  else
    on.launch(squares_kernel<float>, blocks, kThreads, static_cast<const float*>(call.gradient), call.update, call.pieces, call.piece_count,
              call.sums);
  on.launch(norms_kernel, 1, kThreads, call);
}

// A thread a vector, its elements one after the other as on the host: constraints are rare and small, their bits are not.
template <class T>
__global__ void __launch_bounds__(kThreads) constrain_kernel(CudaConstraint call) {
  begin_kernel();
  if (call.update->skip != 0) return;
  for (int64_t i = thread_of_grid(); i < call.vectors; i += threads_of_grid()) {
    T* const vector = static_cast<T*>(call.block) + call.starts[i];
    if (call.non_negative) {
      for (int64_t k = 0; k < call.elements; ++k)
        if (vector[call.members[k]] < T(0)) vector[call.members[k]] = T(0);
      continue;
    }
    double square = 0;
    for (int64_t k = 0; k < call.elements; ++k) {
      const double value = static_cast<double>(vector[call.members[k]]);
      square += value * value;
    }
    constexpr double kTiny = 1e-6;
    const double norm = sqrt(square), wanted = norm < call.low ? call.low : norm > call.high ? call.high : norm;
    if (norm == wanted) continue;
    const T factor = static_cast<T>((call.rate * wanted + (1 - call.rate) * norm) / (norm + kTiny));
    for (int64_t k = 0; k < call.elements; ++k) vector[call.members[k]] *= factor;
  }
}

void constrain(const CudaConstraint& call, CudaQueue& queue) {
  Launches on(queue, "constrain");
  if (call.dtype == Dtype::f64) on.launch(constrain_kernel<double>, blocks_for(call.vectors), kThreads, call);
  else on.launch(constrain_kernel<float>, blocks_for(call.vectors), kThreads, call);
}

constexpr int kCommitted = 128, kCommitBlocks = 8;  // states a launch, blocks a state

struct Commits {
  CudaCommit states[kCommitted];
};

__global__ void __launch_bounds__(kThreads) commit_kernel(Commits commits, const int32_t* stopped) {
  begin_kernel();
  if (*stopped != 0) return;
  const CudaCommit& state = commits.states[blockIdx.x / kCommitBlocks];
  const int64_t first = (blockIdx.x % kCommitBlocks) * kThreads + threadIdx.x, step = kCommitBlocks * kThreads;
  if (state.bytes % 4 == 0) {
    for (int64_t i = first; i < state.bytes / 4; i += step)
      static_cast<uint32_t*>(state.to)[i] = static_cast<const uint32_t*>(state.from)[i];
    return;
  }
  for (int64_t i = first; i < state.bytes; i += step) static_cast<uint8_t*>(state.to)[i] = static_cast<const uint8_t*>(state.from)[i];
}

void commit(const CudaCommit* states, size_t count, const int32_t* stopped, CudaQueue& queue) {
  Launches on(queue, "commit");
  for (size_t begin = 0; begin < count; begin += kCommitted) {
    Commits some = {};
    const size_t n = min(size_t{kCommitted}, count - begin);
    for (size_t i = 0; i < n; ++i) some.states[i] = states[begin + i];
    on.launch(commit_kernel, static_cast<int64_t>(n) * kCommitBlocks, kThreads, some, stopped);
  }
}

// The host wrote the image before it knew whether the step before was skipped: the windows are those of what is so.
__global__ void __launch_bounds__(kThreads) begin_scaled_kernel(CudaScaleCall call) {
  begin_kernel();
  const float seed = call.scale->scale.scale / static_cast<float>(call.of);
  for (int64_t i = thread_of_grid(); i < call.examples; i += threads_of_grid()) call.seeds[i] = seed;
  if (blockIdx.x != 0) return;
  if (threadIdx.x == 0) call.scale->seed = seed, call.scale->found = 0;
  if (call.update == nullptr) return;
  CudaUpdateWindow* const windows = windows_of(call.update);
  const int count = call.update->windows;
  const bool more = call.scale->scale.skipped > call.update->skipped;
  for (int w = static_cast<int>(threadIdx.x); w < count; w += kThreads) {
    if (more) windows[w].params = windows[count + w].params;
    windows[w].params.gradient_scale *= 1 / static_cast<double>(seed);
  }
}

// Reads the gradient once: 4 bytes an element.
__global__ void __launch_bounds__(kThreads) finite_kernel(const uint4* gradient, int64_t n, int32_t* found) {
  begin_kernel();
  bool bad = false;
  const auto look = [&](uint32_t bits) { bad = bad || (bits & 0x7f800000u) == 0x7f800000u; };
  for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) {
    const uint4 four = gradient[i];
    look(four.x), look(four.y), look(four.z), look(four.w);
  }
  if (bad) *found = 1;  // every writer writes the same value
}

__global__ void __launch_bounds__(kWarp) end_scaled_kernel(CudaScaleCall call) {
  begin_kernel();
  if (threadIdx.x != 0) return;
  LossScale scale = call.scale->scale;
  CudaStepRecord& record = *call.record;
  record.seed = call.scale->seed;
  if (*call.stopped == 0) {
    const bool bad = call.gradient != nullptr ? call.scale->found != 0 : !(record.gradient_norm <= 1.7976931348623157e308);
    if (bad) scale.overflowed();
    else scale.finite();
    if (bad && call.update != nullptr) ++scale.skipped, call.update->skip = 1;
    if (bad) record.gradient_norm = -1;
    record.overflowed = bad;
    if (scale.hopeless()) *call.stopped = 1, record.stopped = 1;
    call.scale->scale = scale;
  }
  record.scale = scale;
}

void begin_scaled(const CudaScaleCall& call, CudaQueue& queue) {
  Launches on(queue, "begin_scaled");
  on.launch(begin_scaled_kernel, blocks_for(std::max<int64_t>(call.examples, 1)), kThreads, call);
}

void end_scaled(const CudaScaleCall& call, CudaQueue& queue) {
  Launches on(queue, "end_scaled");
  const int64_t words = call.elements / 4;
  if (call.gradient != nullptr)
    on.launch(finite_kernel, blocks_for(words), kThreads, reinterpret_cast<const uint4*>(call.gradient), words, &call.scale->found);
  on.launch(end_scaled_kernel, 1, kWarp, call);
}

// ((a + b) + (c + d)) + ...: neighbours first, one without a neighbour goes up as it is.
template <class T>
__global__ void __launch_bounds__(kThreads) combine_kernel(CudaCombineCall call) {
  begin_kernel();
  for (int64_t i = thread_of_grid(); i < call.elements; i += threads_of_grid()) {
    T values[kMostGpus];
#pragma unroll 1
    for (int p = 0; p < call.n; ++p) values[p] = static_cast<const T*>(call.parts[p])[i];
#pragma unroll 1
    for (int step = 1; step < call.n; step *= 2)
#pragma unroll 1
      for (int p = 0; p + step < call.n; p += 2 * step) {
        if constexpr (std::is_integral_v<T>) values[p] = max(values[p], values[p + step]);
        else values[p] += values[p + step];
      }
    static_cast<T*>(call.to)[i] = values[0];
  }
}

void combine(const CudaCombineCall& call, CudaQueue& queue) {
  Launches on(queue, "combine");
  const int64_t blocks = blocks_for(call.elements);
  if (call.dtype == Dtype::f64) on.launch(combine_kernel<double>, blocks, kThreads, call);
  else if (call.dtype == Dtype::i64) on.launch(combine_kernel<int64_t>, blocks, kThreads, call);
  else on.launch(combine_kernel<float>, blocks, kThreads, call);
}

__global__ void settle_kernel(CudaSettleCall call) {
  begin_kernel();
  if (threadIdx.x != 0) return;
  if (call.shares[2] > 0) *call.stopped = 1;
  conclude(call.shares[0], static_cast<int64_t>(call.shares[1]), call.stopped, call.update, call.record);
}

void settle(const CudaSettleCall& call, CudaQueue& queue) {
  Launches on(queue, "settle");
  on.launch(settle_kernel, 1, kWarp, call);
}

template <class T>
__global__ void __launch_bounds__(kThreads) weigh_kernel(CudaWeighCall call) {
  begin_kernel();
  if (*call.stopped != 0) return;
  for (int64_t i = thread_of_grid(); i < call.elements; i += threads_of_grid()) {
    const int64_t mean_at = i + call.mean_at[i];
    if (call.divide) {
      const double* const sums = static_cast<const double*>(call.from);
      const double value = sums[i] / call.weight, mean = sums[mean_at] / call.weight;
      static_cast<T*>(call.to)[i] = static_cast<T>(mean_at == i ? value : max(value - mean * mean, 0.0));
    } else {
      const T* const states = static_cast<const T*>(call.from);
      const double value = static_cast<double>(states[i]), mean = static_cast<double>(states[mean_at]);
      static_cast<double*>(call.to)[i] = call.weight * (mean_at == i ? value : value + mean * mean);
    }
  }
}

void weigh(const CudaWeighCall& call, CudaQueue& queue) {
  Launches on(queue, "weigh");
  if (call.dtype == Dtype::f64) on.launch(weigh_kernel<double>, blocks_for(call.elements), kThreads, call);
  else on.launch(weigh_kernel<float>, blocks_for(call.elements), kThreads, call);
}

// Reads 8 bytes an element of f32 and writes 4.
template <class T>
__global__ void __launch_bounds__(kThreads) approach_kernel(const T* from, T* to, int64_t elements, T share, const int32_t* stopped) {
  begin_kernel();
  if (*stopped != 0) return;
  for (int64_t i = thread_of_grid(); i < elements; i += threads_of_grid()) to[i] += share * (from[i] - to[i]);
}

template <class T>
void approach_in(const CudaApproachCall& call, Launches& on) {
  on.launch(approach_kernel<T>, blocks_for(call.elements), kThreads, static_cast<const T*>(call.from), static_cast<T*>(call.to),
            call.elements, static_cast<T>(call.share), call.stopped);
}

void approach(const CudaApproachCall& call, CudaQueue& queue) {
  Launches on(queue, "approach");
  if (call.dtype == Dtype::f64) approach_in<double>(call, on);
  else approach_in<float>(call, on);
}

}  // namespace

const CudaSteps& cuda_steps() {
  static const CudaSteps steps{.gather = gather,
                               .judge = judge,
                               .norms = norms,
                               .constrain = constrain,
                               .commit = commit,
                               .begin_scaled = begin_scaled,
                               .end_scaled = end_scaled,
                               .combine = combine,
                               .settle = settle,
                               .weigh = weigh,
                               .approach = approach};
  return steps;
}

}  // namespace perigee
