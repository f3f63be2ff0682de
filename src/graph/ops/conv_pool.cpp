// Convolution + bias + relu + max-pooling as one op, and its gradients at the pooled size: what makes small convolutional networks
// fast, since at least three in four gradients behind a max-pool are zero and are never written. Passes make it (fuse_conv).
#include "src/graph/build.h"
#include "src/graph/op_list.h"
#include "src/graph/ops/conv_shape.h"

namespace perigee {
namespace {

constexpr Option kConvPoolBias = {"bias", "boolean", "false", "also gives the bias' gradient"};
constexpr Option kConvPool[] = {kStride, kPadding, kDilation, kGroups, kConvActivation, kPool};
constexpr Option kConvPoolGradInput[] = {kStride, kPadding, kDilation, kGroups, kConvActivation, kPool, kInputSize};
constexpr Option kConvPoolGradWeight[] = {kStride, kPadding, kDilation, kGroups, kConvActivation, kPool, kKernelSize, kConvPoolBias};

Shape conv_pool_pooled_shape(const Type& x, const Type& w, const Json& attrs) {
  const ConvShape s = conv_shape(x, w, attrs);
  int64_t pool[2];
  read_sizes(attrs, kPool, pool, 2);
  if (pool[0] * pool[1] > 256)
    throw Error(ErrorKind::model, {.what = "the pooling window is too large to be fused",
                                   .got = std::to_string(pool[0] * pool[1]),
                                   .expected = "at most 256 elements"});
  if (s.out_h < pool[0] || s.out_w < pool[1])
    throw Error(ErrorKind::model, {.what = "the pooling window is larger than the convolution's output",
                                   .got = std::to_string(pool[0]) + "x" + std::to_string(pool[1]),
                                   .expected = "at most " + std::to_string(s.out_h) + "x" + std::to_string(s.out_w)});
  return {x.shape[0], s.out, s.out_h / pool[0], s.out_w / pool[1]};
}

std::vector<Type> infer_conv_pool(const OpCall& call) {
  const Shape y = conv_pool_pooled_shape(call.inputs[0], call.inputs[1], call.attrs);
  if (call.inputs.size() > 2 && call.present[2]) expect_shape(call.inputs[2], {y[1]}, "the bias");
  return {{call.inputs[0].dtype, y}, {Dtype::u8, y}};
}

// dy, y and argmax have one shape.
void expect_pooled(const OpCall& call, const Shape& shape) {
  expect_shape(call.inputs[0], shape, "the output gradient");
  expect_shape(call.inputs[1], shape, "the output");
  expect_shape(call.inputs[2], shape, "argmax");
  expect_dtype(call.inputs[2], Dtype::u8, "argmax");
}

std::vector<Type> infer_conv_pool_grad_input(const OpCall& call) {
  const Type &dy = call.inputs[0], &w = call.inputs[3];
  expect_rank(dy, 4, "the output gradient", "N,O,H,W");
  expect_rank(w, 4, "the weight", "O,C/groups,kernel height,kernel width");
  int64_t size[2];
  read_sizes(call.attrs, kInputSize, size, 2);
  const Type dx{dy.dtype, {dy.shape[0], w.shape[1] * conv_groups(call.attrs), size[0], size[1]}};
  expect_pooled(call, conv_pool_pooled_shape(dx, w, call.attrs));
  return {dx};
}

std::vector<Type> infer_conv_pool_grad_weight(const OpCall& call) {
  const Type &dy = call.inputs[0], &x = call.inputs[3];
  expect_rank(dy, 4, "the output gradient", "N,O,H,W");
  expect_rank(x, 4, "the input", "N,C,H,W");
  int64_t size[2];
  read_sizes(call.attrs, kKernelSize, size, 2);
  const Type dw{dy.dtype, {dy.shape[1], x.shape[1] / conv_groups(call.attrs), size[0], size[1]}};
  expect_pooled(call, conv_pool_pooled_shape(x, dw, call.attrs));
  if (attr_bool(call.attrs, kConvPoolBias)) return {dw, {dy.dtype, {dy.shape[1]}}};
  return {dw};
}

size_t conv_pool_params(const OpCall& call, void* out) { return write_conv_params(call.attrs, out); }

// Counts the direct algorithm at the convolution's own size; the gradients do a fraction of it, one in each pooling window.
double conv_pool_window_flops(const OpCall& call, const Shape& pooled, const Shape& w) {
  int64_t pool[2];
  read_sizes(call.attrs, kPool, pool, 2);
  return 2.0 * static_cast<double>(pooled.elements()) * static_cast<double>(w[1] * w[2] * w[3]);
}
double flops_conv_pool(const OpCall& call) {
  int64_t pool[2];
  read_sizes(call.attrs, kPool, pool, 2);
  return static_cast<double>(pool[0] * pool[1]) * conv_pool_window_flops(call, infer_conv_pool(call)[0].shape, call.inputs[1].shape);
}
double conv_pool_flops_grad_input(const OpCall& call) { return conv_pool_window_flops(call, call.inputs[0].shape, call.inputs[3].shape); }
double conv_pool_flops_grad_weight(const OpCall& call) {
  return conv_pool_window_flops(call, call.inputs[0].shape, infer_conv_pool_grad_weight(call)[0].shape);
}

Json pooled_attrs(const Json& attrs, Json result) {
  for (const char* key : {"pool", "activation"})
    if (const Json* value = attrs.find(key)) result.set(key, *value);
  return result;
}

std::vector<Value> vjp_conv_pool(Graph& graph, const Node& node, std::span<const Value> grads) {
  if (!grads[0]) return {};
  const Value x = node.in(graph, 0), w = node.in(graph, 1), dy = grads[0], y = node.out(graph, 0), argmax = node.out(graph, 1);
  std::vector<Value> flows = {
      graph.apply("conv2d_pool_grad_input", {dy, y, argmax, w}, pooled_attrs(node.attrs, with_input_size(node.attrs, x.shape())))};
  Json attrs = pooled_attrs(node.attrs, with_kernel_size(node.attrs, w.shape()));
  attrs.set("bias", static_cast<bool>(node.in(graph, 2)));
  const std::vector<Value> inputs = {dy, y, argmax, x}, parameters = graph.apply_all("conv2d_pool_grad_weight", inputs, attrs);
  flows.insert(flows.end(), parameters.begin(), parameters.end());
  return flows;
}

// dy, y and argmax count the batch, the weight is whole.
Sliced conv_pool_sliced_grad_input(const OpCall&, std::span<const Sliced> inputs) {
  if (inputs[3] != Sliced::whole || inputs[1] != inputs[0] || inputs[2] != inputs[0]) return Sliced::mixed;
  return inputs[0] == Sliced::partial ? Sliced::mixed : inputs[0];
}

const OpDef kConvPoolOps[] = {
    {.name = "conv2d_pool",
     .doc =
         "Convolution, bias, activation and max-pooling without overlap: x, w, bias (optional); conv2d's attributes and pool[2]; gives y "
         "and argmax.",
     .attributes = {.options = kConvPool},
     .min_inputs = 2,
     .max_inputs = 3,
     .infer = infer_conv_pool,
     .vjp = vjp_conv_pool,
     .sliced = sliced_first_input,
     .params = conv_pool_params,
     .flops = flops_conv_pool,
     .operand_dtypes = OperandDtypes::real,
     .precision = Precision::half,
     .parameters = 0b110,
     .image = true,
     .any_order = true},
    {.name = "conv2d_pool_grad_input",
     .doc = "Gradient of conv2d_pool in x: dy, y, argmax, w; its attributes and input_size[2].",
     .attributes = {.options = kConvPoolGradInput},
     .min_inputs = 4,
     .max_inputs = 4,
     .infer = infer_conv_pool_grad_input,
     .sliced = conv_pool_sliced_grad_input,
     .params = conv_pool_params,
     .flops = conv_pool_flops_grad_input,
     .internal = true,
     .derivative = true,
     .parameters = 0b1000,
     .image = true,
     .any_order = true,
     .left_in_place = 0b0111},
    {.name = "conv2d_pool_grad_weight",
     .doc = "Gradients of conv2d_pool in w and (attribute bias) in the bias, summed over the batch: dy, y, argmax, x; its attributes and "
            "kernel_size[2].",
     .attributes = {.options = kConvPoolGradWeight},
     .min_inputs = 4,
     .max_inputs = 4,
     .infer = infer_conv_pool_grad_weight,
     .sliced = sliced_batch_sum,
     .params = conv_pool_params,
     .flops = conv_pool_flops_grad_weight,
     .internal = true,
     .derivative = true,
     .image = true,
     .gives_weight = true,
     .any_order = true,
     .left_in_place = 0b0111},
};

}  // namespace

extern const OpList ops_conv_pool;
const OpList ops_conv_pool = op_list(kConvPoolOps);

}  // namespace perigee
