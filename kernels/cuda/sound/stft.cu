// Fourier transforms of frames: a block takes a frame at a time through a radix-2 transform in scratch memory, which stays in the caches since a
// block has the same for all its frames. The gradient goes back in two launches: slopes of each frame's numbers, then for each number of a
// waveform the sum over the frames that have it, in their order.
#include "kernels/ops/stft.h"

#include <algorithm>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr int64_t kMostBlocks = 2048;

struct Call {
  StftParams p;
  View x, results, steps, filters, dx;
  int64_t frames, items;  // of each waveform; of all
  void *tables, *room;    // cosines and sines of half a turn, the taper; 4 * fft numbers for each block
  void* slopes;           // [items, window]
};

template <class T>
__device__ T* numbers(const View& view) {
  return static_cast<T*>(view.data);
}

// A frame's waveform.
struct Place {
  __device__ Place(const Call& call, int64_t item)
      : frame(item % call.frames), n(item / call.frames / call.x.dims[1]), c(item / call.frames % call.x.dims[1]) {
    there = stft_there(call.steps.data ? numbers<int64_t>(call.steps) + n * call.steps.strides[0] : nullptr, call.x.dims[2]);
  }
  __device__ int64_t in(const View& view) const { return n * view.strides[0] + c * view.strides[1]; }
  int64_t frame, n, c, there;
};

template <class T>
struct Block {
  __device__ explicit Block(const Call& call)
      : size(call.p.fft),
        cosine(static_cast<T*>(call.tables)),
        sine(cosine + size / 2),
        taper(sine + size / 2),
        re(static_cast<T*>(call.room) + 4 * size * blockIdx.x),
        im(re + size),
        other_re(im + size),
        other_im(other_re + size) {}
  __device__ int64_t reversed(int64_t i) const {
    int64_t result = 0;
    for (int64_t bit = 1; bit < size; bit *= 2, i /= 2) result = 2 * result + i % 2;
    return result;
  }

  // Numbers in bit-reversed order become their transform. All threads call it, after a barrier; there is one behind it.
  __device__ void transform(T* a, T* b) const {
    for (int64_t reach = 1; reach < size; reach *= 2) {
      for (int64_t i = threadIdx.x; i < size / 2; i += blockDim.x) {
        const int64_t k = i % reach, at = i / reach * 2 * reach + k, turn = k * (size / 2 / reach);
        const T c = cosine[turn], s = sine[turn], r = a[at + reach] * c + b[at + reach] * s, m = b[at + reach] * c - a[at + reach] * s;
        a[at + reach] = a[at] - r, b[at + reach] = b[at] - m;
        a[at] += r, b[at] += m;
      }
      __syncthreads();
    }
  }

  __device__ void load(const Call& call, const Place& place) const {
    const StftParams& p = call.p;
    const T* x = numbers<T>(call.x) + place.in(call.x);
    const int64_t start = stft_start(p, place.frame);
    const auto at = [&](int64_t i) {
      const int64_t from = stft_place(p, start + i, place.there);
      return from < 0 ? T(0) : x[from * call.x.strides[2]];
    };
    for (int64_t i = threadIdx.x; i < size; i += blockDim.x) {
      const int64_t to = reversed(i);
      re[to] = i >= p.window ? T(0) : (at(i) - static_cast<T>(p.preemphasis) * at(i > 0 ? i - 1 : 0)) * taper[i];
      im[to] = 0;
    }
    __syncthreads();
  }

  // The results have this of bin k, but for an imaginary part.
  __device__ T value(const StftParams& p, int64_t k) const {
    if (p.power == 0) return re[k];
    const T square = re[k] * re[k] + im[k] * im[k];
    return p.power == 1 ? std::sqrt(square) : square;
  }

  int64_t size;
  T *cosine, *sine, *taper, *re, *im, *other_re, *other_im;
};

template <class T>
__global__ void __launch_bounds__(kThreads) stft_tables(const __grid_constant__ Call call) {
  begin_kernel();
  const int64_t half = call.p.fft / 2;
  T* cosine = static_cast<T*>(call.tables);
  for (int64_t i = thread_of_grid(); i < half + call.p.window; i += threads_of_grid()) {
    if (i >= half) {
      cosine[half + i] = static_cast<T>(stft_taper(call.p, i - half));
      continue;
    }
    const double angle = 3.14159265358979323846 * static_cast<double>(i) / static_cast<double>(half);
    cosine[i] = static_cast<T>(std::cos(angle)), cosine[half + i] = static_cast<T>(std::sin(angle));
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) stft_forward(const __grid_constant__ Call call) {
  begin_kernel();
  const StftParams& p = call.p;
  const View& y = call.results;
  const Block<T> block(call);
  const int64_t across = y.strides[y.rank - 2], rows = y.dims[y.rank - 2];
  for (int64_t item = blockIdx.x; item < call.items; item += gridDim.x) {
    const Place place(call, item);
    const bool counts = place.frame < stft_frames(p, place.there);
    block.load(call, place);
    block.transform(block.re, block.im);
    T* to = numbers<T>(y) + place.in(y) + place.frame * y.strides[y.rank - 1];
    for (int64_t row = threadIdx.x; row < rows; row += blockDim.x) {
      T sum = 0;
      if (counts && call.filters.data == nullptr) sum = block.value(p, row);
      for (int64_t k = 0; counts && call.filters.data != nullptr && k < stft_bins(p); ++k)
        sum += numbers<T>(call.filters)[row * call.filters.strides[0] + k * call.filters.strides[1]] * block.value(p, k);
      to[row * across] = sum;
      if (p.power == 0) to[y.strides[2] + row * across] = counts ? block.im[row] : T(0);
    }
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) stft_slopes(const __grid_constant__ Call call) {
  begin_kernel();
  const StftParams& p = call.p;
  const View& dy = call.results;
  const Block<T> block(call);
  const int64_t across = dy.strides[dy.rank - 2], rows = dy.dims[dy.rank - 2];
  for (int64_t item = blockIdx.x; item < call.items; item += gridDim.x) {
    const Place place(call, item);
    if (place.frame >= stft_frames(p, place.there)) continue;
    block.load(call, place);
    block.transform(block.re, block.im);
    const T* from = numbers<T>(dy) + place.in(dy) + place.frame * dy.strides[dy.rank - 1];
    for (int64_t k = threadIdx.x; k < block.size; k += blockDim.x) {
      T re = 0, im = 0;
      if (k < stft_bins(p)) {
        T slope = call.filters.data == nullptr ? from[k * across] : T(0);
        for (int64_t row = 0; call.filters.data != nullptr && row < rows; ++row)
          slope += numbers<T>(call.filters)[row * call.filters.strides[0] + k * call.filters.strides[1]] * from[row * across];
        const T size = p.power == 1 ? block.value(p, k) : T(1);
        const T factor = p.power == 2 ? 2 * slope : size > 0 ? slope / size : T(0);
        re = p.power == 0 ? slope : factor * block.re[k], im = p.power == 0 ? from[dy.strides[2] + k * across] : factor * block.im[k];
      }
      // The transform of conjugates is the conjugate of the one that goes back, whose real part is wanted.
      const int64_t to = block.reversed(k);
      block.other_re[to] = re, block.other_im[to] = -im;
    }
    __syncthreads();
    block.transform(block.other_re, block.other_im);
    T* slopes = static_cast<T*>(call.slopes) + item * p.window;
    const auto slope_of = [&](int64_t i) { return i < p.window ? block.other_re[i] * block.taper[i] : T(0); };
    for (int64_t i = threadIdx.x; i < p.window; i += blockDim.x)
      slopes[i] = slope_of(i) - static_cast<T>(p.preemphasis) * (slope_of(i + 1) + (i == 0 ? slope_of(0) : T(0)));
    __syncthreads();
  }
}

// Slopes of place `at` of the waveform with zeros or mirrors around it, over the frames that have it.
template <class T>
__device__ T slopes_at(const Call& call, const T* slopes, int64_t at, int64_t frames) {
  const StftParams& p = call.p;
  const int64_t from_first = at - stft_start(p, 0);
  if (from_first < 0) return 0;
  T sum = 0;
  const int64_t first = from_first < p.window ? 0 : (from_first - p.window) / p.hop + 1;
  for (int64_t f = first; f < frames && f * p.hop <= from_first; ++f) sum += slopes[f * p.window + from_first - f * p.hop];
  return sum;
}

template <class T>
__global__ void __launch_bounds__(kThreads) stft_backward(const __grid_constant__ Call call) {
  begin_kernel();
  const StftParams& p = call.p;
  const int64_t all = call.dx.dims[2], total = call.dx.dims[0] * call.dx.dims[1] * all;
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < total; i += threads_of_grid()) {
    const int64_t at = i % all, wave = i / all;
    const Place place(call, wave * call.frames);
    const int64_t frames = stft_frames(p, place.there), behind = stft_start(p, frames - 1) + p.window;
    const T* slopes = static_cast<const T*>(call.slopes) + wave * call.frames * p.window;
    T sum = 0;
    if (at < place.there && (!p.reflect || place.there < 2)) sum = slopes_at(call, slopes, at, frames);
    if (at < place.there && p.reflect && place.there > 1) {
      // Every place that mirrors show it at.
      const int64_t period = 2 * (place.there - 1), first = stft_start(p, 0), mirror = (period - at) % period;
      for (int side = 0; side < (mirror == at ? 1 : 2); ++side) {
        const int64_t rest = ((side == 0 ? at : mirror) - first) % period;
        for (int64_t shown = first + (rest < 0 ? rest + period : rest); shown < behind; shown += period)
          sum += slopes_at(call, slopes, shown, frames);
      }
    }
    numbers<T>(call.dx)[place.in(call.dx) + at * call.dx.strides[2]] = sum;
  }
}

// Bytes of scratch memory, each on a border of 64.
struct Sizes {
  Sizes(const StftParams& p, const View& x, const View& results, bool gradient)
      : items(x.dims[0] * x.dims[1] * results.dims[results.rank - 1]),
        // Several frames for each block bound the memory.
        blocks(std::min(ceil_divide(items, 4), kMostBlocks)),
        tables(bytes(p.fft + p.window, x)),
        room(bytes(blocks * 4 * p.fft, x)),
        slopes(gradient ? bytes(items * p.window, x) : 0) {}
  static size_t bytes(int64_t count, const View& x) { return (static_cast<size_t>(count) * dtype_bytes(x.dtype) + 63) / 64 * 64; }
  int64_t items, blocks;
  size_t tables, room, slopes;
};

template <bool kGradient>
size_t scratch_bytes(const KernelCall& call) {
  const Sizes sizes(call.as<StftParams>(), call.in[kGradient ? 1 : 0], kGradient ? call.in[0] : call.out[0], kGradient);
  return sizes.tables + sizes.room + sizes.slopes;
}

template <class T, bool kGradient>
void launch(const Call& all, int64_t blocks, Launches& on) {
  const int threads = static_cast<int>(std::clamp<int64_t>(all.p.fft / 2, kWarp, kThreads));
  on.launch(stft_tables<T>, blocks_for(all.p.fft / 2 + all.p.window), kThreads, all);
  if (!kGradient) return on.launch(stft_forward<T>, blocks, threads, all);
  on.launch(stft_slopes<T>, blocks, threads, all);
  on.launch(stft_backward<T>, blocks_for(all.dx.elements()), kThreads, all);
}

template <bool kGradient>
void run(const KernelCall& call) {
  constexpr int kFilters = kGradient ? 2 : 1, kSteps = kFilters + 1;
  const View &x = call.in[kGradient ? 1 : 0], &results = kGradient ? call.in[0] : call.out[0];
  const auto& p = call.as<StftParams>();
  const Sizes sizes(p, x, results, kGradient);
  auto* scratch = static_cast<std::byte*>(call.scratch);
  const Call all{p,
                 x,
                 results,
                 call.n_in > kSteps ? call.in[kSteps] : View(),
                 call.n_in > kFilters ? call.in[kFilters] : View(),
                 kGradient ? call.out[0] : View(),
                 results.dims[results.rank - 1],
                 sizes.items,
                 scratch,
                 scratch + sizes.tables,
                 scratch + sizes.tables + sizes.room};
  if (sizes.items == 0) return;
  Launches on(*call.queue, kGradient ? "stft_grad" : "stft");
  x.dtype == Dtype::f64 ? launch<double, kGradient>(all, sizes.blocks, on) : launch<float, kGradient>(all, sizes.blocks, on);
}

const Kernel kKernels[] = {
    {.op = "stft", .name = "frames", .backend = Backend::cuda, .run = run<false>, .scratch_bytes = scratch_bytes<false>},
    {.op = "stft_grad", .name = "frames", .backend = Backend::cuda, .run = run<true>, .scratch_bytes = scratch_bytes<true>},
};

}  // namespace

extern const KernelList kernels_cuda_stft;
const KernelList kernels_cuda_stft = kernel_list(kKernels);

}  // namespace perigee
