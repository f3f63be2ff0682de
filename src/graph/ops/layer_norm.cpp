// Layer normalisation over the last dimension, with its gradients.
#include "kernels/ops/layer_norm.h"

#include <algorithm>
#include <cstring>

#include "kernels/dtype_kinds.h"
#include "src/core/error.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kLayerNormEpsilon = {"epsilon", "number", "1e-5", "added to the variance", {.low = 0}};
constexpr Option kCentre = {"centre", "boolean", "true", "subtracts the mean; without it, rows get mean square 1"};
constexpr Option kLayerNormForward[] = {kLayerNormEpsilon, kCentre}, kLayerNormBackward[] = {kCentre};

void require_layer_norm(const OpCall& call, size_t i, const Type& expected, const char* what) {
  if (i < call.inputs.size() && call.present[i] && call.inputs[i] != expected)
    throw Error(ErrorKind::model,
                {.what = std::string("the ") + what + " does not fit", .got = call.inputs[i].text(), .expected = expected.text()});
}

// The dtype of values per feature or per row.
Dtype statistics_dtype(const Type& x) { return is_half(x.dtype) ? Dtype::f32 : x.dtype; }

Type features(const Type& x) {
  if (x.shape.rank() < 2 || !is_floating(x.dtype))
    throw Error(ErrorKind::model,
                {.what = "normalises rows of features", .got = x.text(), .expected = "floating-point numbers, [..., features]"});
  return {statistics_dtype(x), Shape{x.shape.at(-1)}};
}

Type rows(const Type& x) {
  std::vector<int64_t> dims = x.shape.vector();
  dims.pop_back();
  return {statistics_dtype(x), Shape(dims)};
}

std::vector<Type> infer_layer_norm(const OpCall& call) {
  const Type& x = call.inputs[0];
  require_layer_norm(call, 1, features(x), "gamma");
  require_layer_norm(call, 2, features(x), "beta");
  return {x, rows(x), rows(x)};
}

std::vector<Type> infer_layer_norm_grad(const OpCall& call) {
  const Type& x = call.inputs[1];
  require_layer_norm(call, 2, features(x), "gamma");
  require_layer_norm(call, 0, x, "gradient");
  require_layer_norm(call, 3, rows(x), "mean");
  require_layer_norm(call, 4, rows(x), "inverse deviation");
  return {x};
}

std::vector<Type> infer_grad_params(const OpCall& call) {
  const Type &x = call.inputs[1], channel = features(x);
  require_layer_norm(call, 0, x, "gradient");
  require_layer_norm(call, 2, rows(x), "mean");
  require_layer_norm(call, 3, rows(x), "inverse deviation");
  return {channel, channel};
}

size_t layer_norm_params(const OpCall& call, void* out) {
  const LayerNormParams values{attr_number(call.attrs, kLayerNormEpsilon), attr_bool(call.attrs, kCentre)};
  std::memcpy(out, &values, sizeof values);
  return sizeof values;
}

size_t layer_norm_params_grad(const OpCall& call, void* out) {
  const LayerNormParams values{.centre = attr_bool(call.attrs, kCentre)};
  std::memcpy(out, &values, sizeof values);
  return sizeof values;
}

std::vector<Value> layer_norm_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  if (grads[1] || grads[2])
    throw Error(ErrorKind::model,
                {.what = "the statistics of layer_norm cannot be differentiated", .hint = "use its first result for the loss"});
  const Value x = node.in(graph, 0), gamma = node.in(graph, 1), beta = node.in(graph, 2), mean = node.out(graph, 1),
              inverse = node.out(graph, 2);
  Json attrs = Json::object();
  if (!attr_bool(node, "centre")) attrs.set("centre", false);
  std::vector<Value> flows{graph.apply("layer_norm_grad", {grads[0], x, gamma, mean, inverse}, std::move(attrs))};
  if (gamma || beta) {
    const Value operands[] = {grads[0], x, mean, inverse};
    const std::vector<Value> sums = graph.apply_all("layer_norm_grad_params", operands);
    flows.push_back(gamma ? sums[0] : Value());
    flows.push_back(beta ? sums[1] : Value());
  }
  flows.resize(std::min(flows.size(), node.inputs.size()));
  return flows;
}

Sliced sliced_sums(const OpCall&, std::span<const Sliced> inputs) {
  if (inputs[1] == Sliced::batch) return Sliced::partial;
  return inputs[1] == Sliced::whole && inputs[0] == Sliced::whole ? Sliced::whole : Sliced::mixed;
}

Sliced sliced_second_input(const OpCall&, std::span<const Sliced> inputs) {
  return inputs[1] == Sliced::batch || inputs[1] == Sliced::whole ? inputs[1] : Sliced::mixed;
}

double layer_norm_flops(const OpCall& call) { return 7 * static_cast<double>(call.inputs[0].shape.elements()); }

constexpr OpDef kLayerNormOps[] = {
    {.name = "layer_norm",
     .doc = "x normalised over its last dimension, gamma and beta optional. Also mean and inverse deviation of each row.",
     .attributes = {.options = kLayerNormForward},
     .max_inputs = 3,
     .infer = infer_layer_norm,
     .vjp = layer_norm_vjp,
     .sliced = sliced_first_input,
     .params = layer_norm_params,
     .flops = layer_norm_flops,
     .operand_dtypes = OperandDtypes::real,
     .precision = Precision::follows,
     .parameters = 0b110},
    {.name = "layer_norm_grad",
     .doc = "Gradient of layer_norm's x from dy, x, gamma (optional), mean, inverse.",
     .attributes = {.options = kLayerNormBackward},
     .min_inputs = 5,
     .max_inputs = 5,
     .infer = infer_layer_norm_grad,
     .sliced = sliced_second_input,
     .params = layer_norm_params_grad,
     .flops = layer_norm_flops,
     .internal = true,
     .derivative = true},
    {.name = "layer_norm_grad_params",
     .doc = "Gradients of gamma and beta from dy, x, mean, inverse.",
     .min_inputs = 4,
     .max_inputs = 4,
     .infer = infer_grad_params,
     .sliced = sliced_sums,
     .flops = layer_norm_flops,
     .internal = true,
     .derivative = true},
};

}  // namespace

extern const OpList ops_layer_norm;
const OpList ops_layer_norm = op_list(kLayerNormOps);

}  // namespace perigee
