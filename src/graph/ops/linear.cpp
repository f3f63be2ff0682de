// Dense layers: the product with a weight, its bias and activation in one op, and the two gradients. The slope of the activation is taken
// by the op that makes the gradient of the activation's result, where that is the gradient of another dense layer; else by element-wise
// ops.
#include "kernels/ops/linear.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/cuda/library/libraries.h"
#include "kernels/dtype_kinds.h"
#include "src/core/error.h"
#include "src/graph/build.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kLinearActivation = {
    "activation", "name", "none", "of the layer, or of the layer below", {}, {"none", "relu", "gelu_tanh"}};
constexpr Option kLinearKeep = {"keep", "boolean", "false", "also gives what gelu_tanh is taken of"};
constexpr Option kLinearBias = {"bias", "boolean", "true", "also gives the bias' gradient"};
constexpr Option kLinear[] = {kLinearActivation, kLinearKeep}, kLinearGradInput[] = {kLinearActivation},
                 kLinearGradWeight[] = {kLinearBias};

bool linear_has(const OpCall& call, size_t i) { return i < call.inputs.size() && call.present[i]; }

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
  if (linear_has(call, i) && call.inputs[i] != expected) {
    throw Error(ErrorKind::model, {.what = what, .got = call.inputs[i].text(), .expected = expected.text()});
  }
}

LinearActivation activation_of(const Json& attrs) {
  const std::string name = attr_string(attrs, kLinearActivation);
  return name == "relu" ? LinearActivation::relu : name == "gelu_tanh" ? LinearActivation::gelu_tanh : LinearActivation::none;
}

bool is_bare(const OpCall& call) { return activation_of(call.attrs) == LinearActivation::none; }

const char* activation_name(LinearActivation activation) {
  static constexpr const char* kNames[] = {"none", "relu", "gelu_tanh"};
  return kNames[static_cast<int>(activation)];
}

std::vector<Type> infer_linear(const OpCall& call) {
  check_floats(call, "linear");
  const Type& x = call.inputs[0];
  check_weight(call, "linear", x.shape.at(-1), "inputs");
  const int64_t n = call.inputs[1].shape[0];
  check_same(call, 2, {x.dtype, Shape{n}}, "linear: the bias does not fit the weight");
  const Type y{x.dtype, x.shape.with(x.shape.rank() - 1, n)};
  const LinearActivation activation = activation_of(call.attrs);
  if (!attr_bool(call.attrs, kLinearKeep)) return {y};
  if (activation != LinearActivation::gelu_tanh)
    throw Error(ErrorKind::model,
                {.what = "linear: keeps what is before the activation for gelu_tanh alone", .got = activation_name(activation)});
  return {y, y};
}

std::vector<Type> infer_linear_grad_input(const OpCall& call) {
  check_floats(call, "linear_grad_input");
  const Type& dz = call.inputs[0];
  check_weight(call, "linear_grad_input", dz.shape.at(-1), "outputs");
  const Type dx{dz.dtype, dz.shape.with(dz.shape.rank() - 1, call.inputs[1].shape[1])};
  check_same(call, 2, dx, "linear_grad_input: what the layer below kept has not the type of its gradient");
  const LinearActivation activation = activation_of(call.attrs);
  assert((activation != LinearActivation::none) == linear_has(call, 2));
  return {dx};
}

std::vector<Type> infer_linear_grad_weight(const OpCall& call) {
  check_floats(call, "linear_grad_weight");
  const Type &dz = call.inputs[0], &x = call.inputs[1];
  const int last = dz.shape.rank() - 1;
  assert(x.shape.rank() == dz.shape.rank() && x.dtype == dz.dtype && x.shape.with(last, 1) == dz.shape.with(last, 1));
  std::vector<Type> types = {{dz.dtype, Shape{dz.shape[last], x.shape[last]}}};
  if (attr_bool(call.attrs, kLinearBias)) types.push_back({dz.dtype, Shape{dz.shape[last]}});
  return types;
}

Json bias_attr(bool bias) {
  Json attrs = Json::object();
  attrs.set("bias", bias);
  return attrs;
}

// The parts of GELU's derivative: tanh, its slope, its argument's slope, and the result's slope (kernels/ops/linear.h).
struct Gelu {
  explicit Gelu(Value z)
      : t(tanh(kGeluScale * (z + kGeluCube * (z * square(z))))),
        flat(1.0 - square(t)),
        inner(kGeluScale * (1.0 + (3 * kGeluCube) * square(z))),
        slope(0.5 * (1.0 + t) + (0.5 * z) * (flat * inner)) {}
  Value t, flat, inner, slope;
};

// dy where the activation's kept value lets it through.
Value times_slope(LinearActivation activation, Value kept, Value dy) {
  switch (activation) {
    case LinearActivation::relu: return where(greater(kept, zeros_like(kept)), dy, zeros_like(dy));
    case LinearActivation::gelu_tanh: return dy * Gelu(kept).slope;
    case LinearActivation::none: break;
  }
  return dy;
}

// The gradient of an activation's argument, from the gradient of its result. If the latter is another layer's product, and thus has no
// other user, the product is computed again with the slope, and the first one is no longer needed.
Value through(Graph& graph, LinearActivation activation, Value kept, Value dy) {
  const Node& from = graph.node(dy.id());
  if (activation == LinearActivation::none) return dy;
  const bool product = std::string_view(from.op->name) == "linear_grad_input" && (from.inputs.size() < 3 || from.inputs[2].node < 0);
  if (!product) return times_slope(activation, kept, dy);
  Json attrs = Json::object();
  attrs.set("activation", activation_name(activation));
  return graph.apply("linear_grad_input", {from.in(graph, 0), from.in(graph, 1), kept}, attrs);
}

std::vector<Value> linear_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value x = node.in(graph, 0), w = node.in(graph, 1), b = node.inputs.size() > 2 ? node.in(graph, 2) : Value();
  const LinearActivation activation = activation_of(node.attrs);
  Value dz = grads.size() > 1 ? grads[1] : Value();
  if (grads[0]) {
    Value kept = node.out(graph);
    if (activation == LinearActivation::gelu_tanh) kept = node.outputs.size() > 1 ? node.out(graph, 1) : graph.apply("linear", {x, w, b});
    const Value flow = through(graph, activation, kept, grads[0]);
    dz = dz ? dz + flow : flow;
  }
  std::vector<Value> result(node.inputs.size());
  if (!dz) return result;
  result[0] = graph.apply("linear_grad_input", {dz, w});
  const std::vector<Value> inputs = {dz, x};
  const std::vector<Value> parameters = graph.apply_all("linear_grad_weight", inputs, bias_attr(static_cast<bool>(b)));
  result[1] = parameters[0];
  if (b) result[2] = parameters[1];
  return result;
}

std::vector<Value> linear_vjp_grad_input(Graph& graph, const Node& node, std::span<const Value> grads) {
  std::vector<Value> result(node.inputs.size());
  if (!grads[0]) return result;
  const Value dz = node.in(graph, 0), w = node.in(graph, 1), kept = node.inputs.size() > 2 ? node.in(graph, 2) : Value();
  const LinearActivation activation = activation_of(node.attrs);
  const Value g = times_slope(activation, kept, grads[0]);
  result[0] = graph.apply("linear", {g, w});
  result[1] = graph.apply("linear_grad_weight", {dz, g}, bias_attr(false));
  if (activation == LinearActivation::gelu_tanh) {  // the slope has one of its own
    const Gelu gelu(kept);
    const Value turn = gelu.inner * (1.0 - kept * (gelu.t * gelu.inner)) + (3 * kGeluScale * kGeluCube) * square(kept);
    result[2] = grads[0] * graph.apply("linear_grad_input", {dz, w}) * (gelu.flat * turn);
  }
  return result;
}

std::vector<Value> linear_vjp_grad_weight(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value dz = node.in(graph, 0), x = node.in(graph, 1);
  std::vector<Value> result(node.inputs.size());
  const Value dw = grads[0], db = grads.size() > 1 ? grads[1] : Value();
  if (dw) {
    result[0] = db ? graph.apply("linear", {x, dw, db}) : graph.apply("linear", {x, dw});
    result[1] = graph.apply("linear_grad_input", {dz, dw});
  } else if (db) {
    result[0] = broadcast_to(db, dz.shape());
  }
  return result;
}

// dz and what the layer below kept row by row, the weight whole.
Sliced linear_sliced_grad_input(const OpCall& call, std::span<const Sliced> inputs) {
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
  // A sum over rows: dz and x are both cut by rows, so slices add up.
  return inputs[0] == Sliced::batch && inputs[1] == Sliced::batch ? Sliced::partial : Sliced::mixed;
}

size_t linear_params(const OpCall& call, void* out) {
  const LinearParams p{activation_of(call.attrs)};
  std::memcpy(out, &p, sizeof p);
  return sizeof p;
}

double flops_by_weight(const OpCall& call) {
  const Shape &rows = call.inputs[0].shape, &w = call.inputs[1].shape;
  return 2.0 * static_cast<double>(rows.elements() / std::max<int64_t>(1, rows.at(-1))) * static_cast<double>(w.elements());
}

double linear_flops_grad_weight(const OpCall& call) {
  return 2.0 * static_cast<double>(call.inputs[0].shape.elements()) * static_cast<double>(call.inputs[1].shape.at(-1));
}

const OpDef kLinearOps[] = {
    {.name = "linear",
     .doc = "A dense layer: activation(x weight^T + bias) of x [..., K], weight [N, K], bias [N] (optional); activation none, relu or "
            "gelu_tanh, which with keep also gives what it was taken of.",
     .attributes = {.options = kLinear},
     .min_inputs = 2,
     .max_inputs = 3,
     .infer = infer_linear,
     .vjp = linear_vjp,
     .sliced = sliced_first_input,
     .params = linear_params,
     .flops = flops_by_weight,
     .operand_dtypes = OperandDtypes::real,
     .precision = Precision::half,
     .parameters = 0b110,
     .dense = is_bare,
     .library = CudaLibrary::cublas_lt},
    {.name = "linear_grad_input",
     .doc =
         "Gradient of linear by x, from dz [..., N] and weight [N, K]; with activation that of the layer below by what its activation was "
         "taken of, from what it kept [..., K] too: its result for relu, what is before it for gelu_tanh.",
     .attributes = {.options = kLinearGradInput},
     .min_inputs = 2,
     .max_inputs = 3,
     .infer = infer_linear_grad_input,
     .vjp = linear_vjp_grad_input,
     .sliced = linear_sliced_grad_input,
     .params = linear_params,
     .flops = flops_by_weight,
     .internal = true,
     .derivative = true,
     .parameters = 0b10,
     .library = CudaLibrary::cublas_lt},
    {.name = "linear_grad_weight",
     .doc = "Gradients of linear by weight and (attribute bias) by bias, from dz [..., N] and x [..., K].",
     .attributes = {.options = kLinearGradWeight},
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_linear_grad_weight,
     .vjp = linear_vjp_grad_weight,
     .sliced = sliced_grad_weight,
     .flops = linear_flops_grad_weight,
     .internal = true,
     .derivative = true,
     .library = CudaLibrary::cublas_lt},
};

}  // namespace

extern const OpList ops_linear;
const OpList ops_linear = op_list(kLinearOps);

}  // namespace perigee
