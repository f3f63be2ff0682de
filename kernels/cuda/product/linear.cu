// A dense layer and its gradients with our own tiles (tile.cuh): for machines without cuBLAS, small layers and any strides. Bias,
// activation and the slope of the activation below are applied where sums are written; the bias' gradient is one more column of the
// weight's, whose inputs are ones. 2 R K N operations each.
#include "kernels/ops/linear.h"

#include "kernels/cuda/product/matrix.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

bool has(const KernelCall& call, int input) { return call.n_in > input && call.in[input].data != nullptr; }

MatrixSizes forward_sizes(const KernelCall& call) { return {leading_index(call.in[0], 1).n, call.in[1].dims[0], call.in[1].dims[1]}; }
MatrixSizes grad_input_sizes(const KernelCall& call) { return {leading_index(call.in[0], 1).n, call.in[1].dims[1], call.in[1].dims[0]}; }
bool wants_bias(const KernelCall& call) { return call.n_out > 1 && call.out[1].data != nullptr; }
MatrixSizes grad_weight_sizes(const KernelCall& call) {
  const View &dz = call.in[0], &x = call.in[1];
  return {dz.dims[dz.rank - 1], x.dims[x.rank - 1] + wants_bias(call), leading_index(dz, 1).n};
}

// Lines are rows of [..., C], or its columns.
MatrixLoader<float> rows_by(const View& v) {
  return {.of = Elements(v), .lines = leading_index(v, 1), .depth = dimension_index(v, v.rank - 1)};
}
MatrixLoader<float> columns_by(const View& v) {
  return {.of = Elements(v), .lines = dimension_index(v, v.rank - 1), .depth = leading_index(v, 1)};
}

MatrixLoader<float> weight_by(const View& weight, int line_dimension) {
  return {.of = Elements(weight), .lines = dimension_index(weight, line_dimension), .depth = dimension_index(weight, 1 - line_dimension)};
}

using Gelu = LinearResult<float>::Gelu;

LinearResult<float> rows_of(const View& view, bool accumulate) {
  return {MatrixResult<float>{
      .to = Elements(view), .rows = leading_index(view, 1), .columns = dimension_index(view, view.rank - 1), .accumulate = accumulate}};
}

void keep(const View& kept, LinearResult<float>* result) {
  result->kept = Elements(kept), result->kept_rows = leading_index(kept, 1), result->kept_stride = kept.strides[kept.rank - 1];
}

void linear(const KernelCall& call) {
  const LinearActivation activation = call.as<LinearParams>().activation;
  LinearResult<float> result = rows_of(call.out[0], call.accumulate);
  if (has(call, 2)) result.bias = Elements(call.in[2]), result.bias_stride = call.in[2].strides[0];
  result.relu = activation == LinearActivation::relu;
  if (activation == LinearActivation::gelu_tanh) result.gelu = Gelu::value;
  if (call.n_out > 1 && call.out[1].data != nullptr) keep(call.out[1], &result);
  Launches on(*call.queue, "linear");
  run_matrix_tiles(on, rows_by(call.in[0]), {weight_by(call.in[1], 0)}, result, forward_sizes(call), call.scratch);
}

void linear_grad_input(const KernelCall& call) {
  LinearResult<float> result = rows_of(call.out[0], call.accumulate);
  if (has(call, 2)) {
    keep(call.in[2], &result);
    result.masked = call.as<LinearParams>().activation == LinearActivation::relu;
    if (!result.masked) result.gelu = Gelu::slope;
  }
  Launches on(*call.queue, "linear_grad_input");
  run_matrix_tiles(on, rows_by(call.in[0]), {weight_by(call.in[1], 1)}, result, grad_input_sizes(call), call.scratch);
}

void linear_grad_weight(const KernelCall& call) {
  const View &x = call.in[1], &dw = call.out[0];
  MatrixLoaderWithOnes<float> inputs{columns_by(x)};
  LinearResult<float> result{MatrixResult<float>{
      .to = Elements(dw), .rows = dimension_index(dw, 0), .columns = dimension_index(dw, 1), .accumulate = call.accumulate}};
  if (wants_bias(call)) {
    inputs.ones = result.sums_column = x.dims[x.rank - 1];
    result.sums = Elements(call.out[1]), result.sums_stride = call.out[1].strides[0];
  }
  Launches on(*call.queue, "linear_grad_weight");
  run_matrix_tiles(on, columns_by(call.in[0]), inputs, result, grad_weight_sizes(call), call.scratch);
}

size_t linear_scratch(const KernelCall& call) { return matrix_scratch(forward_sizes(call)); }
size_t grad_input_scratch(const KernelCall& call) { return matrix_scratch(grad_input_sizes(call)); }
size_t grad_weight_scratch(const KernelCall& call) { return matrix_scratch(grad_weight_sizes(call)); }

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
