// Ops that go along one axis in order: arg_max, arg_min, cumulative_sum; and one_hot. Loops over f32 without the dispatch of ref.
#include "kernels/cpu/vector_math.h"
#include "kernels/ops/index.h"
#include "kernels/ops/reduce.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE {
namespace {

// Calls f(offset in x, offset in y) for each index of x's dimensions but `axis`; y lacks that dimension, or has it.
template <class F>
void each_line(const View& x, const View& y, int axis, bool y_has_axis, F f) {
  int64_t dims[kMaxRank], from[kMaxRank], to[kMaxRank], index[kMaxRank] = {};
  int n = 0;
  for (int d = 0, o = 0; d < x.rank; ++d) {
    if (x.dims[d] == 0) return;
    if (d != axis) {
      dims[n] = x.dims[d];
      from[n] = x.strides[d];
      to[n++] = y.strides[o];
    }
    if (d != axis || y_has_axis) ++o;
  }
  while (true) {
    int64_t a = 0, b = 0;
    for (int d = 0; d < n; ++d) {
      a += index[d] * from[d];
      b += index[d] * to[d];
    }
    f(a, b);
    int d = n - 1;
    while (d >= 0 && ++index[d] == dims[d]) index[d--] = 0;
    if (d < 0) return;
  }
}

const char* decline_f32(const KernelCall& call) { return call.in[0].dtype == Dtype::f32 ? nullptr : "f32 only"; }

int only_axis(uint32_t axes) { return __builtin_ctz(axes); }

template <bool largest>
void run_arg(const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  const auto& params = call.as<ReduceParams>();
  const int axis = only_axis(params.axes);
  const int64_t n = x.dims[axis], stride = x.strides[axis];
  each_line(x, y, axis, params.keep, [&](int64_t from, int64_t to) {
    const float* line = x.as<float>() + from;
    float best = line[0];
    int64_t place = 0;
    for (int64_t i = 1; i < n && best == best; ++i) {
      const float value = line[i * stride];
      if (largest ? value > best : value < best) best = value, place = i;
      if (value != value) best = value, place = i;
    }
    y.as<int64_t>()[to] = place;
  });
}

void run_cumulative_sum(const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  const auto& params = call.as<CumulativeParams>();
  const int64_t n = x.dims[params.axis], step = params.reverse ? -x.strides[params.axis] : x.strides[params.axis],
                out_step = params.reverse ? -y.strides[params.axis] : y.strides[params.axis];
  each_line(x, y, params.axis, true, [&](int64_t from, int64_t to) {
    const float* line = x.as<float>() + from + (params.reverse ? (n - 1) * x.strides[params.axis] : 0);
    float* out = y.as<float>() + to + (params.reverse ? (n - 1) * y.strides[params.axis] : 0);
    float total = 0;
    for (int64_t i = 0; i < n; ++i) {
      const float before = total;
      total += line[i * step];
      const float result = params.exclusive ? before : total;
      out[i * out_step] = call.accumulate ? out[i * out_step] + result : result;
    }
  });
}

const char* decline_one_hot(const KernelCall& call) {
  if (call.out[0].dtype != Dtype::f32) return "f32 only";
  return call.in[0].contiguous() && call.out[0].contiguous() ? nullptr : "operands are not contiguous";
}

void run_one_hot(const KernelCall& call) {
  const View& y = call.out[0];
  const auto& params = call.as<OneHotParams>();
  const int64_t depth = y.dims[y.rank - 1], n = call.in[0].elements();
  const float on = static_cast<float>(params.on), off = static_cast<float>(params.off);
  float* to = y.as<float>();
  for (int64_t k = 0; k < n; ++k, to += depth) {
    for (int64_t i = 0; i < depth; ++i) to[i] = off;
    const int64_t chosen = call.in[0].as<int64_t>()[k];
    if (chosen >= 0 && chosen < depth) to[chosen] = on;
  }
}

constexpr Isa kIsa = kLanes == 16 ? Isa::avx512 : kLanes == 8 ? Isa::avx2 : Isa::baseline;

constexpr Kernel kKernels[] = {
    {.op = "arg_max", .name = "lines", .backend = Backend::cpu, .isa = kIsa, .decline = decline_f32, .run = run_arg<true>},
    {.op = "arg_min", .name = "lines", .backend = Backend::cpu, .isa = kIsa, .decline = decline_f32, .run = run_arg<false>},
    {.op = "cumulative_sum",
     .name = "lines",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline_f32,
     .run = run_cumulative_sum,
     .accumulates = true},
    {.op = "one_hot", .name = "rows", .backend = Backend::cpu, .isa = kIsa, .decline = decline_one_hot, .run = run_one_hot},
};

}  // namespace
}  // namespace PERIGEE_CPU_NAMESPACE

extern const KernelList PERIGEE_CPU_KERNELS(cumulative);
const KernelList PERIGEE_CPU_KERNELS(cumulative) = kernel_list(PERIGEE_CPU_NAMESPACE::kKernels);

}  // namespace perigee
