// linear and its gradients by cuBLASLt: bias, relu and gelu in the forward product's epilogue, gelu's slope in the data gradient's, the
// bias' gradient in the weight gradient's. What an epilogue does not take (relu's slope comes from a mask of bits in an order that NVIDIA
// does not tell, gelu wants rows a multiple of 8 apart) is a pass of ours behind the product (linear_passes.cu). Floor: 2 R N K operations
// each at the tensor cores' rate, or the operands moved once.
#include "kernels/ops/linear.h"

#include <optional>

#include "kernels/cuda/library/cublas_gemm.h"
#include "kernels/cuda/product/linear_passes.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

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

// The product for cuBLASLt, and the passes after it that the epilogue does not take.
struct Dense {
  Gemm gemm;  // without what `pass` does
  LinearPass pass;
  LinearSums sums;
  int64_t rows = 0;
  const char* why = nullptr;
};

Dense base(const KernelCall& call) {
  Dense d;
  d.gemm.dtype = call.in[0].dtype, d.gemm.result = call.out[0].dtype, d.gemm.accumulate = call.accumulate;
  for (int i = 0; i < call.n_in; ++i)
    if (call.in[i].data != nullptr && call.in[i].dtype != call.in[0].dtype) d.why = "mixed dtypes";
  return d;
}

void add_pass(Dense* d, LinearActivation activation, const LinearRows& from, const LinearRows& to) {
  d->pass = {.dtype = d->gemm.result, .rows = d->gemm.m, .columns = d->gemm.n, .from = from, .to = to, .activation = activation};
  if (d->gemm.dtype == Dtype::f64) d->why = "f64 with an activation";
  if (d->gemm.dtype != d->gemm.result) d->why = "mixed dtypes";
  if (d->gemm.accumulate) d->why = "an activation is not added";
}

// The same with gelu, or its slope, in the epilogue; none where what is kept does not lie as it has to.
std::optional<Gemm> with_gelu(const Dense& d) {
  const LinearPass& pass = d.pass;
  if (pass.to.data == nullptr || pass.activation != LinearActivation::gelu_tanh) return std::nullopt;
  const bool slope = pass.kept.data != nullptr;
  LinearRows kept = pass.kept;
  if (!slope && pass.from.data != pass.to.data) kept = pass.from;
  Gemm gemm = d.gemm;
  if (kept.data != nullptr && kept.column_stride != 1 && gemm.n != 1) return std::nullopt;
  gemm.c = matrix(pass.to);
  gemm.gelu = slope ? Gemm::Gelu::slope : Gemm::Gelu::value;
  gemm.kept = kept.data;
  gemm.kept_stride = d.rows > 1 ? kept.row_stride : (gemm.n + 7) / 8 * 8;
  if (gemm_declines(gemm) != nullptr) return std::nullopt;
  return gemm;
}

// A pass of gelu behind a product of 16 bits would take what was rounded once and round again.
bool rounds_twice(const Dense& d) {
  return d.pass.to.data != nullptr && d.pass.activation == LinearActivation::gelu_tanh && dtype_bytes(d.pass.dtype) == 2;
}

Dense forward(const KernelCall& call) {
  Dense d = base(call);
  LinearRows x, y, z;
  int64_t rows = 0;
  if (!rows_of(call.in[0], &d.rows, &x) || !rows_of(call.out[0], &rows, &y)) d.why = "rows do not lie evenly";
  const View& w = call.in[1];
  d.gemm.m = d.rows, d.gemm.n = w.dims[0], d.gemm.k = w.dims[1];
  d.gemm.a = matrix(x), d.gemm.b = turned(matrix(w)), d.gemm.c = matrix(y);
  const LinearActivation activation = call.as<LinearParams>().activation;
  d.gemm.relu = activation == LinearActivation::relu;
  if (const View* kept = optional(call.out, call.n_out, 1)) {
    if (!rows_of(*kept, &rows, &z)) d.why = "rows do not lie evenly";
    if (kept->dtype != d.gemm.result) d.why = "mixed dtypes";
    d.gemm.c = matrix(z);
  }
  if (activation == LinearActivation::gelu_tanh) add_pass(&d, activation, z.data != nullptr ? z : y, y);
  if (const View* bias = optional(call.in, call.n_in, 2)) {
    d.gemm.bias = bias->data;
    if (bias->dims[0] != 1 && bias->strides[0] != 1) d.why = "a bias with gaps";
    if (bias->dtype != d.gemm.result) d.why = "mixed dtypes";
  }
  return d;
}

Dense grad_input(const KernelCall& call) {
  const View& w = call.in[1];
  Dense d = base(call);
  LinearRows dz, dx;
  int64_t rows = 0;
  if (!rows_of(call.in[0], &d.rows, &dz) || !rows_of(call.out[0], &rows, &dx)) d.why = "rows do not lie evenly";
  d.gemm.m = d.rows, d.gemm.n = w.dims[1], d.gemm.k = w.dims[0];
  d.gemm.a = matrix(dz), d.gemm.b = matrix(w), d.gemm.c = matrix(dx);
  if (const View* kept = optional(call.in, call.n_in, 2)) {
    add_pass(&d, call.as<LinearParams>().activation, dx, dx);
    if (!rows_of(*kept, &rows, &d.pass.kept)) d.why = "rows do not lie evenly";
  }
  return d;
}

Dense grad_weight(const KernelCall& call) {
  const View& dw = call.out[0];
  Dense d = base(call);
  LinearRows dz, x;
  int64_t rows = 0;
  if (!rows_of(call.in[0], &d.rows, &dz) || !rows_of(call.in[1], &rows, &x)) d.why = "rows do not lie evenly";
  d.gemm.m = dw.dims[0], d.gemm.n = dw.dims[1], d.gemm.k = d.rows;
  d.gemm.a = turned(matrix(dz)), d.gemm.b = matrix(x), d.gemm.c = matrix(dw);
  if (const View* bias = optional(call.out, call.n_out, 1)) {
    d.sums = {.dtype = d.gemm.dtype,
              .rows = d.rows,
              .columns = dw.dims[0],
              .dz = dz,
              .sums = bias->data,
              .sums_stride = bias->strides[0],
              .accumulate = call.accumulate,
              .partial = call.scratch};
    if (bias->dtype != d.gemm.dtype) d.why = "mixed dtypes";
    if (d.gemm.dtype == Dtype::f64) d.why = "f64 with a bias";
  }
  return d;
}

template <Dense (*Make)(const KernelCall&)>
const char* decline(const KernelCall& call) {
  const Dense d = Make(call);
  if (d.why != nullptr) return d.why;
  if (rounds_twice(d) && !with_gelu(d)) return "gelu in 16 bits, and rows that are no multiple of 8 apart";
  return gemm_declines(d.gemm);
}

size_t sums_bytes(const KernelCall& call) {
  const Dense d = grad_weight(call);
  return d.sums.sums != nullptr ? linear_partial_bytes(d.rows, d.sums.columns) : 0;
}

void multiply(const Gemm& gemm, CudaQueue& queue, const char* kernel) {
  if (!queue_gemm(gemm, queue, kernel)) report_no_algorithm(queue, kernel);
}

void multiply_and_activate(const Dense& d, CudaQueue& queue, const char* kernel) {
  const std::optional<Gemm> fused = with_gelu(d);
  if (fused && queue_gemm(*fused, queue, kernel)) return;
  if (rounds_twice(d)) return report_no_algorithm(queue, kernel);
  multiply(d.gemm, queue, kernel);
  if (d.pass.to.data != nullptr) queue_linear_pass(d.pass, queue);
}

void run_forward(const KernelCall& call) { multiply_and_activate(forward(call), *call.queue, "linear cublas"); }
void run_grad_input(const KernelCall& call) { multiply_and_activate(grad_input(call), *call.queue, "linear_grad_input cublas"); }

void run_grad_weight(const KernelCall& call) {
  constexpr const char* kName = "linear_grad_weight cublas";
  const Dense d = grad_weight(call);
  if (d.sums.sums != nullptr) {
    Gemm both = d.gemm;
    both.row_sums = d.sums.sums;
    const bool fits = !call.accumulate && (d.sums.sums_stride == 1 || d.sums.columns == 1);
    if (fits && queue_gemm(both, *call.queue, kName)) return;
    queue_linear_sums(d.sums, *call.queue);
  }
  multiply(d.gemm, *call.queue, kName);
}

constexpr Kernel kKernels[] = {
    {.op = "linear", .name = "cublas", .backend = Backend::cuda, .decline = decline<forward>, .run = run_forward, .accumulates = true},
    {.op = "linear_grad_input",
     .name = "cublas",
     .backend = Backend::cuda,
     .decline = decline<grad_input>,
     .run = run_grad_input,
     .accumulates = true},
    {.op = "linear_grad_weight",
     .name = "cublas",
     .backend = Backend::cuda,
     .decline = decline<grad_weight>,
     .run = run_grad_weight,
     .scratch_bytes = sums_bytes,
     .accumulates = true},
};

}  // namespace

extern const KernelList kernels_cuda_linear_cublas;
const KernelList kernels_cuda_linear_cublas = kernel_list(kKernels);

}  // namespace perigee
