// Matrix products of any batch shape. Whatever operand has contiguous rows in the direction of C's columns is used where it lies; only
// B transposed is copied, panel by panel.
#include "kernels/ops/matmul.h"

#include "kernels/cpu/gemm.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

using namespace gemm;

// A matrix operand: rows and columns of op(X), with their strides.
struct Matrix {
  int64_t rows, columns, row_stride, column_stride;
};

Matrix matrix(const View& v, bool transposed) {
  const int r = v.rank - (transposed ? 1 : 2), c = v.rank - (transposed ? 2 : 1);
  // The stride of a dimension of size 1 means nothing: take one that suits.
  const int64_t row = v.dims[r] == 1 ? v.dims[c] : v.strides[r], column = v.dims[c] == 1 ? 1 : v.strides[c];
  return {v.dims[r], v.dims[c], row, column};
}

struct Operands {
  explicit Operands(const KernelCall& call)
      : a(matrix(call.in[0], call.as<MatmulParams>().transpose_a)),
        b(matrix(call.in[1], call.as<MatmulParams>().transpose_b)),
        c(matrix(call.out[0], false)) {}
  bool a_rows() const { return a.column_stride == 1; }  // k contiguous
  bool a_columns() const { return a.row_stride == 1 || a.rows == 1; }
  bool b_rows() const { return b.column_stride == 1; }
  bool b_columns() const { return b.row_stride == 1 || b.rows == 1; }
  Matrix a, b, c;
};

const char* decline(const KernelCall& call) {
  for (const View* v : {&call.in[0], &call.in[1], &call.out[0]})
    if (v->dtype != Dtype::f32 || v->rank < 2) return "f32 only";
  const Operands o(call);
  if (o.c.column_stride != 1) return "the output's rows must be contiguous";
  if (!o.a_rows() && !o.a_columns()) return "a has contiguous elements in no direction";
  if (!o.b_rows() && !o.b_columns()) return "b has contiguous elements in no direction";
  return nullptr;
}

// Room for one panel of B, transposed.
size_t scratch_bytes(const KernelCall& call) {
  const Operands o(call);
  return o.b_rows() ? 0 : static_cast<size_t>(o.b.rows * kPanelVectors * kLanes) * sizeof(float);
}

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

template <bool ContiguousK>
void multiply_one(const Operands& o, Product p, float* scratch) {
  if (o.b_rows()) {
    p.ldb = o.b.row_stride;
    // C in order when it is the large one, B's panels when they are.
    p.k < p.m ? multiply_by_rows<ContiguousK>(p) : multiply<ContiguousK>(p);
    return;
  }
  const Panels panels(p.n, kPanelVectors);
  for (int64_t q = 0; q < panels.count; ++q) {
    const int64_t j = panels.first(q), width = panels.width(q) * kLanes, columns = width - kLanes + panels.last(q);
    transpose_copy(p.b + j * o.b.column_stride, o.b.column_stride, columns, p.k, scratch, width, true);
    Product part = p;
    part.n = columns;
    part.b = scratch;
    part.ldb = width;
    part.c = p.c + j;
    multiply<ContiguousK>(part);
  }
}

void run(const KernelCall& call) {
  const Operands o(call);
  const View &a = call.in[0], &b = call.in[1], &c = call.out[0];
  int64_t batches = 1;
  for (int i = 0; i < c.rank - 2; ++i) batches *= c.dims[i];
  for (int64_t batch = 0; batch < batches; ++batch) {
    const Product p = {.m = o.c.rows,
                       .n = o.c.columns,
                       .k = o.a.columns,
                       .a = a.as<float>() + batch_offset(a, c, batch),
                       .a_stride = o.a_rows() ? o.a.row_stride : o.a.column_stride,
                       .b = b.as<float>() + batch_offset(b, c, batch),
                       .c = c.as<float>() + batch_offset(c, c, batch),
                       .ldc = o.c.row_stride,
                       .finish = {.accumulate = call.accumulate}};
    o.a_rows() ? multiply_one<true>(o, p, static_cast<float*>(call.scratch)) : multiply_one<false>(o, p, static_cast<float*>(call.scratch));
  }
}

const Kernel kKernels[] = {{.op = "matmul",
                            .name = "tiles",
                            .backend = Backend::cpu,
                            .isa = Isa::PERIGEE_ISA,
                            .decline = decline,
                            .run = run,
                            .scratch_bytes = scratch_bytes,
                            .accumulates = true}};

}  // namespace

extern const KernelList PERIGEE_CPU_KERNELS(matmul);
const KernelList PERIGEE_CPU_KERNELS(matmul) = kernel_list(kKernels);

}  // namespace perigee
