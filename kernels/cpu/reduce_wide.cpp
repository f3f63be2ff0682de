// Reductions of what `reduce` does not take, f64 and whole numbers: plain loops in memory order that the compiler turns into vectors. The innermost
// dimension is contiguous: either it is reduced (rows), or whole rows are joined into the output (columns). Also places of extremes, by lines.
#include "kernels/ops/reduce.h"

#include <limits>
#include <type_traits>

#include "kernels/cpu/reduce_walk.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/registry.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE {
namespace {

constexpr int kWays = 32;           // sums side by side, so that none waits for another
constexpr int64_t kBlock = 4096;    // of which sums are made that are summed: their error stays small
constexpr int64_t kColumns = 1024;  // of the output that stay in the L1 cache while rows are joined into them

// Signed overflow is undefined in C++. (kernels/wrap.h would be shared with files for other instruction sets.)
template <class T>
using Wrapping = std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, std::conditional_t<std::is_integral_v<T>, uint32_t, T>>;

// As the reference has them: whole numbers wrap around, NaN wins.
struct Sum {
  template <class T>
  static constexpr T start = T(0);
  template <class T>
  static T join(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};

struct Prod {
  template <class T>
  static constexpr T start = T(1);
  template <class T>
  static T join(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};

template <class T>
constexpr T kLowest = std::is_floating_point_v<T> ? T(-__builtin_inf()) : std::numeric_limits<T>::lowest();
template <class T>
constexpr T kHighest = std::is_floating_point_v<T> ? T(__builtin_inf()) : std::numeric_limits<T>::max();

struct Max {
  template <class T>
  static constexpr T start = kLowest<T>;
  template <class T>
  static T join(T a, T b) {
    return a > b || a != a ? a : b;
  }
};

struct Min {
  template <class T>
  static constexpr T start = kHighest<T>;
  template <class T>
  static T join(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

bool takes(Dtype dtype) { return dtype == Dtype::f64 || dtype == Dtype::i64 || dtype == Dtype::i32 || dtype == Dtype::u8; }

const char* decline(const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  if (!takes(x.dtype) || y.dtype != x.dtype) return "f64, i64, i32 and u8 only";
  if (call.accumulate) return "does not accumulate";
  if (!y.contiguous()) return "the output is not dense";
  const Walk walk(x, y, call.as<ReduceParams>());
  const int last = walk.rank - 1;
  if (last >= 0 && walk.in[last] != 1) return "the input's innermost dimension is not contiguous";
  if (last >= 0 && walk.out[last] > 1) return "the output lies in another order than the input";
  return nullptr;
}

template <class Rule, class T>
T join_block(const T* x, int64_t n) {
  T ways[kWays];
  for (int w = 0; w < kWays; ++w) ways[w] = Rule::template start<T>;
  int64_t i = 0;
  for (; i + kWays <= n; i += kWays)
    for (int w = 0; w < kWays; ++w) ways[w] = Rule::template join<T>(ways[w], x[i + w]);
  for (; i < n; ++i) ways[0] = Rule::template join<T>(ways[0], x[i]);
  for (int far = kWays / 2; far > 0; far /= 2)
    for (int w = 0; w < far; ++w) ways[w] = Rule::template join<T>(ways[w], ways[w + far]);
  return ways[0];
}

template <class Rule, class T>
void join_row(const T* x, int64_t n, T* out) {
  for (int64_t begin = 0; begin < n; begin += kBlock)
    *out = Rule::template join<T>(*out, join_block<Rule, T>(x + begin, n - begin < kBlock ? n - begin : kBlock));
}

// out[c] = join(out[c], all x[r * stride + c])
template <class Rule, class T>
void join_matrix(const T* x, int64_t rows, int64_t stride, T* out, int64_t columns) {
  for (int64_t begin = 0; begin < columns; begin += kColumns) {
    const int64_t end = columns - begin < kColumns ? columns : begin + kColumns;
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = x + r * stride;
      for (int64_t c = begin; c < end; ++c) out[c] = Rule::template join<T>(out[c], row[c]);
    }
  }
}

template <class Rule, class T>
void join_all(const Walk& walk, const T* x, T* y) {
  for (int64_t i = 0; i < walk.outputs; ++i) y[i] = Rule::template start<T>;
  join_walk(walk, x, y, join_row<Rule, T>, join_matrix<Rule, T>);
}

template <class F>
void with_type(Dtype dtype, F f) {
  switch (dtype) {
    case Dtype::f64: return f(double());
    case Dtype::i64: return f(int64_t());
    case Dtype::i32: return f(int32_t());
    default: return f(uint8_t());
  }
}

template <class Rule>
void run(const KernelCall& call) {
  const Walk walk(call.in[0], call.out[0], call.as<ReduceParams>());
  with_type(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    join_all<Rule, T>(walk, call.in[0].as<T>(), call.out[0].as<T>());
  });
}

const char* decline_mean(const KernelCall& call) { return call.in[0].dtype == Dtype::f64 ? decline(call) : "f64 only"; }

void run_mean(const KernelCall& call) {
  const Walk walk(call.in[0], call.out[0], call.as<ReduceParams>());
  auto* y = call.out[0].as<double>();
  join_all<Sum, double>(walk, call.in[0].as<double>(), y);
  const double count = static_cast<double>(walk.inputs) / static_cast<double>(walk.outputs);
  for (int64_t i = 0; i < walk.outputs; ++i) y[i] /= count;
}

// --- places of extremes ---

const char* decline_place(const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  if (!takes(x.dtype)) return "f64, i64, i32 and u8 only";
  return x.contiguous() && y.contiguous() ? nullptr : "operands do not lie contiguous";
}

// The first place of the extreme; of the first NaN where there is one.
template <class Rule, class T>
int64_t place_in(const T* x, int64_t n) {
  const T best = join_block<Rule, T>(x, n);
  for (int64_t i = 0; i < n; ++i)
    if (x[i] == best || x[i] != x[i]) return i;
  return 0;
}

template <class Rule, class T>
void place_lines(const KernelCall& call) {
  const View& x = call.in[0];
  const int axis = __builtin_ctz(call.as<ReduceParams>().axes);
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < axis; ++d) outer *= x.dims[d];
  for (int d = axis + 1; d < x.rank; ++d) inner *= x.dims[d];
  const int64_t size = x.dims[axis];
  auto* y = call.out[0].as<int64_t>();
  for (int64_t o = 0; o < outer; ++o) {
    const T* line = x.as<T>() + o * size * inner;
    if (inner == 1) {
      y[o] = place_in<Rule, T>(line, size);
      continue;
    }
    for (int64_t i = 0; i < inner; ++i) {
      T best = line[i];
      int64_t place = 0;
      for (int64_t k = 1; k < size && best == best; ++k) {
        const T value = line[k * inner + i];
        if (Rule::template join<T>(best, value) == best) continue;
        best = value;
        place = k;
      }
      y[o * inner + i] = place;
    }
  }
}

template <class Rule>
void run_place(const KernelCall& call) {
  with_type(call.in[0].dtype, [&](auto zero) { place_lines<Rule, decltype(zero)>(call); });
}

constexpr Isa kIsa = kLanes == 16 ? Isa::avx512 : kLanes == 8 ? Isa::avx2 : Isa::baseline;

constexpr Kernel kKernels[] = {
    {.op = "reduce_sum", .name = "wide", .backend = Backend::cpu, .isa = kIsa, .decline = decline, .run = run<Sum>},
    {.op = "reduce_prod", .name = "wide", .backend = Backend::cpu, .isa = kIsa, .decline = decline, .run = run<Prod>},
    {.op = "reduce_max", .name = "wide", .backend = Backend::cpu, .isa = kIsa, .decline = decline, .run = run<Max>},
    {.op = "reduce_min", .name = "wide", .backend = Backend::cpu, .isa = kIsa, .decline = decline, .run = run<Min>},
    {.op = "reduce_mean", .name = "wide", .backend = Backend::cpu, .isa = kIsa, .decline = decline_mean, .run = run_mean},
    {.op = "arg_max", .name = "wide", .backend = Backend::cpu, .isa = kIsa, .decline = decline_place, .run = run_place<Max>},
    {.op = "arg_min", .name = "wide", .backend = Backend::cpu, .isa = kIsa, .decline = decline_place, .run = run_place<Min>},
};

}  // namespace
}  // namespace PERIGEE_CPU_NAMESPACE

extern const KernelList PERIGEE_CPU_KERNELS(reduce_wide);
const KernelList PERIGEE_CPU_KERNELS(reduce_wide) = kernel_list(PERIGEE_CPU_NAMESPACE::kKernels);

}  // namespace perigee
