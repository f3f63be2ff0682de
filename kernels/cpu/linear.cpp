// Dense layers without packed weights where the batch is large enough: forward computes y^T = w x^T with examples in the lanes, so that
// the weight is read once, in order, where it lies, and only the small x and y are transposed; the gradients' operands can all be
// loaded as vectors as they are. Few rows would leave lanes empty: then forward uses a transposed copy of the weight, made once a step.
#include "kernels/ops/linear.h"

#include <cstring>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

using namespace gemm;

// [..., C] as rows of contiguous columns.
struct Matrix {
  float* data = nullptr;
  int64_t rows = 1, columns = 0, stride = 0;
};

bool matrix_of(const View& v, Matrix* m) {
  if (v.dtype != Dtype::f32 || v.rank < 2) return false;
  *m = {v.as<float>(), 1, v.dims[v.rank - 1], 0};
  if (m->columns != 1 && v.strides[v.rank - 1] != 1) return false;
  int64_t outer = 0;  // stride of the dimension before, counted from the last one with more than one element
  for (int i = v.rank - 2; i >= 0; --i) {
    if (v.dims[i] != 1) {
      if (m->rows == 1) m->stride = v.strides[i];
      else if (v.strides[i] != outer) return false;
      outer = v.strides[i] * v.dims[i];
    }
    m->rows *= v.dims[i];
  }
  if (m->rows == 1) m->stride = m->columns;
  return m->stride > 0 || m->rows == 1;
}

Matrix matrix(const View& v) {
  Matrix m;
  matrix_of(v, &m);
  return m;
}

const float* vector_or_null(const KernelCall& call, int i) { return call.n_in > i ? call.in[i].as<float>() : nullptr; }
bool contiguous_f32(const View& v) { return v.dtype == Dtype::f32 && v.contiguous(); }

const char* decline_layout(const KernelCall& call) {
  Matrix m;
  for (int i : {0, 1})
    if (!matrix_of(call.in[i], &m)) return "operands must be f32 with contiguous rows";
  if (!matrix_of(call.out[0], &m)) return "the output must be f32 with contiguous rows";
  for (const View* v : {call.n_in > 2 ? &call.in[2] : nullptr, call.n_out > 1 ? &call.out[1] : nullptr})
    if (v && v->data && !(v->rank == 1 ? contiguous_f32(*v) : matrix_of(*v, &m))) return "optional operands must be f32 and contiguous";
  return nullptr;
}

bool is_gelu(const KernelCall& call) { return call.as<LinearParams>().activation == LinearActivation::gelu_tanh; }

const char* decline_activation(const KernelCall& call) {
  return is_gelu(call) && call.accumulate ? "no gelu of a sum over several calls" : decline_layout(call);
}

// to[r, j] = f(from[r, j], to[r, j]), vectors at a time.
template <class F>
void each_vector(const Matrix& from, const Matrix& to, F f) {
  for (int64_t r = 0; r < to.rows; ++r) {
    const float* const x = from.data + r * from.stride;
    float* const y = to.data + r * to.stride;
    int64_t j = 0;
    for (; j + kLanes <= to.columns; j += kLanes) store(y + j, f(load(x + j), load(y + j)));
    const int rest = static_cast<int>(to.columns - j);
    if (rest > 0) store_first(y + j, f(load_first(x + j, rest), load_first(y + j, rest)), rest);
  }
}

namespace math = PERIGEE_CPU_NAMESPACE;
constexpr float kScale = static_cast<float>(kGeluScale), kCube = static_cast<float>(kGeluCube);
PERIGEE_INLINE Vec tanh_in_gelu(Vec z) { return math::tanh_of(kScale * (z + kCube * (z * (z * z)))); }

// Where the product goes: what gelu is taken of is kept, or lies where its result will.
Matrix product_of(const KernelCall& call) {
  return matrix(is_gelu(call) && call.n_out > 1 && call.out[1].data ? call.out[1] : call.out[0]);
}

void finish_gelu(const KernelCall& call) {
  if (!is_gelu(call)) return;
  each_vector(product_of(call), matrix(call.out[0]), [](Vec z, Vec) { return 0.5f * z * (1.0f + tanh_in_gelu(z)); });
}

// Forward, examples in the lanes.

constexpr int kRowVectors = kAccumulators > 12 ? 4 : 3;

// The rows of x are cut into nearly equal chunks of at most kRowVectors vectors.
struct Chunks {
  explicit Chunks(int64_t rows) : panels(rows, kRowVectors) {}
  int64_t widest() const { return panels.count ? (panels.vectors + panels.count - 1) / panels.count * kLanes : 0; }
  Panels panels;
};

const char* decline_by_rows(const KernelCall& call) {
  if (const char* reason = decline_activation(call)) return reason;
  const int64_t rows = matrix(call.out[0]).rows, lanes = (rows + kLanes - 1) / kLanes * kLanes;
  return rows * 4 < lanes * 3 ? "too few rows to fill the lanes" : nullptr;
}

size_t scratch_by_rows(const KernelCall& call) {
  const Matrix x = matrix(call.in[0]), y = matrix(call.out[0]);
  return static_cast<size_t>((x.columns + y.columns + kLanes) * Chunks(x.rows).widest()) * sizeof(float);
}

// y[r, n] = finish(yt[n, r]) for r < rows.
void finish_transposed(const float* yt, int64_t width, const Matrix& y, int64_t first_row, int64_t rows, const Finish& finish) {
  for (int64_t r = 0; r < rows; r += kLanes) {
    const int height = static_cast<int>(rows - r < kLanes ? rows - r : kLanes);
    for (int64_t n = 0; n < y.columns; n += kLanes) {
      const int count = static_cast<int>(y.columns - n < kLanes ? y.columns - n : kLanes);
      Vec v[kLanes];
      for (int i = 0; i < kLanes; ++i) v[i] = i < count ? load(yt + (n + i) * width + r) : Vec{};
      transpose(v);
      const Vec bias = !finish.bias ? Vec{} : count == kLanes ? load(finish.bias + n) : load_first(finish.bias + n, count);
      float* to = y.data + (first_row + r) * y.stride + n;
      for (int i = 0; i < height; ++i, to += y.stride) {
        Vec out = v[i] + bias;
        if (finish.relu) out = relu(out);
        if (finish.accumulate) out += count == kLanes ? load(to) : load_first(to, count);
        if (count == kLanes) store(to, out);
        else store_first(to, out, count);
      }
    }
  }
}

Finish finish_of(const KernelCall& call) {
  return {
      .accumulate = call.accumulate, .bias = vector_or_null(call, 2), .relu = call.as<LinearParams>().activation == LinearActivation::relu};
}

void run_by_rows(const KernelCall& call) {
  const Matrix x = matrix(call.in[0]), w = matrix(call.in[1]), y = product_of(call);
  const Panels chunks = Chunks(x.rows).panels;
  float* xt = static_cast<float*>(call.scratch);
  for (int64_t q = 0; q < chunks.count; ++q) {
    const int64_t first = chunks.first(q), width = chunks.width(q) * kLanes, rows = width - kLanes + chunks.last(q);
    float* yt = xt + x.columns * width;
    transpose_copy(x.data + first * x.stride, x.stride, rows, x.columns, xt, width, true);
    multiply<true>(
        {.m = w.rows, .n = width, .k = w.columns, .a = w.data, .a_stride = w.stride, .b = xt, .ldb = width, .c = yt, .ldc = width}, false,
        kRowVectors);
    finish_transposed(yt, width, y, first, rows, finish_of(call));
  }
  finish_gelu(call);
}

// Forward, outputs in the lanes, from a transposed copy of the weight.

size_t packed_bytes(const KernelCall& call) {
  const Matrix w = matrix(call.in[1]);
  return static_cast<size_t>((w.rows + kLanes - 1) / kLanes * kLanes * w.columns) * sizeof(float);
}

void pack(const KernelCall& call) {
  const Matrix w = matrix(call.in[1]);
  const Panels panels(w.rows, kPanelVectors);
  for (int64_t q = 0; q < panels.count; ++q) {
    const int64_t first = panels.first(q), width = panels.width(q) * kLanes;
    transpose_copy(w.data + first * w.stride, w.stride, width - kLanes + panels.last(q), w.columns,
                   static_cast<float*>(call.packed) + first * w.columns, width, true);
  }
}

void run_packed(const KernelCall& call) {
  const Matrix x = matrix(call.in[0]), y = product_of(call);
  multiply<true>({.m = x.rows,
                  .n = y.columns,
                  .k = x.columns,
                  .a = x.data,
                  .a_stride = x.stride,
                  .b = static_cast<const float*>(call.packed),
                  .c = y.data,
                  .ldc = y.stride,
                  .finish = finish_of(call)},
                 true);
  finish_gelu(call);
}

// Gradients.

void multiply_by_slope(const Matrix& dx, const Matrix& z) {
  each_vector(z, dx, [](Vec x, Vec d) {
    const Vec t = tanh_in_gelu(x);
    return d * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * (kScale * (1.0f + 3 * kCube * (x * x))));
  });
}

// The gradient stops where the relu below was zero.
void mask(const Matrix& dx, const Matrix& y) {
  for (int64_t r = 0; r < dx.rows; ++r) {
    const float* value = y.data + r * y.stride;
    float* to = dx.data + r * dx.stride;
    for (int64_t j = 0; j < dx.columns; ++j) to[j] = value[j] > 0 ? to[j] : 0.0f;
  }
}

const char* decline_grad_input(const KernelCall& call) {
  if (call.n_in > 2 && call.in[2].data && call.accumulate) return "a masked sum is not added";
  return decline_layout(call);
}

void run_grad_input(const KernelCall& call) {
  const Matrix dz = matrix(call.in[0]), w = matrix(call.in[1]), dx = matrix(call.out[0]);
  multiply<true>({.m = dz.rows,
                  .n = dx.columns,
                  .k = dz.columns,
                  .a = dz.data,
                  .a_stride = dz.stride,
                  .b = w.data,
                  .ldb = w.stride,
                  .c = dx.data,
                  .ldc = dx.stride,
                  .finish = {.accumulate = call.accumulate}});
  if (call.n_in < 3 || !call.in[2].data) return;
  if (is_gelu(call)) multiply_by_slope(dx, matrix(call.in[2]));
  else mask(dx, matrix(call.in[2]));
}

// Many columns at once: a step down the rows of one vector's width would miss every cache and page that the rows before had brought.
template <int Vectors>
void column_sums(const Matrix& dz, int64_t j, bool accumulate, float* sums) {
  const int64_t left = dz.columns - j - (Vectors - 1) * kLanes;
  const int last = static_cast<int>(left < kLanes ? left : kLanes);
  Vec sum[Vectors] = {};
  const auto add = [&](const float* row) __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v)
      sum[v] += v < Vectors - 1 || last == kLanes ? load(row + v * kLanes) : load_first(row + v * kLanes, last);
  };
  if (accumulate) add(sums + j);
  for (int64_t r = 0; r < dz.rows; ++r) add(dz.data + r * dz.stride + j);
  for (int v = 0; v < Vectors; ++v) store_first(sums + j + v * kLanes, sum[v], v < Vectors - 1 ? kLanes : last);
}

void column_sums(const Matrix& dz, bool accumulate, float* sums) {
  constexpr int kVectors = 8;
  int64_t j = 0;
  for (; j + kVectors * kLanes <= dz.columns; j += kVectors * kLanes) column_sums<kVectors>(dz, j, accumulate, sums);
  for (; j < dz.columns; j += kLanes) column_sums<1>(dz, j, accumulate, sums);
}

const char* decline_grad_weight(const KernelCall& call) {
  if (const char* reason = decline_layout(call)) return reason;
  // So many rows a page apart are in few lines of every cache, whatever a table says that was measured on a short sequence.
  constexpr int64_t kMostRows = 256, kPage = 4096 / sizeof(float);
  const Matrix dz = matrix(call.in[0]);
  return call.in[1].rank > 2 && dz.rows > kMostRows && dz.stride % kPage == 0 ? "rows of a long sequence are copied side by side" : nullptr;
}

void run_grad_weight(const KernelCall& call) {
  const Matrix dz = matrix(call.in[0]), x = matrix(call.in[1]), dw = matrix(call.out[0]);
  multiply_by_rows<false>({.m = dz.columns,
                           .n = x.columns,
                           .k = dz.rows,
                           .a = dz.data,
                           .a_stride = dz.stride,
                           .b = x.data,
                           .ldb = x.stride,
                           .c = dw.data,
                           .ldc = dw.stride,
                           .finish = {.accumulate = call.accumulate}});
  if (call.n_out > 1 && call.out[1].data) column_sums(dz, call.accumulate, call.out[1].as<float>());
}

// The same for sequences, whose rows are many: a panel of dz is copied side by side, because rows of it that lie a power of two apart
// would share a few lines of each cache.

constexpr int64_t kStepRows = 512;

const char* decline_grad_steps(const KernelCall& call) {
  if (call.in[1].rank < 3) return "only for sequences";
  return decline_layout(call);
}

size_t scratch_grad_steps(const KernelCall& call) {
  const int64_t rows = matrix(call.in[0]).rows;
  return static_cast<size_t>((rows < kStepRows ? rows : kStepRows) * kPanelVectors * kLanes) * sizeof(float);
}

void run_grad_steps(const KernelCall& call) {
  const Matrix dz = matrix(call.in[0]), x = matrix(call.in[1]), dw = matrix(call.out[0]);
  const Panels panels(dz.columns, kPanelVectors);
  float *const panel = static_cast<float*>(call.scratch), *const sums = call.n_out > 1 ? call.out[1].as<float>() : nullptr;
  for (int64_t q = 0; q < panels.count; ++q) {
    const int64_t first = panels.first(q), count = panels.width(q) * kLanes - kLanes + panels.last(q);
    for (int64_t begin = 0; begin < dz.rows; begin += kStepRows) {
      const int64_t rows = dz.rows - begin < kStepRows ? dz.rows - begin : kStepRows;
      for (int64_t r = 0; r < rows; ++r)
        std::memcpy(panel + r * count, dz.data + (begin + r) * dz.stride + first, static_cast<size_t>(count) * sizeof(float));
      if (sums) column_sums({panel, rows, count, count}, call.accumulate || begin > 0, sums + first);
      multiply_by_rows<false>({.m = count,
                               .n = x.columns,
                               .k = rows,
                               .a = panel,
                               .a_stride = count,
                               .b = x.data + begin * x.stride,
                               .ldb = x.stride,
                               .c = dw.data + first * dw.stride,
                               .ldc = dw.stride,
                               .finish = {.accumulate = call.accumulate || begin > 0}});
    }
  }
}

const Kernel kKernels[] = {
    {.op = "linear",
     .name = "by_rows",
     .backend = Backend::cpu,
     .isa = Isa::PERIGEE_ISA,
     .decline = decline_by_rows,
     .run = run_by_rows,
     .scratch_bytes = scratch_by_rows,
     .accumulates = true},
    {.op = "linear",
     .name = "packed",
     .backend = Backend::cpu,
     .isa = Isa::PERIGEE_ISA,
     .decline = decline_activation,
     .run = run_packed,
     .packed_bytes = packed_bytes,
     .pack = pack,
     .accumulates = true},
    {.op = "linear_grad_input",
     .name = "tiles",
     .backend = Backend::cpu,
     .isa = Isa::PERIGEE_ISA,
     .decline = decline_grad_input,
     .run = run_grad_input,
     .accumulates = true},
    {.op = "linear_grad_weight",
     .name = "tiles",
     .backend = Backend::cpu,
     .isa = Isa::PERIGEE_ISA,
     .decline = decline_grad_weight,
     .run = run_grad_weight,
     .accumulates = true},
    {.op = "linear_grad_weight",
     .name = "steps",
     .backend = Backend::cpu,
     .isa = Isa::PERIGEE_ISA,
     .decline = decline_grad_steps,
     .run = run_grad_steps,
     .scratch_bytes = scratch_grad_steps,
     .accumulates = true},
};

}  // namespace

extern const KernelList PERIGEE_CPU_KERNELS(linear);
const KernelList PERIGEE_CPU_KERNELS(linear) = kernel_list(kKernels);

}  // namespace perigee
