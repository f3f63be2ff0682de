// The element-wise ops on f64, i64 and i32, which the tiles of f32 do not take, and the plainest of them on a few f32, where tiles cost more
// than the arithmetic: flat loops over operands that lie as the result does or are one number. Bit for bit what ref computes.
#include "kernels/ops/elementwise.h"
#include "kernels/ref/elementwise_math.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr int64_t kFewFloats = 32;

// With a loop of their own, and the same bits on f32 as the tiles have.
constexpr bool is_hot(Elementwise op) {
  using E = Elementwise;
  return op == E::add || op == E::sub || op == E::mul || op == E::div || op == E::maximum || op == E::minimum ||
         (op >= E::equal && op <= E::greater_equal);
}

bool is_flat_type(Dtype dtype) { return dtype == Dtype::f64 || dtype == Dtype::i64 || dtype == Dtype::i32; }

template <Elementwise op>
const char* decline(const KernelCall& call) {
  const View &y = call.out[0], &x = call.in[call.n_in - 1];
  if (call.accumulate) return "does not accumulate";
  const bool few = is_hot(op) && x.dtype == Dtype::f32 && y.elements() <= kFewFloats;
  if (!few && !is_flat_type(x.dtype)) return "f64, i64 and i32 only, or a few f32";
  if (y.dtype != x.dtype && y.dtype != Dtype::boolean) return "the result has another dtype";
  if (!y.contiguous()) return "the result is not dense";
  for (int i = 0; i < call.n_in; ++i) {
    const View& in = call.in[i];
    if (in.elements() != 1 && !(same_shape(in, y) && in.contiguous())) return "an operand lies otherwise than the result";
    if (in.dtype != x.dtype && !(call.n_in == 3 && i == 0 && in.dtype == Dtype::boolean)) return "operands of several dtypes";
  }
  return nullptr;
}

// y[i] = f(a[i], b[i]); of one number there is only [0].
template <class T, class R, class F>
void pairs(const KernelCall& call, F f) {
  const int64_t n = call.out[0].elements();
  const T *a = call.in[0].as<T>(), *b = call.in[call.n_in - 1].as<T>();
  R* y = call.out[0].as<R>();
  const bool one_a = call.in[0].elements() == 1, one_b = call.in[call.n_in - 1].elements() == 1;
  if (one_a) {
    const T x = *a;
    for (int64_t i = 0; i < n; ++i) y[i] = f(x, b[one_b ? 0 : i]);
  } else if (one_b) {
    const T x = *b;
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], x);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
  }
}

template <class T, class R, Elementwise op>
void hot(const KernelCall& call) {
  pairs<T, R>(call, [](T a, T b) { return static_cast<R>(evaluate<T>(op, a, b, b)); });
}

// Any op; `compute` is the type of the arithmetic.
template <class T, class Compute>
void any(Elementwise op, const KernelCall& call) {
  const int64_t n = call.out[0].elements();
  const bool choice = call.n_in == 3, truth = call.out[0].dtype == Dtype::boolean;
  int64_t step[3] = {};
  for (int i = 0; i < call.n_in; ++i) step[i] = call.in[i].elements() != 1;
  for (int64_t i = 0; i < n; ++i) {
    Compute x[3] = {};
    for (int k = 0; k < call.n_in; ++k)
      x[k] = choice && k == 0 && call.in[0].dtype == Dtype::boolean ? static_cast<Compute>(call.in[0].as<uint8_t>()[i * step[0]] != 0)
                                                                    : static_cast<Compute>(call.in[k].as<T>()[i * step[k]]);
    const Compute y = evaluate<Compute>(op, x[0], x[1], x[2]);
    if (truth) call.out[0].as<uint8_t>()[i] = y != Compute(0);
    else call.out[0].as<T>()[i] = static_cast<T>(y);
  }
}

template <class T>
void run_typed(Elementwise op, const KernelCall& call) {
  using E = Elementwise;
  switch (op) {
    case E::add: return hot<T, T, E::add>(call);
    case E::sub: return hot<T, T, E::sub>(call);
    case E::mul: return hot<T, T, E::mul>(call);
    case E::maximum: return hot<T, T, E::maximum>(call);
    case E::minimum: return hot<T, T, E::minimum>(call);
    case E::equal: return hot<T, uint8_t, E::equal>(call);
    case E::not_equal: return hot<T, uint8_t, E::not_equal>(call);
    case E::less: return hot<T, uint8_t, E::less>(call);
    case E::less_equal: return hot<T, uint8_t, E::less_equal>(call);
    case E::greater: return hot<T, uint8_t, E::greater>(call);
    case E::greater_equal: return hot<T, uint8_t, E::greater_equal>(call);
    case E::div:
      if constexpr (std::is_floating_point_v<T>) return hot<T, T, E::div>(call);
      else return any<T, T>(op, call);
    default:
      if constexpr (!std::is_same_v<T, float>) return any<T, T>(op, call);
  }
}

// One function for all ops: with a copy for each of them this file would be ten times as large.
__attribute__((noinline, noclone)) void run_any(Elementwise op, const KernelCall& call) {
  switch (call.in[call.n_in - 1].dtype) {
    case Dtype::f64: return run_typed<double>(op, call);
    case Dtype::i64: return run_typed<int64_t>(op, call);
    case Dtype::f32: return run_typed<float>(op, call);
    default: return any<int32_t, int64_t>(op, call);
  }
}

template <Elementwise op>
void run(const KernelCall& call) {
  run_any(op, call);
}

constexpr Kernel kKernels[] = {
#define PERIGEE_ENTRY(entry, arity, result) \
  {.op = #entry, .name = "flat", .backend = Backend::cpu, .decline = decline<Elementwise::entry>, .run = run<Elementwise::entry>},
    PERIGEE_ELEMENTWISE_OPS(PERIGEE_ENTRY)
#undef PERIGEE_ENTRY
};

}  // namespace

extern const KernelList kernels_cpu_elementwise_flat;
const KernelList kernels_cpu_elementwise_flat = kernel_list(kKernels);

}  // namespace perigee
