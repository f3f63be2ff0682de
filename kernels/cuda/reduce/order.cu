// Ops along lines. arg_sort: each element counts those of its line that come before it, which is its place: n comparisons an element, without
// exchanging anything, for lines of up to some ten thousands. take_along reads and writes each result once; put_along asks for each element of
// the result which updates are its own, so that they are added in their order.
#include "kernels/ops/order.h"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/cuda/elementwise/walk.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

struct LineCall {
  Elements x, places, out;
  Walk<4> lines;        // x, places, out; where the thread is on its line
  int64_t size, count;  // of the lines of x (or of the updates), and of out
  int64_t x_stride, places_stride, out_stride;
  bool descending, accumulate;
};

// Operand lines: dimension `axis` has stride 0. `threads` has a thread for each of its elements.
LineCall line_call(const View& threads, const View& x, const View* places, const View& out, int axis) {
  const auto line_of = [&](const View& view) {
    View line = threads;
    for (int d = 0; d < threads.rank; ++d) line.strides[d] = d == axis ? 0 : view.strides[d];
    return line;
  };
  View number = threads;
  for (int d = 0; d < threads.rank; ++d) number.strides[d] = d == axis;
  const View x_line = line_of(x), out_line = line_of(out), places_line = places ? line_of(*places) : View{};
  return {.x = Elements(x),
          .places = places ? Elements(*places) : Elements(),
          .out = Elements(out),
          .lines = make_walk<4>(threads, {&x_line, places ? &places_line : nullptr, &out_line, &number}),
          .size = x.dims[axis],
          .count = out.dims[axis],
          .x_stride = x.strides[axis],
          .places_stride = places ? places->strides[axis] : 0,
          .out_stride = out.strides[axis]};
}

// Whether a at place i comes before b at place j: NaN last, of equal ones the first.
template <class T>
__device__ bool comes_before(bool descending, T a, int64_t i, T b, int64_t j) {
  if (a == b || (a != a && b != b)) return i < j;
  if (a != a || b != b) return b != b;
  return descending ? b < a : a < b;
}

template <class T>
__global__ void __launch_bounds__(kThreads) arg_sort_kernel(const __grid_constant__ LineCall call) {
  begin_kernel();
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < call.lines.n; i += threads_of_grid()) {
    int64_t at[4];
    locate(call.lines, i, at);
    const T own = call.x.load<T>(at[0] + at[3] * call.x_stride);
    int64_t rank = 0;
#pragma unroll 1
    for (int64_t k = 0; k < call.size; ++k) rank += comes_before(call.descending, call.x.load<T>(at[0] + k * call.x_stride), k, own, at[3]);
    if (rank < call.count) call.out.store<int64_t>(at[2] + rank * call.out_stride, at[3]);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) take_along_kernel(const __grid_constant__ LineCall call) {
  begin_kernel();
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < call.lines.n; i += threads_of_grid()) {
    int64_t at[4];
    locate(call.lines, i, at);
    const int64_t place = call.places.load<int64_t>(at[1] + at[3] * call.places_stride);
    const bool inside = place >= 0 && place < call.size;
    const T value = inside ? call.x.load<T>(at[0] + place * call.x_stride) : std::numeric_limits<T>::quiet_NaN();
    call.out.put<T>(at[2] + at[3] * call.out_stride, value, call.accumulate);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) put_along_kernel(const __grid_constant__ LineCall call) {
  begin_kernel();
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < call.lines.n; i += threads_of_grid()) {
    int64_t at[4];
    locate(call.lines, i, at);
    const int64_t to = at[2] + at[3] * call.out_stride;
    T sum = call.accumulate ? call.out.load<T>(to) : T(0);
#pragma unroll 1
    for (int64_t k = 0; k < call.size; ++k)
      if (call.places.load<int64_t>(at[1] + k * call.places_stride) == at[3]) sum += call.x.load<T>(at[0] + k * call.x_stride);
    call.out.store<T>(to, sum);
  }
}

void arg_sort(const KernelCall& call) {
  const auto& params = call.as<SortParams>();
  LineCall all = line_call(call.in[0], call.in[0], nullptr, call.out[0], params.axis);
  all.descending = params.descending;
  Launches on(*call.queue, "arg_sort");
  with_computing_type(call.in[0].dtype,
                      [&](auto zero) { on.launch(arg_sort_kernel<decltype(zero)>, blocks_for(all.lines.n), kThreads, all); });
}

void take_along(const KernelCall& call) {
  LineCall all = line_call(call.out[0], call.in[0], &call.in[1], call.out[0], call.as<AlongParams>().axis);
  all.accumulate = call.accumulate;
  Launches on(*call.queue, "take_along");
  with_computing_type(call.in[0].dtype,
                      [&](auto zero) { on.launch(take_along_kernel<decltype(zero)>, blocks_for(all.lines.n), kThreads, all); });
}

void put_along(const KernelCall& call) {
  LineCall all = line_call(call.out[0], call.in[0], &call.in[1], call.out[0], call.as<AlongParams>().axis);
  all.accumulate = call.accumulate;
  Launches on(*call.queue, "put_along");
  with_computing_type(call.in[0].dtype,
                      [&](auto zero) { on.launch(put_along_kernel<decltype(zero)>, blocks_for(all.lines.n), kThreads, all); });
}

const Kernel kKernels[] = {
    {.op = "arg_sort", .name = "ranks", .backend = Backend::cuda, .run = arg_sort},
    {.op = "take_along", .name = "lines", .backend = Backend::cuda, .run = take_along, .accumulates = true},
    {.op = "put_along", .name = "lines", .backend = Backend::cuda, .run = put_along, .accumulates = true},
};

}  // namespace

extern const KernelList kernels_cuda_order;
const KernelList kernels_cuda_order = kernel_list(kKernels);

}  // namespace perigee
