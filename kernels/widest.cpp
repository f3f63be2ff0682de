#include "kernels/widest.h"

#include "kernels/registry.h"

namespace perigee {

const Kernel* widest_kernel(std::string_view op, const KernelCall& like, Isa isa) {
  const Kernel* best = nullptr;
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i) {
      const Kernel& kernel = list.first[i];
      if (op != kernel.op || kernel.backend == Backend::cuda) continue;
      if (kernel.backend == Backend::cpu && kernel.isa > isa) continue;
      if (kernel.decline && kernel.decline(like)) continue;
      if (!best || kernel.backend > best->backend || (kernel.backend == best->backend && kernel.isa > best->isa)) best = &kernel;
    }
  return best;
}

}  // namespace perigee
