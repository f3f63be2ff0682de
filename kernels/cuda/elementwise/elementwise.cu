// Element-wise ops: each operand is read once and the result written once, which is all their time; so one kernel has all ops behind a
// branch that all threads take alike. Those that need many registers (exp, pow, erf, ...) are kept apart from the arithmetic, which then has
// more threads in flight. Dense f32 goes by 16 bytes a thread; all else is a program of one instruction (fused.cu).
#include "kernels/ops/elementwise.h"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/fused.cuh"
#include "kernels/ref/elementwise_math.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr int kOperands = 3;

constexpr bool is_arithmetic(Elementwise op) {
  using E = Elementwise;
  switch (op) {
    case E::exp:
    case E::expm1:
    case E::log:
    case E::log1p:
    case E::sin:
    case E::cos:
    case E::tan:
    case E::asin:
    case E::acos:
    case E::atan:
    case E::sinh:
    case E::cosh:
    case E::tanh:
    case E::sigmoid:
    case E::softplus:
    case E::erf:
    case E::pow: return false;
    default: return true;
  }
}

// The op as a constant in each case, so that one half of the ops is not in the other half's kernel.
template <bool kArithmetic>
__device__ float evaluate_half(Elementwise op, float a, float b, float c) {
  switch (op) {
#define PERIGEE_ENTRY(entry, arity, result)                                                                              \
  case Elementwise::entry:                                                                                               \
    if constexpr (is_arithmetic(Elementwise::entry) == kArithmetic) return evaluate<float>(Elementwise::entry, a, b, c); \
    break;
    PERIGEE_ELEMENTWISE_OPS(PERIGEE_ENTRY)
#undef PERIGEE_ENTRY
  }
  return a;
}

struct FlatOperands {
  const float* in[kOperands];
  bool single[kOperands];  // one element for all
  float* out;
  Elementwise op;
  int arity;
  bool accumulate;
};

template <bool kArithmetic>
__global__ void __launch_bounds__(kThreads) elementwise_flat_kernel(FlatOperands operands, int64_t n) {
  begin_kernel();
  constexpr int kLanes = Vector<float>::kLanes;
  const auto value = [&](float a, float b, float c) { return evaluate_half<kArithmetic>(operands.op, a, b, c); };
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < n / kLanes; i += threads_of_grid()) {
    Vector<float> x[kOperands] = {}, y;
    for (int k = 0; k < operands.arity; ++k) {
      if (!operands.single[k]) x[k] = reinterpret_cast<const Vector<float>*>(operands.in[k])[i];
      else
        for (float& lane : x[k].lane) lane = operands.in[k][0];
    }
    Vector<float>& out = reinterpret_cast<Vector<float>*>(operands.out)[i];
    if (operands.accumulate) y = out;
    for (int l = 0; l < kLanes; ++l) {
      const float result = value(x[0].lane[l], x[1].lane[l], x[2].lane[l]);
      y.lane[l] = operands.accumulate ? y.lane[l] + result : result;
    }
    out = y;
  }
#pragma unroll 1
  for (int64_t i = n / kLanes * kLanes + thread_of_grid(); i < n; i += threads_of_grid()) {
    float x[kOperands] = {};
    for (int k = 0; k < operands.arity; ++k) x[k] = operands.in[k][operands.single[k] ? 0 : i];
    const float y = value(x[0], x[1], x[2]);
    operands.out[i] = operands.accumulate ? operands.out[i] + y : y;
  }
}

// False when the call is not dense f32 on borders of 16 bytes.
bool run_flat(Launches& on, const KernelCall& call, Elementwise op, const ElementwiseProgram& program) {
  const auto dense = [&](const View& view, int operand) {
    return view.dtype == Dtype::f32 && program.walk.dense(operand) && on_vector_border(view.data);
  };
  if (!dense(call.out[0], kFusedInputs)) return false;
  FlatOperands flat{.out = call.out[0].as<float>(), .op = op, .arity = call.n_in, .accumulate = call.accumulate};
  for (int k = 0; k < call.n_in; ++k) {
    flat.in[k] = call.in[k].as<float>();
    flat.single[k] = call.in[k].dtype == Dtype::f32 && program.walk.single(k);
    if (!flat.single[k] && !dense(call.in[k], k)) return false;
  }
  const int64_t n = program.walk.n;
  on.launch(is_arithmetic(op) ? elementwise_flat_kernel<true> : elementwise_flat_kernel<false>, blocks_for(ceil_divide(n, 4)), kThreads,
            flat, n);
  return true;
}

FusedParams single_instruction(Elementwise op, int arity) {
  FusedParams params = {};
  params.code[0] = {op, kFusedTemporaryBase, {0, 1, 2}};
  params.n_inputs = static_cast<uint8_t>(arity);
  params.n_instructions = params.n_outputs = 1;
  params.outputs[0] = kFusedTemporaryBase;
  return params;
}

void run_op(const KernelCall& call, Elementwise op) {
  Launches on(*call.queue, elementwise_name(op));
  const ElementwiseProgram program = elementwise_program(call, single_instruction(op, call.n_in));
  // Comparisons compute in their operands' type; `where` computes in that of its choices.
  if (!run_flat(on, call, op, program)) run_program(on, program, call.in[call.n_in - 1].dtype);
}

template <Elementwise op>
void run(const KernelCall& call) {
  run_op(call, op);
}

constexpr Kernel kKernels[] = {
#define PERIGEE_ENTRY(entry, arity, result) \
  {.op = #entry, .name = "elementwise", .backend = Backend::cuda, .run = run<Elementwise::entry>, .accumulates = true},
    PERIGEE_ELEMENTWISE_OPS(PERIGEE_ENTRY)
#undef PERIGEE_ENTRY
};

}  // namespace

extern const KernelList kernels_cuda_elementwise;
const KernelList kernels_cuda_elementwise = kernel_list(kKernels);

}  // namespace perigee
