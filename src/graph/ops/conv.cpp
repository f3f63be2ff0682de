// Convolution and its adjoints. All three are bilinear, and each one's derivative is made of the other two.
#include "kernels/ops/conv.h"

#include "kernels/cuda/library/libraries.h"
#include "src/graph/build.h"
#include "src/graph/op_list.h"
#include "src/graph/ops/conv_shape.h"

namespace perigee {
namespace {

constexpr Option kConv[] = {kStride, kPadding, kDilation, kGroups, kConvActivation};
constexpr Option kConvGradInput[] = {kStride, kPadding, kDilation, kGroups, kInputSize};
constexpr Option kConvGradWeight[] = {kStride, kPadding, kDilation, kGroups, kKernelSize};

std::vector<Type> infer_conv(const OpCall& call) {
  const ConvShape s = conv_shape(call.inputs[0], call.inputs[1], call.attrs);
  if (call.inputs.size() > 2 && call.present[2]) expect_shape(call.inputs[2], {s.out}, "the bias");
  return {{call.inputs[0].dtype, {call.inputs[0].shape[0], s.out, s.out_h, s.out_w}}};
}

// dy, w; attribute input_size
std::vector<Type> infer_conv_grad_input(const OpCall& call) {
  const Type &dy = call.inputs[0], &w = call.inputs[1];
  expect_rank(dy, 4, "the output gradient", "N,O,H,W");
  expect_rank(w, 4, "the weight", "O,C/groups,kernel height,kernel width");
  int64_t size[2];
  read_sizes(call.attrs, kInputSize, size, 2);
  const int64_t groups = conv_groups(call.attrs);
  const Type dx{dy.dtype, {dy.shape[0], w.shape[1] * groups, size[0], size[1]}};
  const ConvShape s = conv_shape(dx, w, call.attrs);
  expect_shape(dy, {dy.shape[0], s.out, s.out_h, s.out_w}, "the output gradient");
  return {dx};
}

// dy, x; attribute kernel_size
std::vector<Type> infer_conv_grad_weight(const OpCall& call) {
  const Type &dy = call.inputs[0], &x = call.inputs[1];
  expect_rank(dy, 4, "the output gradient", "N,O,H,W");
  expect_rank(x, 4, "the input", "N,C,H,W");
  int64_t size[2];
  read_sizes(call.attrs, kKernelSize, size, 2);
  const int64_t groups = conv_groups(call.attrs);
  const Type dw{dy.dtype, {dy.shape[1], x.shape[1] / groups, size[0], size[1]}};
  const ConvShape s = conv_shape(x, dw, call.attrs);
  expect_shape(dy, {x.shape[0], s.out, s.out_h, s.out_w}, "the output gradient");
  return {dw};
}

size_t conv_params(const OpCall& call, void* out) { return write_conv_params(call.attrs, out); }

// Multiplications and additions of the direct algorithm, counted at the output gradient or output `y` with weight `w`.
double direct_flops(const Shape& y, const Shape& w) {
  return 2.0 * static_cast<double>(y.elements()) * static_cast<double>(w[1] * w[2] * w[3]);
}
double flops_conv(const OpCall& call) { return direct_flops(infer_conv(call)[0].shape, call.inputs[1].shape); }
double conv_flops_grad_input(const OpCall& call) { return direct_flops(call.inputs[0].shape, call.inputs[1].shape); }
double conv_flops_grad_weight(const OpCall& call) { return direct_flops(call.inputs[0].shape, infer_conv_grad_weight(call)[0].shape); }

// Gradients behind a fused relu flow where the output is positive.
Value through_relu(Graph& graph, const Node& node, Value dy) {
  if (attr_string(node.attrs, kConvActivation) != "relu") return dy;
  const Value y = node.out(graph);
  return where(greater(y, zeros_like(y)), dy, zeros_like(dy));
}

std::vector<Value> vjp_conv(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value x = node.in(graph, 0), w = node.in(graph, 1), dy = through_relu(graph, node, grads[0]);
  std::vector<Value> flows = {
      graph.apply("conv2d_grad_input", {dy, w}, with_input_size(node.attrs, x.shape())),
      graph.apply("conv2d_grad_weight", {dy, x}, with_kernel_size(node.attrs, w.shape())),
  };
  if (node.in(graph, 2)) flows.push_back(reduce_sum(dy, {0, 2, 3}));
  return flows;
}

std::vector<Value> conv_vjp_grad_input(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value dy = node.in(graph, 0), w = node.in(graph, 1);
  return {graph.apply("conv2d", {grads[0], w}, geometry_attrs(node.attrs)),
          graph.apply("conv2d_grad_weight", {dy, grads[0]}, with_kernel_size(node.attrs, w.shape()))};
}

std::vector<Value> conv_vjp_grad_weight(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value dy = node.in(graph, 0), x = node.in(graph, 1);
  return {graph.apply("conv2d", {x, grads[0]}, geometry_attrs(node.attrs)),
          graph.apply("conv2d_grad_input", {dy, grads[0]}, with_input_size(node.attrs, x.shape()))};
}

const OpDef kConvOps[] = {
    {.name = "conv2d",
     .doc = "2-D convolution: x[N,C,H,W], w[O,C/groups,kh,kw], bias[O] (optional); stride[2], padding[4] (top, bottom, left, right), "
            "dilation[2], groups, activation (none, relu).",
     .attributes = {.options = kConv},
     .min_inputs = 2,
     .max_inputs = 3,
     .infer = infer_conv,
     .vjp = vjp_conv,
     .sliced = sliced_first_input,
     .params = conv_params,
     .flops = flops_conv,
     .operand_dtypes = OperandDtypes::real,
     .precision = Precision::half,
     .parameters = 0b110,
     .with_pool = "conv2d_pool",
     .image = true,
     .library = CudaLibrary::cudnn},
    {.name = "conv2d_grad_input",
     .doc = "Adjoint of conv2d in x, also transposed convolution: dy[N,O,OH,OW], w; conv2d's attributes and input_size[2].",
     .attributes = {.options = kConvGradInput},
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_conv_grad_input,
     .vjp = conv_vjp_grad_input,
     .sliced = sliced_first_input,
     .params = conv_params,
     .flops = conv_flops_grad_input,
     .internal = true,
     .derivative = true,
     .parameters = 0b10,
     .joins_gradient = true,
     .image = true,
     .library = CudaLibrary::cudnn},
    {.name = "conv2d_grad_weight",
     .doc = "Adjoint of conv2d in w, summed over the batch: dy[N,O,OH,OW], x; conv2d's attributes and kernel_size[2].",
     .attributes = {.options = kConvGradWeight},
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_conv_grad_weight,
     .vjp = conv_vjp_grad_weight,
     .sliced = sliced_batch_sum,
     .params = conv_params,
     .flops = conv_flops_grad_weight,
     .internal = true,
     .derivative = true,
     .image = true,
     .gives_weight = true,
     .library = CudaLibrary::cudnn},
};

}  // namespace

extern const OpList ops_conv;
const OpList ops_conv = op_list(kConvOps);

}  // namespace perigee
