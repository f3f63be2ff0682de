// matmul by cuBLASLt. Batches that lie evenly in all operands are one call; those that share b and continue a's rows become rows of one
// product; what remains is one call each.
// Floor: 2 M N K operations at the tensor cores' rate, or (M K + K N + M N) elements moved.
#include "kernels/ops/matmul.h"

#include "kernels/cuda/library/cublas_gemm.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr int64_t kMostCalls = 64;

struct Batch {
  int64_t count = 1, a = 0, b = 0, c = 0;  // strides
};

// All batches: `gemm` at each position of `outer`.
struct Batched {
  Gemm gemm;
  Batch outer[kMaxRank];
  int n_outer = 0;

  int64_t calls() const {
    int64_t count = 1;
    for (int i = 0; i < n_outer; ++i) count *= outer[i].count;
    return count;
  }
};

int64_t batch_stride(const View& v, const View& c, int dimension) {
  const int i = dimension - c.rank + v.rank;
  return i >= 0 && v.dims[i] != 1 ? v.strides[i] : 0;
}

void collect_batches(const KernelCall& call, Batched* all) {
  const View& c = call.out[0];
  for (int i = 0; i < c.rank - 2; ++i) {
    if (c.dims[i] == 1) continue;
    const Batch next{c.dims[i], batch_stride(call.in[0], c, i), batch_stride(call.in[1], c, i), c.strides[i]};
    Batch* last = all->n_outer > 0 ? &all->outer[all->n_outer - 1] : nullptr;
    if (last != nullptr && last->a == next.a * next.count && last->b == next.b * next.count && last->c == next.c * next.count)
      *last = {last->count * next.count, next.a, next.b, next.c};
    else all->outer[all->n_outer++] = next;
  }
}

Batched gemms_of(const KernelCall& call) {
  const View &a = call.in[0], &b = call.in[1], &c = call.out[0];
  const auto& p = call.as<MatmulParams>();
  const auto stride = [](const View& v, int from_end) { return v.strides[v.rank - from_end]; };
  Batched all;
  Gemm& g = all.gemm;
  g.dtype = a.dtype, g.result = c.dtype, g.accumulate = call.accumulate;
  g.m = c.dims[c.rank - 2], g.n = c.dims[c.rank - 1], g.k = a.dims[a.rank - (p.transpose_a ? 2 : 1)];
  g.a = {a.data, stride(a, p.transpose_a ? 1 : 2), stride(a, p.transpose_a ? 2 : 1)};
  g.b = {b.data, stride(b, p.transpose_b ? 1 : 2), stride(b, p.transpose_b ? 2 : 1)};
  g.c = {c.data, stride(c, 2), stride(c, 1)};
  collect_batches(call, &all);
  if (all.n_outer == 0) return all;
  const Batch inner = all.outer[--all.n_outer];
  if (inner.b == 0 && inner.a == g.m * g.a.row_stride && inner.c == g.m * g.c.row_stride && g.m > 1) g.m *= inner.count;
  else g.batches = inner.count, g.a.batch_stride = inner.a, g.b.batch_stride = inner.b, g.c.batch_stride = inner.c;
  return all;
}

const char* decline(const KernelCall& call) {
  if (call.in[0].dtype != call.in[1].dtype) return "mixed dtypes";
  const Batched all = gemms_of(call);
  if (all.calls() > kMostCalls) return "too many batches that do not lie evenly";
  return gemm_declines(all.gemm);
}

const void* moved(const void* data, int64_t elements, Dtype dtype) {
  return static_cast<const std::byte*>(data) + elements * static_cast<int64_t>(dtype_bytes(dtype));
}

void run(const KernelCall& call) {
  const Batched all = gemms_of(call);
  for (int64_t i = 0, n = all.calls(); i < n; ++i) {
    Gemm g = all.gemm;
    int64_t rest = i;
    for (int d = all.n_outer - 1; d >= 0; --d) {
      const int64_t at = rest % all.outer[d].count;
      rest /= all.outer[d].count;
      g.a.data = moved(g.a.data, at * all.outer[d].a, g.dtype);
      g.b.data = moved(g.b.data, at * all.outer[d].b, g.dtype);
      g.c.data = moved(g.c.data, at * all.outer[d].c, g.result);
    }
    if (!queue_gemm(g, *call.queue, "matmul cublas")) report_no_algorithm(*call.queue, "matmul cublas");
  }
}

constexpr Kernel kKernels[] = {
    {.op = "matmul", .name = "cublas", .backend = Backend::cuda, .decline = decline, .run = run, .accumulates = true}};

}  // namespace

extern const KernelList kernels_cuda_matmul_cublas;
const KernelList kernels_cuda_matmul_cublas = kernel_list(kKernels);

}  // namespace perigee
