// A dense layer and its gradients with our own tiles (tile.cuh): for machines without cuBLAS, small layers and any strides. Bias, relu and
// the mask of its gradient are applied where elements are read or written anyway. 2 R K N operations each.
#include "kernels/ops/linear.h"

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/matrix.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

bool has(const KernelCall& call, int input) { return call.n_in > input && call.in[input].data != nullptr; }

// dz: rows of dy, which y masks where it is there.
MatrixLoader<float> gradient_by(const KernelCall& call, bool lines_are_rows) {
  const View& dy = call.in[0];
  MatrixLoader<float> loader{.of = Elements(dy)};
  const Index rows = leading_index(dy, 1), columns = dimension_index(dy, dy.rank - 1);
  loader.lines = lines_are_rows ? rows : columns;
  loader.depth = lines_are_rows ? columns : rows;
  if (has(call, 2)) {
    const View& y = call.in[2];
    const Index mask_rows = leading_index(y, 1), mask_columns = dimension_index(y, y.rank - 1);
    loader.mask = Elements(y);
    loader.mask_lines = lines_are_rows ? mask_rows : mask_columns;
    loader.mask_depth = lines_are_rows ? mask_columns : mask_rows;
  }
  return loader;
}

MatrixSizes forward_sizes(const KernelCall& call) { return {leading_index(call.in[0], 1).n, call.in[1].dims[0], call.in[1].dims[1]}; }
MatrixSizes grad_input_sizes(const KernelCall& call) { return {leading_index(call.in[0], 1).n, call.in[1].dims[1], call.in[1].dims[0]}; }
MatrixSizes grad_weight_sizes(const KernelCall& call) {
  const View &dy = call.in[0], &x = call.in[1];
  return {dy.dims[dy.rank - 1], x.dims[x.rank - 1], leading_index(dy, 1).n};
}

MatrixLoader<float> weight_by(const View& weight, int line_dimension) {
  return {.of = Elements(weight), .lines = dimension_index(weight, line_dimension), .depth = dimension_index(weight, 1 - line_dimension)};
}

MatrixResult<float> rows_of(const View& view, bool accumulate) {
  return {.to = Elements(view), .rows = leading_index(view, 1), .columns = dimension_index(view, view.rank - 1), .accumulate = accumulate};
}

void linear(const KernelCall& call) {
  const View &x = call.in[0], &weight = call.in[1];
  const MatrixLoader<float> left{.of = Elements(x), .lines = leading_index(x, 1), .depth = dimension_index(x, x.rank - 1)};
  MatrixResult<float> result = rows_of(call.out[0], call.accumulate);
  if (has(call, 2)) result.bias = Elements(call.in[2]), result.bias_stride = call.in[2].strides[0];
  result.relu = call.as<LinearParams>().activation == LinearActivation::relu;
  Launches on(*call.queue, "linear");
  run_matrix_tiles(on, left, weight_by(weight, 0), result, forward_sizes(call), call.scratch);
}

void linear_grad_input(const KernelCall& call) {
  Launches on(*call.queue, "linear_grad_input");
  run_matrix_tiles(on, gradient_by(call, true), weight_by(call.in[1], 1), rows_of(call.out[0], call.accumulate), grad_input_sizes(call),
                   call.scratch);
}

// Column sums of dz.
struct BiasTerm {
  MatrixLoader<float> dz;
  __device__ void operator()(int64_t row, int64_t column, float (&sum)[1]) const { sum[0] += dz.at(dz.line(column, 0), dz.place(row)); }
};

struct BiasResult {
  Elements to;
  int64_t stride;
  bool accumulate;
  __device__ void operator()(int64_t column, const float (&sum)[1]) const { to.put<float>(column * stride, sum[0], accumulate); }
};

void linear_grad_weight(const KernelCall& call) {
  const View &x = call.in[1], &dw = call.out[0];
  const MatrixSizes sizes = grad_weight_sizes(call);
  const MatrixLoader<float> dz = gradient_by(call, false);
  const MatrixLoader<float> right{.of = Elements(x), .lines = dimension_index(x, x.rank - 1), .depth = leading_index(x, 1)};
  const MatrixResult<float> result{
      .to = Elements(dw), .rows = dimension_index(dw, 0), .columns = dimension_index(dw, 1), .accumulate = call.accumulate};
  Launches on(*call.queue, "linear_grad_weight");
  run_matrix_tiles(on, dz, right, result, sizes, call.scratch);
  if (call.n_out < 2 || call.out[1].data == nullptr) return;
  const BiasResult bias{Elements(call.out[1]), call.out[1].strides[0], call.accumulate};
  sum_columns<float, 1>(on, BiasTerm{dz}, bias, sizes.depth, sizes.rows, call.scratch);
}

size_t linear_scratch(const KernelCall& call) { return matrix_scratch(forward_sizes(call)); }
size_t grad_input_scratch(const KernelCall& call) { return matrix_scratch(grad_input_sizes(call)); }
size_t grad_weight_scratch(const KernelCall& call) {
  const MatrixSizes sizes = grad_weight_sizes(call);
  return max(matrix_scratch(sizes), columns_scratch<float, 1>(sizes.depth, sizes.rows));
}

constexpr Kernel kernel(const char* op, void (*run)(const KernelCall&), size_t (*scratch)(const KernelCall&)) {
  return {.op = op,
          .name = "tiles",
          .backend = Backend::cuda,
          .decline = decline_unless_f32,
          .run = run,
          .scratch_bytes = scratch,
          .accumulates = true};
}

const Kernel kKernels[] = {
    kernel("linear", linear, linear_scratch),
    kernel("linear_grad_input", linear_grad_input, grad_input_scratch),
    kernel("linear_grad_weight", linear_grad_weight, grad_weight_scratch),
};

}  // namespace

extern const KernelList kernels_cuda_linear;
const KernelList kernels_cuda_linear = kernel_list(kKernels);

}  // namespace perigee
