// Ground truth of `fused`: interprets the whole program for one element after the other.
#include "kernels/ops/fused.h"

#include "kernels/ref/elementwise_math.h"
#include "kernels/ref/strided.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

void run_fused_ref(const KernelCall& call) {
  const auto& params = call.as<FusedParams>();
  const View& shape = call.out[0];
  const bool wide = shape.dtype == Dtype::f64 || (call.n_in > 0 && call.in[0].dtype == Dtype::f64);
  with_computing_type(wide ? Dtype::f64 : Dtype::f32, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      T registers[kFusedRegisters] = {};
      for (int i = 0; i < params.n_constants; ++i) registers[kFusedConstantBase + i] = static_cast<T>(params.constants[i]);
      for_each_index(shape.rank, shape.dims, [&](const int64_t* index) {
        for (int i = 0; i < call.n_in; ++i) registers[i] = load_as<T>(call.in[i], broadcast_offset(call.in[i], index, shape.rank));
        for (int i = 0; i < params.n_instructions; ++i) {
          const FusedInstruction& step = params.code[i];
          registers[step.target] = evaluate<T>(step.op, registers[step.sources[0]], registers[step.sources[1]], registers[step.sources[2]]);
        }
        for (int i = 0; i < call.n_out; ++i) store_as<T>(call.out[i], offset_of(call.out[i], index), registers[params.outputs[i]]);
      });
    }
  });
}

constexpr Kernel kFusedKernels[] = {{.op = "fused", .name = "ref", .run = run_fused_ref}};

}  // namespace

extern const KernelList kernels_ref_fused;
const KernelList kernels_ref_fused = kernel_list(kFusedKernels);

}  // namespace perigee
