// Dense layers: the product with a weight, its bias and relu in one op, and the two gradients with the relu mask inside.
#include "kernels/ops/linear.h"

#include <algorithm>
#include <cstring>

#include "kernels/dtype_kinds.h"
#include "src/core/error.h"
#include "src/graph/build.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

bool has(const OpCall& call, size_t i) { return i < call.inputs.size() && call.present[i]; }

void check_weight(const OpCall& call, const char* op, int64_t features, const char* side) {
  const Type& w = call.inputs[1];
  if (w.shape.rank() != 2 || w.shape[side[0] == 'o' ? 0 : 1] != features || w.dtype != call.inputs[0].dtype) {
    throw Error(ErrorKind::model, {.what = std::string(op) + ": the weight does not fit",
                                   .got = w.text() + " with " + call.inputs[0].text(),
                                   .expected = std::string("a weight [outputs, inputs] with ") + std::to_string(features) + " " + side});
  }
}

void check_floats(const OpCall& call, const char* op) {
  const Type& x = call.inputs[0];
  if (x.shape.rank() < 2 || !is_floating(x.dtype)) {
    throw Error(
        ErrorKind::model,
        {.what = std::string(op) + " takes rows of features", .got = x.text(), .expected = "floating-point numbers, [..., features]"});
  }
}

void check_same(const OpCall& call, size_t i, const Type& expected, const char* what) {
  if (has(call, i) && call.inputs[i] != expected) {
    throw Error(ErrorKind::model, {.what = what, .got = call.inputs[i].text(), .expected = expected.text()});
  }
}

std::vector<Type> infer(const OpCall& call) {
  check_floats(call, "linear");
  const Type& x = call.inputs[0];
  check_weight(call, "linear", x.shape.at(-1), "inputs");
  const int64_t n = call.inputs[1].shape[0];
  check_same(call, 2, {x.dtype, Shape{n}}, "linear: the bias does not fit the weight");
  attr_string(call.attrs, "activation", "none");
  return {{x.dtype, x.shape.with(x.shape.rank() - 1, n)}};
}

std::vector<Type> infer_grad_input(const OpCall& call) {
  check_floats(call, "linear_grad_input");
  const Type& dy = call.inputs[0];
  check_weight(call, "linear_grad_input", dy.shape.at(-1), "outputs");
  check_same(call, 2, dy, "linear_grad_input: y has not the type of its gradient");
  return {{dy.dtype, dy.shape.with(dy.shape.rank() - 1, call.inputs[1].shape[1])}};
}

std::vector<Type> infer_grad_weight(const OpCall& call) {
  check_floats(call, "linear_grad_weight");
  const Type &dy = call.inputs[0], &x = call.inputs[1];
  const int last = dy.shape.rank() - 1;
  if (x.shape.rank() != dy.shape.rank() || x.dtype != dy.dtype || x.shape.with(last, 1) != dy.shape.with(last, 1)) {
    throw Error(ErrorKind::model, {.what = "linear_grad_weight: the rows of dy and x differ", .got = dy.text() + " and " + x.text()});
  }
  check_same(call, 2, dy, "linear_grad_weight: y has not the type of its gradient");
  std::vector<Type> types = {{dy.dtype, Shape{dy.shape[last], x.shape[last]}}};
  if (attr_bool(call.attrs, "bias", true)) types.push_back({dy.dtype, Shape{dy.shape[last]}});
  return types;
}

bool is_relu(const Json& attrs) {
  const std::string name = attr_string(attrs, "activation", "none");
  if (name != "none" && name != "relu") {
    throw Error(ErrorKind::model, {.what = "linear: unknown activation", .got = name, .expected = "none or relu"});
  }
  return name == "relu";
}

Json bias_attr(bool bias) {
  Json attrs = Json::object();
  attrs.set("bias", bias);
  return attrs;
}

std::vector<Value> vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value g = grads[0];
  if (!g) return std::vector<Value>(node.inputs.size());
  const Value x = node.in(graph, 0), w = node.in(graph, 1), y = is_relu(node.attrs) ? node.out(graph) : Value();
  const bool bias = node.inputs.size() > 2 && node.in(graph, 2);
  std::vector<Value> result(node.inputs.size());
  result[0] = graph.apply("linear_grad_input", {g, w, y});
  const std::vector<Value> inputs = {g, x, y};
  const std::vector<Value> parameters = graph.apply_all("linear_grad_weight", inputs, bias_attr(bias));
  result[1] = parameters[0];
  if (bias) result[2] = parameters[1];
  return result;
}

// 1 where y > 0, for the second derivatives.
Value masked(Value g, Value y) { return y ? where(greater(y, zeros_like(y)), g, zeros_like(g)) : g; }

Value third(Graph& graph, const Node& node) { return node.inputs.size() > 2 ? node.in(graph, 2) : Value(); }

std::vector<Value> vjp_grad_input(Graph& graph, const Node& node, std::span<const Value> grads) {
  if (!grads[0]) return std::vector<Value>(node.inputs.size());
  const Value dy = node.in(graph, 0), w = node.in(graph, 1), y = third(graph, node), g = grads[0];
  std::vector<Value> result(node.inputs.size());
  result[0] = masked(graph.apply("linear", {g, w}), y);
  result[1] = graph.apply("linear_grad_weight", {dy, g, y}, bias_attr(false));
  return result;
}

std::vector<Value> vjp_grad_weight(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value dy = node.in(graph, 0), x = node.in(graph, 1), y = third(graph, node);
  std::vector<Value> result(node.inputs.size());
  const Value dw = grads[0], db = grads.size() > 1 ? grads[1] : Value();
  Value to_dy;
  if (dw) {
    to_dy = db ? graph.apply("linear", {x, dw, db}) : graph.apply("linear", {x, dw});
    result[1] = graph.apply("linear_grad_input", {dy, dw, y});
  } else if (db) {
    to_dy = broadcast_to(db, dy.shape());
  }
  if (to_dy) result[0] = masked(to_dy, y);
  return result;
}

// dy and the mask y row by row, the weight whole.
Sliced sliced_grad_input(const OpCall& call, std::span<const Sliced> inputs) {
  if (inputs[1] != Sliced::whole || inputs[0] == Sliced::partial) return Sliced::mixed;
  return inputs.size() < 3 || !call.present[2] || inputs[2] == inputs[0] ? inputs[0] : Sliced::mixed;
}

Sliced sliced_grad_weight(const OpCall&, std::span<const Sliced> inputs) {
  bool all_whole = true;
  for (Sliced s : inputs) {
    if (s == Sliced::partial || s == Sliced::mixed) return Sliced::mixed;
    all_whole = all_whole && s == Sliced::whole;
  }
  if (all_whole) return Sliced::whole;
  // A sum over rows: dy and x are both cut by rows, so slices add up.
  return inputs[0] == Sliced::batch && inputs[1] == Sliced::batch ? Sliced::partial : Sliced::mixed;
}

size_t params(const OpCall& call, void* out) {
  const LinearParams p{is_relu(call.attrs) ? LinearActivation::relu : LinearActivation::none};
  std::memcpy(out, &p, sizeof p);
  return sizeof p;
}

double flops_by_weight(const OpCall& call) {
  const Shape &rows = call.inputs[0].shape, &w = call.inputs[1].shape;
  return 2.0 * static_cast<double>(rows.elements() / std::max<int64_t>(1, rows.at(-1))) * static_cast<double>(w.elements());
}

double flops_grad_weight(const OpCall& call) {
  return 2.0 * static_cast<double>(call.inputs[0].shape.elements()) * static_cast<double>(call.inputs[1].shape.at(-1));
}

const OpDef kOps[] = {
    {.name = "linear",
     .doc = "A dense layer: activation(x weight^T + bias) of x [..., K], weight [N, K], bias [N] (optional); activation none or relu.",
     .min_inputs = 2,
     .max_inputs = 3,
     .infer = infer,
     .vjp = vjp,
     .sliced = sliced_first_input,
     .params = params,
     .flops = flops_by_weight},
    {.name = "linear_grad_input",
     .doc = "Gradient of linear by x, from dy [..., N], weight [N, K] and, behind relu, y [..., N].",
     .min_inputs = 2,
     .max_inputs = 3,
     .infer = infer_grad_input,
     .vjp = vjp_grad_input,
     .sliced = sliced_grad_input,
     .flops = flops_by_weight},
    {.name = "linear_grad_weight",
     .doc = "Gradients of linear by weight and (attribute bias) by bias, from dy [..., N], x [..., K] and, behind relu, y [..., N].",
     .min_inputs = 2,
     .max_inputs = 3,
     .infer = infer_grad_weight,
     .vjp = vjp_grad_weight,
     .sliced = sliced_grad_weight,
     .flops = flops_grad_weight},
};

}  // namespace

extern const OpList ops_linear;
const OpList ops_linear = op_list(kOps);

}  // namespace perigee
