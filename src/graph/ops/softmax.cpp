// softmax and log_softmax along axis; cross entropy of logits with class numbers or distributions, fused with its gradient.
#include "kernels/ops/softmax.h"

#include <cassert>
#include <cstring>

#include "src/core/error.h"
#include "src/graph/build.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kSoftmaxAxis = {"axis", "integer", "-1", "below 0 from the end"};
constexpr Option kSoftmaxSmoothing = {"label_smoothing", "number", "0", "so much of each class goes to all alike", {.low = 0, .high = 1}};
constexpr Option kSoftmax[] = {kSoftmaxAxis}, kCrossEntropy[] = {kSoftmaxSmoothing};

[[noreturn]] void refuse_softmax(std::string what, std::string got, std::string expected = "") {
  throw Error(ErrorKind::model, {.what = std::move(what), .got = std::move(got), .expected = std::move(expected)});
}

void check_real(const Type& type) {
  if (type.dtype != Dtype::f32 && type.dtype != Dtype::f64) refuse_softmax("an operand's dtype does not fit", type.text(), "f32 or f64");
}

int softmax_axis(const OpCall& call) { return axis_of(attr_int(call.attrs, kSoftmaxAxis), call.inputs[0]); }

std::vector<Type> infer_softmax(const OpCall& call) {
  check_real(call.inputs[0]);
  softmax_axis(call);
  return {call.inputs[0]};
}

Sliced sliced_softmax(const OpCall& call, std::span<const Sliced> inputs) {
  if (inputs[0] == Sliced::whole) return Sliced::whole;
  return inputs[0] == Sliced::batch && softmax_axis(call) != 0 ? Sliced::batch : Sliced::mixed;
}

size_t softmax_params(const OpCall& call, void* out) {
  const SoftmaxParams params{softmax_axis(call)};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

Value sum_along(Value x, int axis) { return reduce_sum(x, {axis}, true); }

std::vector<Value> softmax_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const int axis = softmax_axis(OperandTypes(graph, node).call());
  const Value y = node.out(graph);
  return {y * (grads[0] - sum_along(y * grads[0], axis))};
}

std::vector<Value> log_softmax_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const int axis = softmax_axis(OperandTypes(graph, node).call());
  return {grads[0] - exp(node.out(graph)) * sum_along(grads[0], axis)};
}

// The shape of the losses: the logits' without the classes.
Shape positions_of(const Type& logits) {
  std::vector<int64_t> dims = logits.shape.vector();
  dims.erase(dims.begin() + 1);
  return Shape(dims);
}

double smoothing_of(const OpCall& call) {
  const double smoothing = attr_number(call.attrs, kSoftmaxSmoothing);
  if (!(smoothing >= 0 && smoothing < 1))
    refuse_softmax("label_smoothing out of range", std::to_string(smoothing), "0 <= label_smoothing < 1");
  return smoothing;
}

std::vector<Type> infer_cross_entropy(const OpCall& call) {
  const Type &logits = call.inputs[0], &labels = call.inputs[1];
  check_real(logits);
  smoothing_of(call);
  if (logits.shape.rank() < 2 || logits.shape[1] < 1)
    refuse_softmax("logits need a dimension of examples and one of classes", logits.text(), "(N, C, ...)");
  const Type classes{Dtype::i64, positions_of(logits)};
  if (labels != classes && labels != logits)
    refuse_softmax("labels do not fit the logits " + logits.text(), labels.text(),
                   "classes " + classes.text() + " or distributions " + logits.text());
  return {{logits.dtype, classes.shape}};
}

std::vector<Type> infer_cross_entropy_grad(const OpCall& call) {
  const std::vector<Type> losses = infer_cross_entropy(call);
  assert(call.inputs[2] == losses[0]);
  return {call.inputs[0]};
}

size_t cross_entropy_params(const OpCall& call, void* out) {
  const CrossEntropyParams params{smoothing_of(call)};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

ChoosingOperand labels_of(const OpCall& call) {
  if (call.inputs[1].dtype != Dtype::i64) return {};
  return {.operand = 1, .count = call.inputs[0].shape[1]};
}

// A value of the losses' shape, in one that broadcasts to the logits.
Value per_class(Value losses) {
  std::vector<int64_t> dims = losses.shape().vector();
  dims.insert(dims.begin() + 1, 1);
  return reshape(losses, Shape(dims));
}

Value log_probabilities(Value logits) {
  Json attrs = Json::object();
  attrs.set("axis", 1);
  return logits.graph().apply("log_softmax", {logits}, std::move(attrs));
}

std::vector<Value> cross_entropy_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value logits = node.in(graph, 0), labels = node.in(graph, 1);
  std::vector<Value> result{graph.apply("cross_entropy_grad", {logits, labels, grads[0]}, node.attrs)};
  if (labels.dtype() == logits.dtype()) {
    const double kept = 1 - attr_number(node.attrs, kSoftmaxSmoothing);
    result.push_back(log_probabilities(logits) * per_class(grads[0] * -kept));
  }
  return result;
}

// Second derivatives, from d = (p m - q) g with p = softmax(logits), m = sum(q).
std::vector<Value> cross_entropy_grad_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value logits = node.in(graph, 0), labels = node.in(graph, 1), g = per_class(node.in(graph, 2)), u = grads[0];
  const Value p = exp(log_probabilities(logits));
  const double smoothing = attr_number(node.attrs, kSoftmaxSmoothing);
  const bool distributions = labels.dtype() == logits.dtype();
  const Value mass = distributions ? reduce_sum(labels, {1}, true) * (1 - smoothing) + smoothing : ones_like(g);
  const Value up = sum_along(u * p, 1);
  const Value for_logits = p * (u - up) * (g * mass);
  const Value unit = graph.apply("cross_entropy_grad", {logits, labels, ones_like(node.in(graph, 2))}, node.attrs);
  std::vector<Value> result{for_logits, Value(), reduce_sum(u * unit, {1})};
  if (distributions) result[1] = (up - u) * (g * (1 - smoothing));
  return result;
}

Sliced sliced_losses(const OpCall& call, std::span<const Sliced> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] != inputs[0]) return Sliced::mixed;
  (void)call;
  return inputs[0] == Sliced::partial ? Sliced::mixed : inputs[0];
}

double softmax_flops(const OpCall& call) { return 5.0 * static_cast<double>(call.inputs[0].shape.elements()); }

constexpr OpDef kSoftmaxOps[] = {
    {.name = "softmax",
     .doc = "exp(x) / sum(exp(x)) along axis.",
     .attributes = {.options = kSoftmax},
     .infer = infer_softmax,
     .vjp = softmax_vjp,
     .sliced = sliced_softmax,
     .params = softmax_params,
     .flops = softmax_flops,
     .operand_dtypes = OperandDtypes::real},
    {.name = "log_softmax",
     .doc = "x - log(sum(exp(x))) along axis.",
     .attributes = {.options = kSoftmax},
     .infer = infer_softmax,
     .vjp = log_softmax_vjp,
     .sliced = sliced_softmax,
     .params = softmax_params,
     .flops = softmax_flops,
     .operand_dtypes = OperandDtypes::real},
    {.name = "cross_entropy",
     .doc = "Loss of logits (N,C,...) with classes (N,...) or distributions (N,C,...); label_smoothing.",
     .attributes = {.options = kCrossEntropy},
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_cross_entropy,
     .vjp = cross_entropy_vjp,
     .sliced = sliced_losses,
     .params = cross_entropy_params,
     .chooses = labels_of,
     .flops = softmax_flops,
     .operand_dtypes = OperandDtypes::labels},
    {.name = "cross_entropy_grad",
     .doc = "The gradient of cross_entropy's logits, given the losses'.",
     .attributes = {.options = kCrossEntropy},
     .min_inputs = 3,
     .max_inputs = 3,
     .infer = infer_cross_entropy_grad,
     .vjp = cross_entropy_grad_vjp,
     .sliced = sliced_losses,
     .params = cross_entropy_params,
     .flops = softmax_flops,
     .internal = true,
     .derivative = true},
};

}  // namespace

extern const OpList ops_softmax;
const OpList ops_softmax = op_list(kSoftmaxOps);

}  // namespace perigee
