#include "kernels/ops/deltas.h"

#include "kernels/ref/strided.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

template <class T>
void run_deltas_typed(const KernelCall& call) {
  const auto& p = call.as<DeltasParams>();
  const View &x = call.in[0], &y = call.out[0];
  for_each_index(3, x.dims, [&](const int64_t* index) {
    const int64_t n = index[0], c = index[1], t = index[2], all = x.dims[2];
    const int64_t given = call.n_in > 1 && call.in[1].data ? call.in[1].as<int64_t>()[n * call.in[1].strides[0]] : all;
    const int64_t there = delta_clamp(given, 0, all);
    const T* row = x.as<T>() + n * x.strides[0] + c * x.strides[1];
    y.as<T>()[offset_of(y, index)] = t < there ? static_cast<T>(delta_at(p, row, x.strides[2], there, t)) : T(0);
  });
}

void run_deltas(const KernelCall& call) { call.in[0].dtype == Dtype::f64 ? run_deltas_typed<double>(call) : run_deltas_typed<float>(call); }

const Kernel kDeltasKernels[] = {{.op = "deltas", .name = "ref", .run = run_deltas}};

}  // namespace

extern const KernelList kernels_ref_deltas;
const KernelList kernels_ref_deltas = kernel_list(kDeltasKernels);

}  // namespace perigee
