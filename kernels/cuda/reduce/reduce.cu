// Reductions over any dimensions: each element is read once. Where the reduced dimensions lie side by side in memory, a block takes one result
// and its threads meet in a tree; where the kept ones do, a thread takes one result. Where there are too few results to fill the device, the
// reduced elements are split into parts that a second kernel joins in their order: the bits never depend on timing.
#include "kernels/ops/reduce.h"

#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/cuda/reduce/rows.cuh"
#include "kernels/registry.h"
#include "kernels/wrap.h"

namespace perigee {
namespace {

constexpr int64_t kWantedThreads = int64_t{132} * 2048;  // that the largest device holds

enum class Rule : uint8_t { sum, mean, prod, max, min };

template <class T>
__device__ T start_of(Rule rule) {
  using Limits = std::numeric_limits<T>;
  switch (rule) {
    case Rule::prod: return T(1);
    case Rule::max: return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case Rule::min: return Limits::has_infinity ? Limits::infinity() : Limits::max();
    default: return T(0);
  }
}

// NaN wins.
template <class T>
__device__ T join(Rule rule, T a, T b) {
  switch (rule) {
    case Rule::prod: return wrapped_multiply(a, b);
    case Rule::max: return a > b || a != a ? a : b;
    case Rule::min: return a < b || a != a ? a : b;
    default: return wrapped_add(a, b);
  }
}

struct ReduceCall {
  Elements in, out;
  Walk<2> kept;     // in, out
  Walk<1> reduced;  // in
  int64_t parts, part_elements;
  Rule rule;
  bool accumulate;

  template <class T>
  __device__ void put(int64_t result, T total) const {
    int64_t at[2];
    locate(kept, result, at);
    if (rule == Rule::mean) total /= static_cast<T>(reduced.n);
    out.put<T>(at[1], total, accumulate);
  }
};

template <int kGroup, class T>
__global__ void __launch_bounds__(kThreads) reduce_kernel(const __grid_constant__ ReduceCall call, T* parts) {
  begin_kernel();
#pragma unroll 1
  for (int64_t group = group_of_grid<kGroup>(); group < call.kept.n * call.parts; group += groups_of_grid<kGroup>()) {
    const int64_t part = divide(group, call.kept.n, call.kept.n * call.parts), result = group - part * call.kept.n;
    int64_t at[2], place[1];
    locate(call.kept, result, at);
    const int64_t begin = part * call.part_elements, end = min(begin + call.part_elements, call.reduced.n);
    T total = start_of<T>(call.rule);
#pragma unroll 1
    for (int64_t i = begin + rank_in_group<kGroup>(); i < end; i += kGroup) {
      locate(call.reduced, i, place);
      total = join(call.rule, total, call.in.load<T>(at[0] + place[0]));
    }
    total = group_join<kGroup>(total, [&](T a, T b) { return join(call.rule, a, b); });
    if (rank_in_group<kGroup>() != 0) continue;
    if (call.parts > 1) parts[group] = total;
    else call.put<T>(result, total);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) reduce_parts_kernel(const __grid_constant__ ReduceCall call, const T* parts) {
  begin_kernel();
#pragma unroll 1
  for (int64_t result = thread_of_grid(); result < call.kept.n; result += threads_of_grid()) {
    T total = start_of<T>(call.rule);
#pragma unroll 1
    for (int64_t part = 0; part < call.parts; ++part) total = join(call.rule, total, parts[part * call.kept.n + result]);
    call.put<T>(result, total);
  }
}

// The dimensions of `in` that are reduced, or kept; and `out` in the shape of the kept ones.
struct Split {
  View kept_in, kept_out, reduced;

  Split(const View& in, const View& out, const ReduceParams& params) : kept_in(in), kept_out(in), reduced(in) {
    kept_in.rank = reduced.rank = 0;
    for (int d = 0, o = 0; d < in.rank; ++d) {
      const bool gone = (params.axes >> d & 1u) != 0;
      View& to = gone ? reduced : kept_in;
      if (!gone) kept_out.dims[kept_in.rank] = in.dims[d], kept_out.strides[kept_in.rank] = out.strides[o];
      to.dims[to.rank] = in.dims[d], to.strides[to.rank++] = in.strides[d];
      o += !gone || params.keep;
    }
    kept_out.rank = kept_in.rank;
  }
};

// Whether neighbours in memory are reduced together.
bool by_blocks(const Walk<2>& kept, const Walk<1>& reduced) {
  if (reduced.rank == 0) return false;
  return kept.rank == 0 || reduced.strides[0][reduced.rank - 1] <= kept.strides[0][kept.rank - 1];
}

ReduceCall reduce_call(const KernelCall& call, Rule rule) {
  const Split split(call.in[0], call.out[0], call.as<ReduceParams>());
  ReduceCall all{.in = Elements(call.in[0]),
                 .out = Elements(call.out[0]),
                 .kept = make_walk<2>(split.kept_out, {&split.kept_in, &split.kept_out}),
                 .reduced = make_walk<1>(split.reduced, {&split.reduced}),
                 .parts = 1,
                 .part_elements = 0,
                 .rule = rule,
                 .accumulate = call.accumulate};
  const int64_t group = by_blocks(all.kept, all.reduced) ? kThreads : 1, results = max(all.kept.n, int64_t{1});
  all.parts = max(int64_t{1}, min(kWantedThreads / (results * group), all.reduced.n / (16 * group)));
  all.part_elements = ceil_divide(all.reduced.n, all.parts);
  return all;
}

template <Rule rule>
void reduce(const KernelCall& call) {
  const ReduceCall all = reduce_call(call, rule);
  Launches on(*call.queue, "reduce");
  with_computing_type(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* const parts = static_cast<T*>(call.scratch);
    if (by_blocks(all.kept, all.reduced))
      on.launch(reduce_kernel<kThreads, T>, min(all.kept.n * all.parts, int64_t{65536}), kThreads, all, parts);
    else on.launch(reduce_kernel<1, T>, blocks_for(all.kept.n * all.parts), kThreads, all, parts);
    if (all.parts > 1) on.launch(reduce_parts_kernel<T>, blocks_for(all.kept.n), kThreads, all, static_cast<const T*>(parts));
  });
}

size_t scratch_bytes(const KernelCall& call) {
  const ReduceCall all = reduce_call(call, Rule::sum);
  return all.parts > 1 ? static_cast<size_t>(all.parts * all.kept.n) * sizeof(double) : 0;
}

struct ArgCall {
  Elements in, out;
  Walk<2> kept;
  int64_t n, stride;
  bool largest;
};

// Whether (x, i) goes before (y, j): NaN first, then by value, then by place.
template <class T>
__device__ bool goes_before(bool largest, T x, int64_t i, T y, int64_t j) {
  if (x != x || y != y) return x != x && (y == y || i < j);
  return x == y ? i < j : largest ? x > y : x < y;
}

// A warp takes one result.
template <class T>
__global__ void __launch_bounds__(kThreads) arg_kernel(const __grid_constant__ ArgCall call) {
  begin_kernel();
#pragma unroll 1
  for (int64_t result = group_of_grid<kWarp>(); result < call.kept.n; result += groups_of_grid<kWarp>()) {
    int64_t at[2];
    locate(call.kept, result, at);
    int64_t place = min(int64_t{lane_of_warp()}, call.n - 1);
    T best = call.in.load<T>(at[0] + place * call.stride);
#pragma unroll 1
    for (int64_t i = place + kWarp; i < call.n; i += kWarp) {
      const T x = call.in.load<T>(at[0] + i * call.stride);
      if (goes_before(call.largest, x, i, best, place)) best = x, place = i;
    }
    for (int step = kWarp / 2; step > 0; step /= 2) {
      const T other = __shfl_xor_sync(kAllLanes, best, step);
      const int64_t other_place = __shfl_xor_sync(kAllLanes, place, step);
      if (goes_before(call.largest, other, other_place, best, place)) best = other, place = other_place;
    }
    if (lane_of_warp() == 0) call.out.store<int64_t>(at[1], place);
  }
}

template <bool kLargest>
void arg(const KernelCall& call) {
  const Split split(call.in[0], call.out[0], call.as<ReduceParams>());
  const ArgCall all{.in = Elements(call.in[0]),
                    .out = Elements(call.out[0]),
                    .kept = make_walk<2>(split.kept_out, {&split.kept_in, &split.kept_out}),
                    .n = split.reduced.dims[0],
                    .stride = split.reduced.strides[0],
                    .largest = kLargest};
  Launches on(*call.queue, "arg_max");
  with_computing_type(call.in[0].dtype,
                      [&](auto zero) { on.launch(arg_kernel<decltype(zero)>, blocks_for_rows(all.kept.n, kWarp), kThreads, all); });
}

constexpr Kernel kernel(const char* op, void (*run)(const KernelCall&), bool accumulates) {
  return {.op = op, .name = "reduce", .backend = Backend::cuda, .run = run, .scratch_bytes = scratch_bytes, .accumulates = accumulates};
}

const Kernel kKernels[] = {
    kernel("reduce_sum", reduce<Rule::sum>, true),
    kernel("reduce_mean", reduce<Rule::mean>, true),
    kernel("reduce_prod", reduce<Rule::prod>, false),
    kernel("reduce_max", reduce<Rule::max>, false),
    kernel("reduce_min", reduce<Rule::min>, false),
    {.op = "arg_max", .name = "arg", .backend = Backend::cuda, .run = arg<true>},
    {.op = "arg_min", .name = "arg", .backend = Backend::cuda, .run = arg<false>},
};

}  // namespace

extern const KernelList kernels_cuda_reduce;
const KernelList kernels_cuda_reduce = kernel_list(kKernels);

}  // namespace perigee
