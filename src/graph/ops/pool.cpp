// Pooling: the largest, the mean, the sum or the p-norm of each window of an image.
#include "kernels/ops/pool.h"

#include <cstring>

#include "src/graph/build.h"
#include "src/graph/op_list.h"
#include "src/graph/ops/conv_shape.h"

namespace perigee {
namespace {

constexpr Option kKind = {"kind", "name", "max", "what is taken of a window", {}, {"max", "average", "sum", "pnorm"}};
constexpr Option kKernel = {"kernel", "list of integers", nullptr, "the window, {height, width}", kSizes};
constexpr Option kCountPadding = {"count_include_pad", "boolean", "true", "an average counts the padding"};
constexpr Option kPower = {"p", "number", "2", "of pnorm", {.low = 1}};
constexpr Option kPoolForward[] = {kKind, kKernel, kStride, kPadding, kDilation, kCountPadding, kPower};
constexpr Option kPoolBackward[] = {kKind, kKernel, kStride, kPadding, kDilation, kCountPadding, kPower, kInputSize};

PoolKind pool_kind(const Json& attrs) {
  const std::string kind = attr_string(attrs, kKind);
  if (kind == "average") return PoolKind::average;
  if (kind == "sum") return PoolKind::sum;
  return kind == "pnorm" ? PoolKind::pnorm : PoolKind::max;
}

Shape pool_pooled_shape(const Shape& x, const Json& attrs) {
  int64_t kernel[2];
  read_sizes(attrs, kKernel, kernel, 2);
  const WindowAttrs window = window_attrs(attrs);
  for (int i = 0; i < 4; ++i)
    if (window.padding[i] >= window.dilation[i / 2] * (kernel[i / 2] - 1) + 1)
      throw Error(ErrorKind::model, {.what = "the padding holds a whole pooling window",
                                     .got = std::to_string(window.padding[i]),
                                     .expected = "less than the window's " + std::to_string(kernel[i / 2])});
  return {x[0], x[1], window_count(window, 0, x[2], kernel[0], "the pooling window"),
          window_count(window, 1, x[3], kernel[1], "the pooling window")};
}

Dtype argmax_dtype(const Json& attrs) {
  int64_t kernel[2];
  read_sizes(attrs, kKernel, kernel, 2);
  return kernel[0] * kernel[1] <= 256 ? Dtype::u8 : Dtype::i32;
}

std::vector<Type> infer_pool(const OpCall& call) {
  const Type& x = call.inputs[0];
  expect_rank(x, 4, "the input", "N,C,H,W");
  const Shape y = pool_pooled_shape(x.shape, call.attrs);
  if (pool_kind(call.attrs) == PoolKind::max) return {{x.dtype, y}, {argmax_dtype(call.attrs), y}};
  return {{x.dtype, y}};
}

std::vector<Type> infer_pool_grad(const OpCall& call) {
  const Type& dy = call.inputs[0];
  expect_rank(dy, 4, "the output gradient", "N,C,H,W");
  int64_t size[2];
  read_sizes(call.attrs, kInputSize, size, 2);
  const Type dx{dy.dtype, {dy.shape[0], dy.shape[1], size[0], size[1]}};
  expect_shape(dy, pool_pooled_shape(dx.shape, call.attrs), "the output gradient");
  const PoolKind kind = pool_kind(call.attrs);
  const size_t wanted = kind == PoolKind::max ? 2 : kind == PoolKind::pnorm ? 3 : 1;
  if (call.inputs.size() != wanted)
    throw Error(ErrorKind::model,
                {.what = "wrong number of operands", .got = std::to_string(call.inputs.size()), .expected = std::to_string(wanted)});
  if (kind == PoolKind::max) {
    expect_shape(call.inputs[1], dy.shape, "argmax");
    expect_dtype(call.inputs[1], argmax_dtype(call.attrs), "argmax");
  } else if (kind == PoolKind::pnorm) {
    expect_shape(call.inputs[1], dx.shape, "the input");
    expect_shape(call.inputs[2], dy.shape, "the output");
  }
  return {dx};
}

size_t pool_params(const OpCall& call, void* out) {
  PoolParams p;
  const WindowAttrs window = window_attrs(call.attrs);
  int64_t kernel[2];
  read_sizes(call.attrs, kKernel, kernel, 2);
  p.kind = pool_kind(call.attrs);
  for (int i = 0; i < 2; ++i) {
    p.kernel[i] = static_cast<int32_t>(kernel[i]);
    p.stride[i] = static_cast<int32_t>(window.stride[i]);
    p.dilation[i] = static_cast<int32_t>(window.dilation[i]);
  }
  for (int i = 0; i < 4; ++i) p.padding[i] = static_cast<int32_t>(window.padding[i]);
  p.count_include_pad = attr_bool(call.attrs, kCountPadding);
  p.p = attr_number(call.attrs, kPower);
  std::memcpy(out, &p, sizeof p);
  return sizeof p;
}

double pool_window_flops(const OpCall& call, const Shape& y) {
  int64_t kernel[2];
  read_sizes(call.attrs, kKernel, kernel, 2);
  return static_cast<double>(y.elements()) * static_cast<double>(kernel[0] * kernel[1]);
}
double flops_pool(const OpCall& call) { return pool_window_flops(call, infer_pool(call)[0].shape); }
double pool_flops_grad(const OpCall& call) { return pool_window_flops(call, call.inputs[0].shape); }

std::vector<Value> vjp_pool(Graph& graph, const Node& node, std::span<const Value> grads) {
  if (!grads[0]) return {};
  const Value x = node.in(graph, 0), dy = grads[0];
  const Json attrs = with_size(node.attrs, "input_size", x.shape()[2], x.shape()[3]);
  switch (pool_kind(node.attrs)) {
    case PoolKind::max: return {graph.apply("pool2d_grad", {dy, node.out(graph, 1)}, attrs)};
    case PoolKind::pnorm: return {graph.apply("pool2d_grad", {dy, x, node.out(graph)}, attrs)};
    default: return {graph.apply("pool2d_grad", {dy}, attrs)};
  }
}

// Sums and averages are linear, and pooling is their adjoint's adjoint; the other kinds are differentiated once only.
std::vector<Value> vjp_grad(Graph& graph, const Node& node, std::span<const Value> grads) {
  const PoolKind kind = pool_kind(node.attrs);
  if (kind != PoolKind::average && kind != PoolKind::sum) return {};
  Json attrs = node.attrs;
  attrs.erase("input_size");
  return {graph.apply("pool2d", {grads[0]}, attrs)};
}

Sliced pool_sliced_grad(const OpCall&, std::span<const Sliced> inputs) {
  for (const Sliced s : inputs)
    if (s != inputs[0] || s == Sliced::partial) return Sliced::mixed;
  return inputs[0];
}

const OpDef kPoolOps[] = {
    {.name = "pool2d",
     .doc = "Pools windows of x[N,C,H,W]: kind (max, average, sum, pnorm), kernel[2], stride[2], padding[4], dilation[2], "
            "count_include_pad, p; max also gives argmax, the place in the window.",
     .attributes = {.options = kPoolForward},
     .infer = infer_pool,
     .vjp = vjp_pool,
     .sliced = sliced_first_input,
     .params = pool_params,
     .flops = flops_pool,
     .operand_dtypes = OperandDtypes::real,
     .precision = Precision::follows,
     .pools = true,
     .image = true},
    {.name = "pool2d_grad",
     .doc = "Gradient of pool2d: dy, then argmax (max) or x and y (pnorm); its attributes and input_size[2].",
     .attributes = {.options = kPoolBackward},
     .min_inputs = 1,
     .max_inputs = 3,
     .infer = infer_pool_grad,
     .vjp = vjp_grad,
     .sliced = pool_sliced_grad,
     .params = pool_params,
     .flops = pool_flops_grad,
     .internal = true,
     .derivative = true,
     .image = true},
};

}  // namespace

extern const OpList ops_pool;
const OpList ops_pool = op_list(kPoolOps);

}  // namespace perigee
