#include "kernels/ops/cast.h"

#include "kernels/ref/strided.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

void run_one(const View& in, const View& out, bool accumulate) {
  with_computing_type(in.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_index(out.rank, out.dims, [&](const int64_t* index) {
      const int64_t offset = offset_of(out, index);
      const T x = load_as<T>(in, offset_of(in, index));
      if (accumulate) store_as<double>(out, offset, load_as<double>(out, offset) + static_cast<double>(x));
      else store_as<T>(out, offset, x);
    });
  });
}

void run_cast_ref(const KernelCall& call) {
  for (int i = 0; i < call.n_out; ++i) run_one(call.in[i], call.out[i], call.accumulate);
}

constexpr Kernel kCastKernels[] = {{.op = "cast", .name = "ref", .run = run_cast_ref, .accumulates = true}};

}  // namespace

extern const KernelList kernels_ref_cast;
const KernelList kernels_ref_cast = kernel_list(kCastKernels);

}  // namespace perigee
