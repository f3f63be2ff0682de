#include "kernels/ops/copy.h"

#include "kernels/registry.h"

namespace perigee {
namespace {

template <class T>
void copy_ref_dim(const View& x, const View& y, int dim, const T* from, T* to, bool accumulate) {
  if (dim == x.rank) {
    *to = accumulate ? static_cast<T>(*to + *from) : *from;
    return;
  }
  for (int64_t i = 0; i < x.dims[dim]; ++i) copy_ref_dim(x, y, dim + 1, from + i * x.strides[dim], to + i * y.strides[dim], accumulate);
}

template <class T>
void copy_typed(const KernelCall& call) {
  copy_ref_dim(call.in[0], call.out[0], 0, call.in[0].as<T>(), call.out[0].as<T>(), call.accumulate);
}

void copy_forward(const KernelCall& call) {
  switch (call.in[0].dtype) {
    case Dtype::f32: return copy_typed<float>(call);
    case Dtype::f64: return copy_typed<double>(call);
    case Dtype::i32: return copy_typed<int32_t>(call);
    case Dtype::i64: return copy_typed<int64_t>(call);
    case Dtype::f16:
    case Dtype::bf16: return copy_typed<uint16_t>(call);  // bits; never accumulated
    case Dtype::u8:
    case Dtype::boolean: return copy_typed<uint8_t>(call);
  }
}

const Kernel kCopyKernels[] = {{.op = "copy", .name = "ref", .run = copy_forward, .accumulates = true}};

}  // namespace

extern const KernelList kernels_ref_copy;
const KernelList kernels_ref_copy = kernel_list(kCopyKernels);

}  // namespace perigee
