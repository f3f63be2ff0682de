// cast: each element is read and written once. Dense operands of 16 bits become f32 eight elements a thread, as gradients do, several
// operands at once; f32 becomes 16 bits eight elements a thread where so many lie side by side in both, and a pixel a thread where few
// planes become an image with channels last.
#include "kernels/cuda/elementwise/moves.cuh"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/divisor.cuh"
#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/cuda/halves.cuh"
#include "kernels/dtype_kinds.h"
#include "kernels/ops/cast.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

// T holds every value of the input.
template <class T>
__global__ void __launch_bounds__(kThreads) cast_kernel(Elements in, Elements out, Walk<2> walk, bool accumulate) {
  begin_kernel();
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < walk.n; i += threads_of_grid()) {
    int64_t at[2];
    locate(walk, i, at);
    const T x = in.load<T>(at[0]);
    if (accumulate) out.store<double>(at[1], out.load<double>(at[1]) + static_cast<double>(x));
    else out.store<T>(at[1], x);
  }
}

constexpr int kWidened = 64;  // operands a launch
constexpr int64_t kMostPixels = INT32_MAX;
constexpr int kMostPlanes = 4;

struct Widening {
  const uint16_t* from;
  float* to;
  int64_t n, vectors;  // of eight elements, where both are on their borders
  int64_t end;         // one behind its last block
};

struct Widenings {
  Widening of[kWidened];
  bool bf16;
};

__global__ void __launch_bounds__(kThreads) widen_kernel(const __grid_constant__ Widenings all) {
  begin_kernel();
  int which = 0;
  while (blockIdx.x >= all.of[which].end) ++which;
  const Widening& own = all.of[which];
  const int64_t first = which > 0 ? all.of[which - 1].end : 0, step = (own.end - first) * kThreads;
  const int64_t begin = (blockIdx.x - first) * kThreads + threadIdx.x;
  const auto bits = [&](uint32_t half) { return bits_from_float(float_from_half(static_cast<uint16_t>(half), all.bf16)); };
#pragma unroll 1
  for (int64_t i = begin; i < own.vectors; i += step) {
    const uint4 raw = reinterpret_cast<const uint4*>(own.from)[i];
    auto* const to = reinterpret_cast<uint4*>(own.to) + 2 * i;
    to[0] = {bits(raw.x), bits(raw.x >> 16), bits(raw.y), bits(raw.y >> 16)};
    to[1] = {bits(raw.z), bits(raw.z >> 16), bits(raw.w), bits(raw.w >> 16)};
  }
#pragma unroll 1
  for (int64_t i = 8 * own.vectors + begin; i < own.n; i += step) own.to[i] = float_from_half(own.from[i], all.bf16);
}

void widen(const KernelCall& call) {
  Launches on(*call.queue, "cast");
  for (int done = 0; done < call.n_out;) {
    Widenings all = {.bf16 = call.in[0].dtype == Dtype::bf16};
    int64_t blocks = 0;
    for (int k = 0; k < kWidened && done < call.n_out; ++k, ++done) {
      const View &in = call.in[done], &out = call.out[done];
      const int64_t n = out.elements();
      blocks += max(int64_t{1}, blocks_for(n / 8));
      all.of[k] = {in.as<uint16_t>(), out.as<float>(), n, on_vector_border(in.data) && on_vector_border(out.data) ? n / 8 : 0, blocks};
    }
    on.launch(widen_kernel, blocks, kThreads, all);
  }
}

// [outer, middle, columns] of which columns lie side by side in both operands, eight of them a thread's.
struct Rows {
  int32_t n = 0;  // eights
  Divisor columns, middle;
  int64_t from[2], to[2];  // strides of outer and middle
};

__global__ void __launch_bounds__(kThreads) narrow_kernel(const float* from, uint16_t* to, Rows rows, bool bf16) {
  begin_kernel();
  const int64_t i = thread_of_grid();
  if (i >= rows.n) return;
  auto outer = static_cast<uint32_t>(i);
  const int column = 8 * rows.columns.take(outer), middle = rows.middle.take(outer);
  const auto* const x = reinterpret_cast<const float4*>(from + outer * rows.from[0] + middle * rows.from[1] + column);
  const float4 low = x[0], high = x[1];
  *reinterpret_cast<uint4*>(to + outer * rows.to[0] + middle * rows.to[1] + column) = {
      halves_from_floats(low.x, low.y, bf16), halves_from_floats(low.z, low.w, bf16), halves_from_floats(high.x, high.y, bf16),
      halves_from_floats(high.z, high.w, bf16)};
}

bool narrow(Launches& on, const KernelCall& call, const Walk<2>& walk) {
  const View &in = call.in[0], &out = call.out[0];
  if (call.accumulate || in.dtype != Dtype::f32 || !is_half(out.dtype) || walk.rank < 1 || walk.rank > 3) return false;
  if (!on_vector_border(in.data) || !on_vector_border(out.data) || walk.n == 0 || walk.n / 8 > INT32_MAX) return false;
  const int inner = walk.rank - 1;
  if (walk.strides[0][inner] != 1 || walk.strides[1][inner] != 1 || walk.dims[inner] % 8 != 0) return false;
  Rows rows{.n = static_cast<int32_t>(walk.n / 8), .columns = Divisor(walk.dims[inner] / 8), .from = {}, .to = {}};
  if (inner > 0) rows.middle = Divisor(walk.dims[inner - 1]);
  for (int d = 0; d < inner; ++d) {
    if (walk.strides[0][d] % 4 != 0 || walk.strides[1][d] % 8 != 0) return false;
    rows.from[d + 2 - inner] = walk.strides[0][d], rows.to[d + 2 - inner] = walk.strides[1][d];
  }
  on.launch(narrow_kernel, ceil_divide(rows.n, kThreads), kThreads, in.as<const float>(), out.as<uint16_t>(), rows,
            out.dtype == Dtype::bf16);
  return true;
}

// Converts image after image, each of `pixels` pixels in one plane per channel: one thread per pixel.
__global__ void __launch_bounds__(kThreads)
    planes_kernel(const float* from, uint16_t* to, Divisor pixels, int channels, int32_t n, bool bf16) {
  begin_kernel();
  const int64_t i = thread_of_grid();
  if (i >= n) return;
  auto image = static_cast<uint32_t>(i);
  const int pixel = pixels.take(image);
  const float* const first = from + int64_t{image} * channels * pixels.by + pixel;
  float x[kMostPlanes] = {};
  for (int c = 0; c < kMostPlanes; ++c)
    if (c < channels) x[c] = first[int64_t{c} * pixels.by];
  for (int c = 0; c < kMostPlanes; ++c)
    if (c < channels) to[i * channels + c] = half_from_float(x[c], bf16);
}

bool planes(Launches& on, const KernelCall& call) {
  const View &in = call.in[0], &out = call.out[0];
  const int64_t pixels = in.rank == 4 ? in.dims[0] * in.dims[2] * in.dims[3] : 0;
  if (call.accumulate || in.dtype != Dtype::f32 || !is_half(out.dtype) || !in.contiguous() || !out.channels_last()) return false;
  if (pixels == 0 || pixels > kMostPixels || in.dims[1] == 0 || in.dims[1] > kMostPlanes) return false;
  on.launch(planes_kernel, ceil_divide(pixels, kThreads), kThreads, in.as<const float>(), out.as<uint16_t>(),
            Divisor(in.dims[2] * in.dims[3]), static_cast<int>(in.dims[1]), static_cast<int32_t>(pixels), out.dtype == Dtype::bf16);
  return true;
}

bool widens(const View& in, const View& out) {
  if (!is_half(in.dtype) || out.dtype != Dtype::f32) return false;
  return (in.contiguous() && out.contiguous()) || (in.rank == 4 && in.channels_last() && out.channels_last());
}

const char* decline(const KernelCall& call) {
  if (call.n_out == 1) return nullptr;
  for (int i = 0; i < call.n_out; ++i)
    if (call.in[i].dtype != call.in[0].dtype || call.accumulate || !widens(call.in[i], call.out[i]))
      return "of several operands only contiguous ones of one type of 16 bits, to f32";
  return nullptr;
}

void cast(const KernelCall& call) {
  if (call.n_out > 1 || (!call.accumulate && widens(call.in[0], call.out[0]))) return widen(call);
  Launches on(*call.queue, "cast");
  const Walk<2> walk = make_walk<2>(call.out[0], {&call.in[0], &call.out[0]});
  if (planes(on, call) || narrow(on, call, walk)) return;
  cast_elements(on, call.in[0], call.out[0], walk, call.accumulate);
}

const Kernel kKernels[] = {{.op = "cast", .name = "cast", .backend = Backend::cuda, .decline = decline, .run = cast, .accumulates = true}};

}  // namespace

void cast_elements(Launches& on, const View& in, const View& out, const Walk<2>& walk, bool accumulate) {
  with_computing_type(in.dtype, [&](auto zero) {
    on.launch(cast_kernel<decltype(zero)>, blocks_for(walk.n), kThreads, Elements(in), Elements(out), walk, accumulate);
  });
}

extern const KernelList kernels_cuda_cast;
const KernelList kernels_cuda_cast = kernel_list(kKernels);

}  // namespace perigee
