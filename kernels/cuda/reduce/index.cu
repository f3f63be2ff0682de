// gather, scatter_add and one_hot. gather reads and writes each result once. scatter_add first puts the positions in the order of their indices
// (rank_kernel: each position counts those before it, K^2 comparisons out of shared memory, no memory but K numbers), then adds each run of
// equal indices in order: no atomic sums, so the bits are the same in every run, and rows that no index names cost only their zeros.
#include "kernels/ops/index.h"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/cuda/elementwise/moves.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

// A walk over `wide` (outer..., K..., inner...): its own offset, that in the indices, that in `narrow` (outer..., A, inner...) at index 0.

Walk<3> indexed_walk(const View& wide, const View& indices, const View& narrow, int axis) {
  View index_view = wide, narrow_view = wide;
  for (int d = 0; d < wide.rank; ++d) {
    const bool indexed = d >= axis && d < axis + indices.rank;
    index_view.strides[d] = indexed ? indices.strides[d - axis] : 0;
    narrow_view.strides[d] = indexed ? 0 : narrow.strides[d < axis ? d : d - indices.rank + 1];
  }
  return make_walk<3>(wide, {&wide, &index_view, &narrow_view});
}

struct GatherCall {
  Elements x, indices, out;
  Walk<3> walk;  // out, indices, x
  int64_t choices, choice_stride;
  bool accumulate;
};

template <class T>
__global__ void __launch_bounds__(kThreads) gather_kernel(const __grid_constant__ GatherCall call) {
  begin_kernel();
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < call.walk.n; i += threads_of_grid()) {
    int64_t at[3];
    locate(call.walk, i, at);
    const int64_t chosen = call.indices.load<int64_t>(at[1]);
    const bool inside = chosen >= 0 && chosen < call.choices;
    const T value = inside ? call.x.load<T>(at[2] + chosen * call.choice_stride) : std::numeric_limits<T>::quiet_NaN();
    call.out.put<T>(at[0], value, call.accumulate);
  }
}

void gather(const KernelCall& call) {
  const View &x = call.in[0], &indices = call.in[1], &out = call.out[0];
  const int axis = call.as<IndexParams>().axis;
  const GatherCall all{Elements(x),  Elements(indices), Elements(out),  indexed_walk(out, indices, x, axis),
                       x.dims[axis], x.strides[axis],   call.accumulate};
  Launches on(*call.queue, "gather");
  with_computing_type(x.dtype, [&](auto zero) { on.launch(gather_kernel<decltype(zero)>, blocks_for(all.walk.n), kThreads, all); });
}

// sorted[r] = k, where r is how many positions have a smaller index, or the same and come before k.
__global__ void __launch_bounds__(kThreads) rank_kernel(Elements indices, const __grid_constant__ Walk<1> walk, int64_t* sorted) {
  begin_kernel();
  __shared__ int64_t room[kThreads];
  const int64_t n = walk.n, self = thread_of_grid();
  const auto index_at = [&](int64_t k) {
    int64_t at[1];
    locate(walk, k, at);
    return indices.load<int64_t>(at[0]);
  };
  const int64_t own = self < n ? index_at(self) : 0;
  int64_t rank = 0;
  for (int64_t begin = 0; begin < n; begin += kThreads) {
    __syncthreads();
    if (begin + threadIdx.x < n) room[threadIdx.x] = index_at(begin + threadIdx.x);
    __syncthreads();
    const int count = static_cast<int>(min(int64_t{kThreads}, n - begin));
    for (int j = 0; j < count; ++j) rank += room[j] < own || (room[j] == own && begin + j < self);
  }
  if (self < n) sorted[rank] = self;
}

struct ScatterCall {
  Elements updates, indices, out;
  Walk<1> positions;  // K numbers in the indices
  Walk<1> sources;    // the same numbers in the updates
  Walk<2> rest;       // the other dimensions: updates, out
  int64_t choices, choice_stride;
};

// A thread for each element of each slice; the first of a run of equal indices adds up the run.
template <class T>
__global__ void __launch_bounds__(kThreads) scatter_kernel(const __grid_constant__ ScatterCall call, const int64_t* sorted) {
  begin_kernel();
  const auto index_at = [&](int64_t r) {
    int64_t at[1];
    locate(call.positions, sorted[r], at);
    return call.indices.load<int64_t>(at[0]);
  };
  const int64_t n = call.positions.n;
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < n * call.rest.n; i += threads_of_grid()) {
    const int64_t first = divide(i, call.rest.n, n * call.rest.n), chosen = index_at(first);
    if (chosen < 0 || chosen >= call.choices || (first > 0 && index_at(first - 1) == chosen)) continue;
    int64_t at[2], source[1];
    locate(call.rest, i - first * call.rest.n, at);
    const int64_t to = at[1] + chosen * call.choice_stride;
    T sum = call.out.load<T>(to);
#pragma unroll 1
    for (int64_t r = first; r < n && index_at(r) == chosen; ++r) {
      locate(call.sources, sorted[r], source);
      sum += call.updates.load<T>(at[0] + source[0]);
    }
    call.out.store<T>(to, sum);
  }
}

void scatter_add(const KernelCall& call) {
  const View &updates = call.in[0], &indices = call.in[1], &out = call.out[0];
  const int axis = call.as<IndexParams>().axis;
  View sources = indices, rest = without_axis(out, axis), rest_updates = rest;
  for (int d = 0; d < indices.rank; ++d) sources.strides[d] = updates.strides[axis + d];
  for (int d = 0; d < rest.rank; ++d) rest_updates.strides[d] = updates.strides[d < axis ? d : d + indices.rank];
  const ScatterCall all{.updates = Elements(updates),
                        .indices = Elements(indices),
                        .out = Elements(out),
                        .positions = make_logical_walk<1>(indices, {&indices}),
                        .sources = make_logical_walk<1>(indices, {&sources}),
                        .rest = make_walk<2>(rest, {&rest_updates, &rest}),
                        .choices = out.dims[axis],
                        .choice_stride = out.strides[axis]};
  Launches on(*call.queue, "scatter_add");
  if (!call.accumulate) fill_view(on, out, 0, false);
  auto* const sorted = static_cast<int64_t*>(call.scratch);
  on.launch(rank_kernel, ceil_divide(all.positions.n, kThreads), kThreads, all.indices, all.positions, sorted);
  with_computing_type(updates.dtype, [&](auto zero) {
    on.launch(scatter_kernel<decltype(zero)>, blocks_for(all.positions.n * all.rest.n), kThreads, all, static_cast<const int64_t*>(sorted));
  });
}

size_t scatter_scratch(const KernelCall& call) { return static_cast<size_t>(call.in[1].elements()) * sizeof(int64_t); }

// The walk is over (indices, number of the class, out).
__global__ void __launch_bounds__(kThreads)
    one_hot_kernel(Elements indices, Elements out, const __grid_constant__ Walk<3> walk, double on, double off) {
  begin_kernel();
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < walk.n; i += threads_of_grid()) {
    int64_t at[3];
    locate(walk, i, at);
    out.store<double>(at[2], indices.load<int64_t>(at[0]) == at[1] ? on : off);
  }
}

void one_hot(const KernelCall& call) {
  const View &indices = call.in[0], &out = call.out[0];
  const auto& params = call.as<OneHotParams>();
  View index_view = out, number = out;
  for (int d = 0; d < out.rank; ++d) {
    index_view.strides[d] = d < indices.rank ? indices.strides[d] : 0;
    number.strides[d] = d == out.rank - 1;
  }
  const Walk<3> walk = make_walk<3>(out, {&index_view, &number, &out});
  Launches on(*call.queue, "one_hot");
  on.launch(one_hot_kernel, blocks_for(walk.n), kThreads, Elements(indices), Elements(out), walk, params.on, params.off);
}

const Kernel kKernels[] = {
    {.op = "gather", .name = "gather", .backend = Backend::cuda, .run = gather, .accumulates = true},
    {.op = "scatter_add",
     .name = "sorted",
     .backend = Backend::cuda,
     .run = scatter_add,
     .scratch_bytes = scatter_scratch,
     .accumulates = true},
    {.op = "one_hot", .name = "one_hot", .backend = Backend::cuda, .run = one_hot},
};

}  // namespace

extern const KernelList kernels_cuda_index;
const KernelList kernels_cuda_index = kernel_list(kKernels);

}  // namespace perigee
