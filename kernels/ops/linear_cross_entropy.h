// linear_cross_entropy: a classifier's last dense layer, its loss and what flows back through both, row by row: four ops that a pass joins
// (src/graph/passes/fuse_head.h). N rows, K inputs, C classes.
//
// in 0 x [N, K]   in 1 weight [C, K]   in 2 classes, i64 [N]   in 3 gradient of the losses [N]   in 4 bias [C], optional
// out 0 logits [N, C], linear's         out 1 losses [N], cross_entropy's        out 2 gradient of the logits [N, C], cross_entropy_grad's
// out 3 gradient of x [N, K], linear_grad_input's: times the slope of the relu of the layer below, whose result x is then
#pragma once

#include "kernels/kernel.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/softmax.h"

namespace perigee {

struct LinearCrossEntropyParams {
  CrossEntropyParams loss;
  LinearParams below;  // none or relu
};

// A head that one kernel is for: a lane of a warp takes a class, and every block reads the whole weight.
inline constexpr int64_t kHeadClasses = 32;
inline constexpr int64_t kHeadWeights = 24 << 10;  // C K

// Calls part(op, its call, with) for each of the four ops, in their order.
using HeadPart = void (*)(const char* op, const KernelCall& call, void* with);
inline void linear_cross_entropy_parts(const KernelCall& call, HeadPart part, void* with = nullptr) {
  const auto& params = call.as<LinearCrossEntropyParams>();
  const LinearParams plain;
  const struct {
    const char* op;
    int n_in, out;
    const void* params;
  } ops[] = {{"linear", 3, 0, &plain},
             {"cross_entropy", 2, 1, &params.loss},
             {"cross_entropy_grad", 3, 2, &params.loss},
             {"linear_grad_input", 3, 3, &params.below}};
  for (const auto& of : ops) {
    View in[3] = {of.out == 0 ? call.in[0] : call.out[of.out == 3 ? 2 : 0], call.in[of.out % 3 == 0 ? 1 : 2]};
    if (of.out == 0 && call.n_in > 4) in[2] = call.in[4];
    if (of.out == 2) in[2] = call.in[3];
    if (of.out == 3 && params.below.activation == LinearActivation::relu) in[2] = call.in[0];
    KernelCall each = call;
    each.in = in, each.n_in = of.n_in, each.out = call.out + of.out, each.n_out = 1, each.params = of.params;
    part(of.op, each, with);
  }
}

}  // namespace perigee
