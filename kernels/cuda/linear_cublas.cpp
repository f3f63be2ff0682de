// linear and its gradients by cuBLASLt: bias and relu in the forward product's epilogue, the bias' gradient in the weight gradient's. Where
// relu masks dz, one pass of ours writes it (linear_dz.cu) and sums its columns on the way.
// Floor: 2 R N K operations each at the tensor cores' rate, or the operands moved once.
#include "kernels/ops/linear.h"

#include "kernels/cuda/cublas_gemm.h"
#include "kernels/cuda/linear_dz.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr size_t kBorder = 256;
size_t round_up(size_t bytes) { return (bytes + kBorder - 1) / kBorder * kBorder; }

// [..., C] as rows; false when the leading dimensions do not lie evenly.
bool rows_of(const View& v, int64_t* count, LinearRows* rows) {
  *count = 1;
  *rows = {v.data, v.dims[v.rank - 1], v.strides[v.rank - 1]};  // one row: any stride will do
  for (int i = v.rank - 2; i >= 0; --i) {
    if (v.dims[i] == 1) continue;
    if (*count == 1) rows->row_stride = v.strides[i];
    else if (v.strides[i] != rows->row_stride * *count) return false;
    *count *= v.dims[i];
  }
  return true;
}

GemmMatrix matrix(const LinearRows& rows) { return {rows.data, rows.row_stride, rows.column_stride}; }
GemmMatrix matrix(const View& v) { return {v.data, v.strides[0], v.strides[1]}; }
GemmMatrix turned(GemmMatrix m) { return {m.data, m.column_stride, m.row_stride}; }

const View* optional(const View* views, int count, int index) {
  return count > index && views[index].data != nullptr ? &views[index] : nullptr;
}

// What cuBLASLt is asked for, and what comes before it.
struct Dense {
  Gemm gemm;
  LinearDz dz;
  int64_t rows = 0;
  bool masked = false;
  const char* why = nullptr;
};

Dense base(const KernelCall& call) {
  Dense d;
  d.gemm.dtype = call.in[0].dtype, d.gemm.result = call.out[0].dtype, d.gemm.accumulate = call.accumulate;
  for (int i = 0; i < call.n_in; ++i)
    if (call.in[i].data != nullptr && call.in[i].dtype != call.in[0].dtype) d.why = "mixed dtypes";
  return d;
}

Dense forward(const KernelCall& call) {
  Dense d = base(call);
  LinearRows x, y;
  int64_t rows = 0;
  if (!rows_of(call.in[0], &d.rows, &x) || !rows_of(call.out[0], &rows, &y)) d.why = "rows do not lie evenly";
  const View& w = call.in[1];
  d.gemm.m = d.rows, d.gemm.n = w.dims[0], d.gemm.k = w.dims[1];
  d.gemm.a = matrix(x), d.gemm.b = turned(matrix(w)), d.gemm.c = matrix(y);
  d.gemm.relu = call.as<LinearParams>().activation == LinearActivation::relu;
  if (const View* bias = optional(call.in, call.n_in, 2)) {
    d.gemm.bias = bias->data;
    if (bias->dims[0] != 1 && bias->strides[0] != 1) d.why = "a bias with gaps";
    if (bias->dtype != d.gemm.result) d.why = "mixed dtypes";
  }
  return d;
}

// The part that both gradients share: dz, which is dy itself or the front of the scratch.
Dense backward(const KernelCall& call, int64_t columns, GemmMatrix* dz) {
  Dense d = base(call);
  LinearRows dy;
  if (!rows_of(call.in[0], &d.rows, &dy)) d.why = "rows do not lie evenly";
  d.dz = {.dtype = d.gemm.dtype, .rows = d.rows, .columns = columns, .dy = dy};
  *dz = matrix(dy);
  if (const View* y = optional(call.in, call.n_in, 2)) {
    int64_t rows = 0;
    if (!rows_of(*y, &rows, &d.dz.y)) d.why = "rows do not lie evenly";
    d.masked = true;
    d.dz.dz = call.scratch;
    *dz = {call.scratch, columns, 1};
  }
  if (d.masked && d.gemm.dtype == Dtype::f64) d.why = "f64 with a mask";
  return d;
}

size_t masked_bytes(const Dense& d) {
  return d.masked ? round_up(static_cast<size_t>(d.rows * d.dz.columns) * dtype_bytes(d.gemm.dtype)) : 0;
}

Dense grad_input(const KernelCall& call) {
  const View& w = call.in[1];
  GemmMatrix dz;
  Dense d = backward(call, w.dims[0], &dz);
  LinearRows dx;
  int64_t rows = 0;
  if (!rows_of(call.out[0], &rows, &dx)) d.why = "rows do not lie evenly";
  d.gemm.m = d.rows, d.gemm.n = w.dims[1], d.gemm.k = w.dims[0];
  d.gemm.a = dz, d.gemm.b = matrix(w), d.gemm.c = matrix(dx);
  return d;
}

Dense grad_weight(const KernelCall& call) {
  const View& dw = call.out[0];
  GemmMatrix dz;
  Dense d = backward(call, dw.dims[0], &dz);
  LinearRows x;
  int64_t rows = 0;
  if (!rows_of(call.in[1], &rows, &x)) d.why = "rows do not lie evenly";
  d.gemm.m = dw.dims[0], d.gemm.n = dw.dims[1], d.gemm.k = d.rows;
  d.gemm.a = turned(dz), d.gemm.b = matrix(x), d.gemm.c = matrix(dw);
  if (const View* bias = optional(call.out, call.n_out, 1)) {
    d.dz.sums = bias->data, d.dz.sums_stride = bias->strides[0], d.dz.accumulate = call.accumulate;
    d.dz.partial = static_cast<std::byte*>(call.scratch) + masked_bytes(d);
    if (bias->dtype != d.gemm.dtype) d.why = "mixed dtypes";
    if (d.gemm.dtype == Dtype::f64) d.why = "f64 with a bias";
  }
  return d;
}

template <Dense (*Make)(const KernelCall&)>
const char* decline(const KernelCall& call) {
  const Dense d = Make(call);
  return d.why != nullptr ? d.why : gemm_declines(d.gemm);
}

template <Dense (*Make)(const KernelCall&)>
size_t scratch_bytes(const KernelCall& call) {
  const Dense d = Make(call);
  return masked_bytes(d) + (d.dz.sums != nullptr ? linear_partial_bytes(d.rows, d.dz.columns) : 0);
}

void multiply(const Gemm& gemm, CudaQueue& queue, const char* kernel) {
  if (!queue_gemm(gemm, queue, kernel)) report_no_algorithm(queue, kernel);
}

void run_forward(const KernelCall& call) { multiply(forward(call).gemm, *call.queue, "linear cublas"); }

void run_grad_input(const KernelCall& call) {
  const Dense d = grad_input(call);
  if (d.masked) queue_linear_dz(d.dz, *call.queue);
  multiply(d.gemm, *call.queue, "linear_grad_input cublas");
}

void run_grad_weight(const KernelCall& call) {
  const Dense d = grad_weight(call);
  if (d.dz.sums != nullptr && !d.masked && !call.accumulate && (d.dz.sums_stride == 1 || d.dz.columns == 1)) {
    Gemm both = d.gemm;
    both.row_sums = d.dz.sums;
    if (queue_gemm(both, *call.queue, "linear_grad_weight cublas")) return;
  }
  if (d.masked || d.dz.sums != nullptr) queue_linear_dz(d.dz, *call.queue);
  multiply(d.gemm, *call.queue, "linear_grad_weight cublas");
}

constexpr Kernel kKernels[] = {
    {.op = "linear", .name = "cublas", .backend = Backend::cuda, .decline = decline<forward>, .run = run_forward, .accumulates = true},
    {.op = "linear_grad_input",
     .name = "cublas",
     .backend = Backend::cuda,
     .decline = decline<grad_input>,
     .run = run_grad_input,
     .scratch_bytes = scratch_bytes<grad_input>,
     .accumulates = true},
    {.op = "linear_grad_weight",
     .name = "cublas",
     .backend = Backend::cuda,
     .decline = decline<grad_weight>,
     .run = run_grad_weight,
     .scratch_bytes = scratch_bytes<grad_weight>,
     .accumulates = true},
};

}  // namespace

extern const KernelList kernels_cuda_linear_cublas;
const KernelList kernels_cuda_linear_cublas = kernel_list(kKernels);

}  // namespace perigee
