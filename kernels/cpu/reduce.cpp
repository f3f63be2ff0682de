// Reductions of f32. The input is walked in memory order, so its innermost dimension is contiguous: either it is reduced (rows), or it
// is kept and whole vectors are joined into the output (columns). Long sums are made of sums of blocks, which keeps their error small.
#include "kernels/ops/reduce.h"

#include <utility>

#include "kernels/cpu/reduce_walk.h"
#include "kernels/cpu/vector_math.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE {
namespace {

constexpr int64_t kBlock = 256;

struct Sum {
  static constexpr float start = 0;
  static Floats join(Floats a, Floats b) { return a + b; }
};

struct Prod {
  static constexpr float start = 1;
  static Floats join(Floats a, Floats b) { return a * b; }
};

struct Max {
  static constexpr float start = -__builtin_inff();
  static Floats join(Floats a, Floats b) { return larger(b, a); }
};

struct Min {
  static constexpr float start = __builtin_inff();
  static Floats join(Floats a, Floats b) { return smaller(b, a); }
};

const char* decline(const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  if (x.dtype != Dtype::f32) return "f32 only";
  if (!y.dense()) return "the output is not dense";
  const Walk walk(x, y, call.as<ReduceParams>());
  if (walk.rank > 0 && walk.in[walk.rank - 1] != 1) return "the input's innermost dimension is not contiguous";
  if (walk.rank > 0 && walk.out[walk.rank - 1] > 1) return "the output lies in another order than the input";
  return nullptr;
}

// Every lane joined with the one half a vector away, then a quarter, ...
template <class Rule, int Far = kLanes / 2, int... Lane>
Floats join_lanes(Floats a, std::integer_sequence<int, Lane...> lanes) {
  const Floats joined = Rule::join(a, __builtin_shufflevector(a, a, (Lane ^ Far)...));
  if constexpr (Far == 1) return joined;
  else return join_lanes<Rule, Far / 2>(joined, lanes);
}

// out = join(out, all of x[0..n-1])
template <class Rule>
void join_row(const float* x, int64_t n, float* out) {
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = n - begin < kBlock ? n : begin + kBlock;
    Floats a = all(Rule::start), b = a;
    int64_t i = begin;
    for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
      a = Rule::join(a, load(x + i));
      b = Rule::join(b, load(x + i + kLanes));
    }
    if (i + kLanes <= end) {
      a = Rule::join(a, load(x + i));
      i += kLanes;
    }
    if (i < end) b = Rule::join(b, first_or(load_part(x + i, end - i), end - i, Rule::start));
    a = Rule::join(a, b);
    *out = Rule::join(all(*out), join_lanes<Rule>(a, std::make_integer_sequence<int, kLanes>()))[0];
  }
}

// out[c] = join(out[c], all x[r * stride + c]) for `width` vectors of columns; the last may be part of one.
template <class Rule, int width>
void join_columns(const float* x, int64_t rows, int64_t stride, float* out, int64_t columns) {
  const int64_t rest = columns - (width - 1) * kLanes;
  for (int64_t begin = 0; begin < rows; begin += kBlock) {
    const int64_t end = rows - begin < kBlock ? rows : begin + kBlock;
    Floats sums[width];
    for (int v = 0; v < width; ++v) sums[v] = all(Rule::start);
    for (int64_t r = begin; r < end; ++r) {
      const float* row = x + r * stride;
      for (int v = 0; v < width - 1; ++v) sums[v] = Rule::join(sums[v], load(row + v * kLanes));
      const float* tail = row + (width - 1) * kLanes;
      sums[width - 1] = Rule::join(sums[width - 1], rest == kLanes ? load(tail) : load_part(tail, rest));
    }
    for (int v = 0; v < width - 1; ++v) store(out + v * kLanes, Rule::join(load(out + v * kLanes), sums[v]));
    float* tail = out + (width - 1) * kLanes;
    if (rest == kLanes) store(tail, Rule::join(load(tail), sums[width - 1]));
    else store_part(tail, Rule::join(load_part(tail, rest), sums[width - 1]), rest);
  }
}

template <class Rule>
void join_matrix(const float* x, int64_t rows, int64_t stride, float* out, int64_t columns) {
  for (int64_t c = 0; c < columns;) {
    const int64_t left = columns - c;
    if (left > 3 * kLanes) {
      const int64_t n = left < 4 * kLanes ? left : 4 * kLanes;
      join_columns<Rule, 4>(x + c, rows, stride, out + c, n);
      c += n;
    } else if (left > kLanes) {
      const int64_t n = left < 2 * kLanes ? left : 2 * kLanes;
      join_columns<Rule, 2>(x + c, rows, stride, out + c, n);
      c += n;
    } else {
      join_columns<Rule, 1>(x + c, rows, stride, out + c, left);
      c += left;
    }
  }
}

void fill(float* y, int64_t n, float value) {
  for (int64_t i = 0; i < n; ++i) y[i] = value;
}

template <class Rule>
void run(const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  const Walk walk(x, y, call.as<ReduceParams>());
  if (!call.accumulate) fill(y.as<float>(), walk.outputs, Rule::start);
  join_walk(walk, x.as<float>(), y.as<float>(), join_row<Rule>, join_matrix<Rule>);
}

size_t mean_scratch(const KernelCall& call) { return call.accumulate ? static_cast<size_t>(call.out[0].elements()) * sizeof(float) : 0; }

void run_mean(const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  const Walk walk(x, y, call.as<ReduceParams>());
  float* sums = call.accumulate ? static_cast<float*>(call.scratch) : y.as<float>();
  fill(sums, walk.outputs, 0);
  join_walk(walk, x.as<float>(), sums, join_row<Sum>, join_matrix<Sum>);
  const float scale = static_cast<float>(walk.outputs) / static_cast<float>(walk.inputs);
  for (int64_t i = 0; i < walk.outputs; ++i) y.as<float>()[i] = call.accumulate ? y.as<float>()[i] + sums[i] * scale : sums[i] * scale;
}

constexpr Isa kIsa = kLanes == 16 ? Isa::avx512 : kLanes == 8 ? Isa::avx2 : Isa::baseline;

constexpr Kernel kKernels[] = {
    {.op = "reduce_sum", .name = "vectors", .backend = Backend::cpu, .isa = kIsa, .decline = decline, .run = run<Sum>, .accumulates = true},
    {.op = "reduce_prod", .name = "vectors", .backend = Backend::cpu, .isa = kIsa, .decline = decline, .run = run<Prod>},
    {.op = "reduce_max", .name = "vectors", .backend = Backend::cpu, .isa = kIsa, .decline = decline, .run = run<Max>},
    {.op = "reduce_min", .name = "vectors", .backend = Backend::cpu, .isa = kIsa, .decline = decline, .run = run<Min>},
    {.op = "reduce_mean",
     .name = "vectors",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline,
     .run = run_mean,
     .scratch_bytes = mean_scratch,
     .accumulates = true},
};

}  // namespace
}  // namespace PERIGEE_CPU_NAMESPACE

extern const KernelList PERIGEE_CPU_KERNELS(reduce);
const KernelList PERIGEE_CPU_KERNELS(reduce) = kernel_list(PERIGEE_CPU_NAMESPACE::kKernels);

}  // namespace perigee
