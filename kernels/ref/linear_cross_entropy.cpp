// The four ops' reference kernels, one after the other.
#include "kernels/ops/linear_cross_entropy.h"

#include <cassert>
#include <cstring>

#include "kernels/registry.h"

namespace perigee {

extern const KernelList kernels_ref_linear, kernels_ref_softmax;

namespace {

void run_part(const char* op, const KernelCall& call, void*) {
  for (const KernelList& list : {kernels_ref_linear, kernels_ref_softmax})
    for (size_t i = 0; i < list.count; ++i)
      if (std::strcmp(op, list.first[i].op) == 0) return list.first[i].run(call);
  assert(false);
}

void run_linear_cross_entropy(const KernelCall& call) { linear_cross_entropy_parts(call, run_part); }

const Kernel kLinearCrossEntropyKernels[] = {{.op = "linear_cross_entropy", .name = "ref", .run = run_linear_cross_entropy}};

}  // namespace

extern const KernelList kernels_ref_linear_cross_entropy;
const KernelList kernels_ref_linear_cross_entropy = kernel_list(kLinearCrossEntropyKernels);

}  // namespace perigee
