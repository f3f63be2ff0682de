// Batch normalisation in training: statistics, affine map, residual and relu in one op, and all gradients in another. What is done
// with running statistics is composed from other ops by the layer.
#include "kernels/ops/batch_norm.h"

#include <cstring>

#include "kernels/dtype_kinds.h"
#include "src/core/error.h"
#include "src/graph/build.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kBatchNormEpsilon = {"epsilon", "number", "1e-5", "added to the variance", {.low = 0}};
constexpr Option kBatchNormActivation = {"activation", "name", "none", "computed with the result", {}, {"none", "relu"}};
constexpr Option kResidual = {"residual", "boolean", "false", "also gives the residual's gradient"};
constexpr Option kBatchNormForward[] = {kBatchNormEpsilon, kBatchNormActivation},
                 kBatchNormBackward[] = {kBatchNormEpsilon, kBatchNormActivation, kResidual};

bool batch_norm_has(const OpCall& call, size_t i) { return i < call.inputs.size() && call.present[i]; }

void require_batch_norm(const OpCall& call, size_t i, const Type& expected, const char* what) {
  if (batch_norm_has(call, i) && call.inputs[i] != expected)
    throw Error(ErrorKind::model,
                {.what = std::string("the ") + what + " does not fit", .got = call.inputs[i].text(), .expected = expected.text()});
}

Type per_channel(const Type& x) {
  if (x.shape.rank() < 2 || !is_floating(x.dtype))
    throw Error(ErrorKind::model,
                {.what = "normalises channels, dimension 1", .got = x.text(), .expected = "floating-point numbers, N x C ..."});
  return {is_half(x.dtype) ? Dtype::f32 : x.dtype, Shape{x.shape[1]}};
}

bool relu_after(const OpCall& call) { return attr_string(call.attrs, kBatchNormActivation) == "relu"; }

std::vector<Type> infer_batch_norm(const OpCall& call) {
  const Type &x = call.inputs[0], channel = per_channel(x);
  require_batch_norm(call, 1, channel, "gamma");
  require_batch_norm(call, 2, channel, "beta");
  require_batch_norm(call, 3, x, "residual");
  return {x, channel, channel};
}

std::vector<Type> infer_batch_norm_grad(const OpCall& call) {
  const Type &x = call.inputs[1], channel = per_channel(x);
  require_batch_norm(call, 0, x, "gradient");
  require_batch_norm(call, 2, x, "result");
  require_batch_norm(call, 3, channel, "gamma");
  require_batch_norm(call, 4, channel, "beta");
  require_batch_norm(call, 5, channel, "mean");
  require_batch_norm(call, 6, channel, "variance");
  std::vector<Type> types{x, channel, channel};
  if (attr_bool(call.attrs, kResidual)) types.push_back(x);
  return types;
}

size_t batch_norm_params(const OpCall& call, void* out) {
  const BatchNormParams values{attr_number(call.attrs, kBatchNormEpsilon), relu_after(call), attr_bool(call.attrs, kResidual)};
  std::memcpy(out, &values, sizeof values);
  return sizeof values;
}

std::vector<Value> batch_norm_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  if (grads[1] || grads[2])
    throw Error(ErrorKind::model, {.what = "the statistics of batch_norm cannot be differentiated", .hint = "use them in assign only"});
  const bool relu = attr_string(node.attrs, kBatchNormActivation) == "relu";
  const Value residual = node.in(graph, 3);
  Json attrs = node.attrs.is_null() ? Json::object() : node.attrs;
  // Without relu the residual's gradient is dy itself.
  attrs.set("residual", relu && residual);
  const Value operands[] = {grads[0],          node.in(graph, 0), relu && residual ? node.out(graph, 0) : Value(),
                            node.in(graph, 1), node.in(graph, 2), node.out(graph, 1),
                            node.out(graph, 2)};
  const std::vector<Value> flows = graph.apply_all("batch_norm_grad", operands, std::move(attrs));
  const auto wanted = [&](size_t input, Value flow) { return node.in(graph, input) ? flow : Value(); };
  std::vector<Value> result{flows[0], wanted(1, flows[1]), wanted(2, flows[2]), residual ? (relu ? flows[3] : grads[0]) : Value()};
  result.resize(node.inputs.size());
  return result;
}

Sliced batch_norm_sliced(const OpCall&, std::span<const Sliced> inputs) {
  return inputs[0] == Sliced::whole || inputs[0] == Sliced::batch ? inputs[0] : Sliced::mixed;
}

// The statistics are those of all slices.
Sliced batch_norm_sliced_output(const OpCall& call, std::span<const Sliced> inputs, int output) {
  return output == 0 ? batch_norm_sliced(call, inputs) : Sliced::whole;
}

Sliced sliced_grad_output(const OpCall& call, std::span<const Sliced> inputs, int output) {
  const Sliced rows = batch_norm_sliced(call, inputs);
  return output == 0 || output == 3 ? rows : rows == Sliced::batch ? Sliced::partial : rows;
}

double batch_norm_flops(const OpCall& call) { return 6 * static_cast<double>(call.inputs[0].shape.elements()); }
double batch_norm_flops_grad(const OpCall& call) { return 10 * static_cast<double>(call.inputs[0].shape.elements()); }

constexpr OpDef kBatchNormOps[] = {
    {.name = "batch_norm",
     .doc =
         "Batch norm of x (N, C, ...) by its own statistics, gamma, beta and residual optional; epsilon, activation. Also mean, variance.",
     .attributes = {.options = kBatchNormForward},
     .min_inputs = 1,
     .max_inputs = 4,
     .infer = infer_batch_norm,
     .vjp = batch_norm_vjp,
     .sliced = batch_norm_sliced,
     .sliced_output = batch_norm_sliced_output,
     .params = batch_norm_params,
     .flops = batch_norm_flops,
     .operand_dtypes = OperandDtypes::real,
     .precision = Precision::follows,
     .parameters = 0b0110,
     .residual = 3,
     .collective = true,
     .image = true},
    {.name = "batch_norm_grad",
     .doc = "Gradients of batch_norm from dy, x, y (optional), gamma, beta, mean, variance.",
     .attributes = {.options = kBatchNormBackward},
     .min_inputs = 7,
     .max_inputs = 7,
     .infer = infer_batch_norm_grad,
     .sliced = batch_norm_sliced,
     .sliced_output = sliced_grad_output,
     .params = batch_norm_params,
     .flops = batch_norm_flops_grad,
     .internal = true,
     .derivative = true,
     .collective = true,
     .image = true},
};

}  // namespace

extern const OpList ops_batch_norm;
const OpList ops_batch_norm = op_list(kBatchNormOps);

}  // namespace perigee
