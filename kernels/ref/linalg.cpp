#include "kernels/ops/linalg.h"

#include "kernels/registry.h"

namespace perigee {
namespace {

const char* decline_linalg(const KernelCall& call) { return call.params != nullptr ? call.as<LinalgParams>().missing() : nullptr; }
void run_linalg(const KernelCall& call) { call.as<LinalgParams>().run(call); }

constexpr Kernel lapack(const char* op) { return {.op = op, .name = "lapack", .decline = decline_linalg, .run = run_linalg}; }

constexpr Kernel kLinalgKernels[] = {lapack("solve"), lapack("inv"),  lapack("cholesky"), lapack("qr"),
                                     lapack("svd"),   lapack("eigh"), lapack("det"),      lapack("slogdet")};

}  // namespace

extern const KernelList kernels_ref_linalg;
const KernelList kernels_ref_linalg = kernel_list(kLinalgKernels);

}  // namespace perigee
