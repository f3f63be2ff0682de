// Ops that stay on the host: functions of the program that embeds Perigee, which read and write the host's memory. They say so instead of being
// unknown.
#include "kernels/ops/host.h"

#include "kernels/registry.h"

namespace perigee {
namespace {

const char* decline_function(const KernelCall&) { return "the function is the program's own and runs on the host"; }
void run(const KernelCall&) {}

constexpr Kernel function(const char* op) {
  return {.op = op, .name = "host", .backend = Backend::cuda, .decline = decline_function, .run = run};
}

const Kernel kKernels[] = {function("host"), function("host_grad")};

}  // namespace

extern const KernelList kernels_cuda_host;
const KernelList kernels_cuda_host = kernel_list(kKernels);

}  // namespace perigee
