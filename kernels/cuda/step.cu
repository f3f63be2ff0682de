// What a training step needs beside the kernels of ops (step.h). All of it is small against forward and backward: the gather moves each
// row of a batch once in and once out, norms read the gradient once, constraints read and write what they bind; the rest is a few words.
// Sums have a fixed order: those of norms the host's, so that clipped updates have its bits.
#include "kernels/cuda/step.h"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"

namespace perigee {
namespace {

template <class Word>
__global__ void __launch_bounds__(kThreads) gather_kernel(const Word* from, const int64_t* rows, int64_t n, int64_t words, Word* to) {
  for (int64_t i = thread_of_grid(); i < n * words; i += threads_of_grid()) to[i] = from[rows[i / words] * words + i % words];
}

template <class Word>
void gather_words(const void* from, const int64_t* rows, int64_t n, size_t bytes, void* to, CudaQueue& queue) {
  const auto words = static_cast<int64_t>(bytes / sizeof(Word));
  Launches on(queue, "gather_rows");
  on.launch(gather_kernel<Word>, blocks_for(n * words), kThreads, static_cast<const Word*>(from), rows, n, words, static_cast<Word*>(to));
}

void gather_rows(const void* from, const int64_t* rows, int64_t n, size_t bytes, void* to, CudaQueue& queue) {
  if (bytes % sizeof(uint4) == 0) gather_words<uint4>(from, rows, n, bytes, to, queue);
  else if (bytes % sizeof(uint32_t) == 0) gather_words<uint32_t>(from, rows, n, bytes, to, queue);
  else gather_words<uint8_t>(from, rows, n, bytes, to, queue);
}

// A warp a row: where the first of its largest elements is.
template <class T>
__global__ void __launch_bounds__(kThreads)
    correct_kernel(const T* output, int64_t rows, int64_t classes, const int64_t* labels, int64_t* counter) {
  const int64_t row = warp_of_grid();
  if (row >= rows) return;
  const T* const values = output + row * classes;
  int64_t at = min(static_cast<int64_t>(lane_of_warp()), classes - 1);
  T best = values[at];
  for (int64_t i = at + kWarp; i < classes; i += kWarp)
    if (values[i] > best) best = values[i], at = i;
  for (int other = kWarp / 2; other > 0; other /= 2) {
    const T value = __shfl_sync(kAllLanes, best, lane_of_warp() ^ other);
    const int64_t where = __shfl_sync(kAllLanes, at, lane_of_warp() ^ other);
    if (value > best || (value == best && where < at)) best = value, at = where;
  }
  if (lane_of_warp() == 0 && at == labels[row])
    atomicAdd(reinterpret_cast<unsigned long long*>(counter), 1ull);  // of integers: any order will do
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    judge_kernel(const T* loss, int64_t n, int64_t* counter, int32_t* stopped, CudaUpdate* update, CudaStepRecord* record) {
  __shared__ double sums[kThreads];
  double own = 0;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) own += static_cast<double>(loss[i]);
  sums[threadIdx.x] = own;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const double sum = sums[0];
  if (!(fabs(sum) <= 1.7976931348623157e308)) *stopped = 1;
  if (update != nullptr) update->skip = *stopped;
  record->loss_sum = sum;
  record->gradient_norm = -1;
  record->correct = *counter;
  record->stopped = *stopped;
  record->overflowed = 0;
  record->seed = 0;
  *counter = 0;
}

template <class T>
void judge_typed(const CudaJudgeCall& call, CudaQueue& queue) {
  Launches on(queue, "judge");
  if (call.output.data != nullptr)
    on.launch(correct_kernel<T>, ceil_divide(call.output.dims[0], kThreads / kWarp), kThreads, call.output.as<const T>(),
              call.output.dims[0], call.output.dims[1], call.labels, call.counter);
  on.launch(judge_kernel<T>, 1, kThreads, call.loss.as<const T>(), call.loss.elements(), call.counter, call.stopped, call.update,
            call.record);
}

void judge(const CudaJudgeCall& call, CudaQueue& queue) {
  if (call.loss.dtype == Dtype::f64) judge_typed<double>(call, queue);
  else judge_typed<float>(call, queue);
}

__device__ inline CudaUpdateWindow* windows_of(CudaUpdate* update) { return reinterpret_cast<CudaUpdateWindow*>(update + 1); }

constexpr int kLanes = 8;  // of block_math's sums of squares

// Eight threads a piece, each the sum of every eighth element.
template <class T>
__global__ void __launch_bounds__(kThreads)
    squares_kernel(const T* gradient, CudaUpdate* update, const int64_t* pieces, int64_t piece_count, double* sums) {
  __shared__ double lanes[kThreads];
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
    for (int64_t i = begin + lane; i < end; i += kLanes) own += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
  }
  lanes[threadIdx.x] = own;
  __syncthreads();
  if (lane != 0 || piece >= piece_count) return;
  const double* const l = lanes + threadIdx.x;
  sums[piece] = ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
}

// One block: a thread for each group, in turns, and one for the whole.
__global__ void __launch_bounds__(kThreads) norms_kernel(CudaNormCall call) {
  CudaUpdateWindow* const windows = windows_of(call.update);
  const auto scale_of = [&](int window) { return windows[window].params.gradient_scale; };
  const double scale = call.windows > 0 ? scale_of(0) : 0;  // the same for all, until here
  __syncthreads();
  for (int group = static_cast<int>(threadIdx.x); group <= call.group_count; group += kThreads) {
    const bool whole = group == call.group_count;
    double sum = 0;
    for (int w = 0; w < call.windows; ++w)
      if (whole || call.groups[w] == group)
        for (int64_t piece = call.pieces[w]; piece < call.pieces[w + 1]; ++piece) sum += call.sums[piece];
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

__global__ void __launch_bounds__(kThreads) commit_kernel(uint8_t* to, const uint8_t* from, int64_t bytes, const int32_t* stopped) {
  if (*stopped != 0) return;
  for (int64_t i = thread_of_grid(); i < bytes; i += threads_of_grid()) to[i] = from[i];
}

void commit(void* to, const void* from, size_t bytes, const int32_t* stopped, CudaQueue& queue) {
  Launches on(queue, "commit");
  on.launch(commit_kernel, blocks_for(static_cast<int64_t>(bytes)), kThreads, static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from),
            static_cast<int64_t>(bytes), stopped);
}

// The host wrote the image before it knew whether the step before was skipped: the windows are those of what is so.
__global__ void __launch_bounds__(kThreads) begin_scaled_kernel(CudaScaleCall call) {
  const float seed = call.scale->scale.scale / static_cast<float>(call.examples);
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
  bool bad = false;
  const auto look = [&](uint32_t bits) { bad = bad || (bits & 0x7f800000u) == 0x7f800000u; };
  for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) {
    const uint4 four = gradient[i];
    look(four.x), look(four.y), look(four.z), look(four.w);
  }
  if (bad) *found = 1;  // whoever writes, writes the same
}

__global__ void __launch_bounds__(kWarp) end_scaled_kernel(CudaScaleCall call) {
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
  on.launch(begin_scaled_kernel, blocks_for(call.examples), kThreads, call);
}

void end_scaled(const CudaScaleCall& call, CudaQueue& queue) {
  Launches on(queue, "end_scaled");
  const int64_t words = call.elements / 4;
  if (call.gradient != nullptr)
    on.launch(finite_kernel, blocks_for(words), kThreads, reinterpret_cast<const uint4*>(call.gradient), words, &call.scale->found);
  on.launch(end_scaled_kernel, 1, kWarp, call);
}

}  // namespace

const CudaSteps& cuda_steps() {
  static const CudaSteps steps{.gather_rows = gather_rows,
                               .judge = judge,
                               .norms = norms,
                               .constrain = constrain,
                               .commit = commit,
                               .begin_scaled = begin_scaled,
                               .end_scaled = end_scaled};
  return steps;
}

}  // namespace perigee
