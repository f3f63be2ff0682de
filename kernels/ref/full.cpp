#include "kernels/ops/full.h"

#include "kernels/ref/strided.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

void run_full_ref(const KernelCall& call) {
  const View& out = call.out[0];
  const double value = call.as<FullParams>().value;
  for_each_index(out.rank, out.dims, [&](const int64_t* index) {
    const int64_t offset = offset_of(out, index);
    store_as<double>(out, offset, call.accumulate ? load_as<double>(out, offset) + value : value);
  });
}

constexpr Kernel kFullKernels[] = {{.op = "full", .name = "ref", .run = run_full_ref, .accumulates = true},
                                   {.op = "full_like", .name = "ref", .run = run_full_ref, .accumulates = true}};

}  // namespace

extern const KernelList kernels_ref_full;
const KernelList kernels_ref_full = kernel_list(kFullKernels);

}  // namespace perigee
