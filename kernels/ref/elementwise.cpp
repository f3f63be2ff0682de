// Ground truth of the element-wise ops: one element at a time, any strides, any dtype.
#include "kernels/ops/elementwise.h"

#include "kernels/ref/elementwise_math.h"
#include "kernels/ref/strided.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

template <Elementwise op>
void run_elementwise(const KernelCall& call) {
  const View& out = call.out[0];
  constexpr int arity = elementwise_arity(op);
  // Comparisons compute in their operands' type; `where` computes in that of its choices.
  with_computing_type(call.in[arity - 1].dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_index(out.rank, out.dims, [&](const int64_t* index) {
      T x[3] = {};
      for (int i = 0; i < arity; ++i) x[i] = load_as<T>(call.in[i], broadcast_offset(call.in[i], index, out.rank));
      const int64_t offset = offset_of(out, index);
      const T y = evaluate<T>(op, x[0], x[1], x[2]);
      store_as<T>(out, offset, call.accumulate ? load_as<T>(out, offset) + y : y);
    });
  });
}

constexpr Kernel kElementwiseKernels[] = {
#define PERIGEE_ENTRY(entry, arity, result) {.op = #entry, .name = "ref", .run = run_elementwise<Elementwise::entry>, .accumulates = true},
    PERIGEE_ELEMENTWISE_OPS(PERIGEE_ENTRY)
#undef PERIGEE_ENTRY
};

}  // namespace

extern const KernelList kernels_ref_elementwise;
const KernelList kernels_ref_elementwise = kernel_list(kElementwiseKernels);

}  // namespace perigee
