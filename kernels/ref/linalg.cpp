#include "kernels/ops/linalg.h"

#include "kernels/registry.h"

namespace perigee {
namespace {

void run(const KernelCall& call) { call.as<LinalgParams>().run(call); }

constexpr Kernel kKernels[] = {
    {.op = "solve", .name = "lapack", .run = run},    {.op = "inv", .name = "lapack", .run = run},
    {.op = "cholesky", .name = "lapack", .run = run}, {.op = "qr", .name = "lapack", .run = run},
    {.op = "svd", .name = "lapack", .run = run},      {.op = "eigh", .name = "lapack", .run = run},
    {.op = "det", .name = "lapack", .run = run},      {.op = "slogdet", .name = "lapack", .run = run},
};

}  // namespace

extern const KernelList kernels_ref_linalg;
const KernelList kernels_ref_linalg = kernel_list(kKernels);

}  // namespace perigee
