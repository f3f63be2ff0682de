// Obvious loops: the ground truth of matmul. Sums run in double whatever the element type.
#include "kernels/ops/matmul.h"

#include "kernels/ref/widened.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

// The offset of batch number `index` (counted over the batch dimensions of `out`) in `v`, whose batch dimensions broadcast.
int64_t batch_offset(const View& v, const View& out, int64_t index) {
  int64_t offset = 0;
  for (int i = out.rank - 3; i >= 0; --i) {
    const int64_t position = index % out.dims[i];
    index /= out.dims[i];
    const int j = i - out.rank + v.rank;
    if (j >= 0 && v.dims[j] != 1) offset += position * v.strides[j];
  }
  return offset;
}

template <class T>
void matmul(const KernelCall& call) {
  const View &a = call.in[0], &b = call.in[1], &c = call.out[0];
  const auto& p = call.as<MatmulParams>();
  const int64_t m = c.dims[c.rank - 2], n = c.dims[c.rank - 1], k = a.dims[a.rank - (p.transpose_a ? 2 : 1)];
  const int64_t a_m = a.strides[a.rank - (p.transpose_a ? 1 : 2)], a_k = a.strides[a.rank - (p.transpose_a ? 2 : 1)];
  const int64_t b_k = b.strides[b.rank - (p.transpose_b ? 1 : 2)], b_n = b.strides[b.rank - (p.transpose_b ? 2 : 1)];
  int64_t batches = 1;
  for (int i = 0; i < c.rank - 2; ++i) batches *= c.dims[i];
  for (int64_t batch = 0; batch < batches; ++batch) {
    const T* pa = a.as<T>() + batch_offset(a, c, batch);
    const T* pb = b.as<T>() + batch_offset(b, c, batch);
    T* pc = c.as<T>() + batch_offset(c, c, batch);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += double(pa[i * a_m + l * a_k]) * double(pb[l * b_k + j * b_n]);
        T& out = pc[i * c.strides[c.rank - 2] + j * c.strides[c.rank - 1]];
        out = call.accumulate ? static_cast<T>(out + sum) : static_cast<T>(sum);
      }
    }
  }
}

const char* decline_matmul(const KernelCall& call) {
  const Dtype dtype = call.out[0].dtype;
  if (!is_floating(dtype)) return "only floating-point numbers";
  if (call.in[0].dtype != dtype || call.in[1].dtype != dtype) return "mixed dtypes";
  return nullptr;
}

void run_matmul(const KernelCall& call) { call.out[0].dtype == Dtype::f64 ? matmul<double>(call) : matmul<float>(call); }

const Kernel kMatmulKernels[] = {{.op = "matmul",
                                  .name = "ref",
                                  .decline = decline_matmul,
                                  .run = widened<run_matmul>,
                                  .scratch_bytes = widened_scratch<>,
                                  .accumulates = true}};

}  // namespace

extern const KernelList kernels_ref_matmul;
const KernelList kernels_ref_matmul = kernel_list(kMatmulKernels);

}  // namespace perigee
