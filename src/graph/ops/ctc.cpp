// Connectionist temporal classification: the loss of labels whose places among the steps are not known, and its gradient.
#include "kernels/ops/ctc.h"

#include <cassert>
#include <cstring>

#include "src/core/error.h"
#include "src/graph/build.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kBlank = {"blank", "integer", "0", "the class that stands for no label"};
constexpr Option kZeroInfinity = {"zero_infinity", "boolean", "false", "labels that the steps have no room for cost 0, not infinity"};
constexpr Option kCtcAttributes[] = {kBlank, kZeroInfinity};

// The loss (src/nn/losses/ctc.cpp) checks shapes. `steps` is the place of the operand of steps.
Type losses_of(const OpCall& call, size_t steps) {
  const Type &logits = call.inputs[0], &labels = call.inputs[1];
  if (logits.dtype != Dtype::f32 && logits.dtype != Dtype::f64)
    throw Error(ErrorKind::model, {.what = "an operand's dtype does not fit", .got = logits.text(), .expected = "f32 or f64"});
  assert(logits.shape.rank() == 3);
  const int64_t n = logits.shape[0], blank = attr_int(call.attrs, kBlank);
  const Type counts{Dtype::i64, Shape{n}};
  assert(labels.dtype == Dtype::i64 && labels.shape.rank() == 2 && labels.shape[0] == n);
  assert(call.inputs.size() <= steps || !call.present[steps] || call.inputs[steps] == counts);
  assert(blank >= 0 && blank < logits.shape[1]);
  return {logits.dtype, Shape{n}};
}

std::vector<Type> infer_loss(const OpCall& call) { return {losses_of(call, 2)}; }

std::vector<Type> infer_ctc_grad(const OpCall& call) {
  assert(call.inputs[2] == losses_of(call, 3));
  return {call.inputs[0]};
}

size_t ctc_params(const OpCall& call, void* out) {
  CtcParams params;
  params.blank = attr_int(call.attrs, kBlank);
  params.zero_infinity = attr_bool(call.attrs, kZeroInfinity);
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

std::vector<Value> loss_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  std::vector<Value> operands{node.in(graph, 0), node.in(graph, 1), grads[0]};
  if (node.inputs.size() > 2) operands.push_back(node.in(graph, 2));
  return {graph.apply("ctc_grad", operands, node.attrs)};
}

Sliced ctc_sliced(const OpCall& call, std::span<const Sliced> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (call.present[i] && inputs[i] != inputs[0]) return Sliced::mixed;
  return inputs[0] == Sliced::partial ? Sliced::mixed : inputs[0];
}

double ctc_flops(const OpCall& call) {
  const Shape& logits = call.inputs[0].shape;
  return static_cast<double>(logits[0]) * static_cast<double>(logits[2]) *
         (5.0 * static_cast<double>(logits[1]) + 20.0 * (2.0 * static_cast<double>(call.inputs[1].shape[1]) + 1.0));
}

constexpr OpDef kCtcOps[] = {
    {.name = "ctc",
     .doc = "Loss of logits (N,C,T) with labels i64 (N,L), each up to its first number below 0, and how many steps there are, i64 (N).",
     .attributes = {.options = kCtcAttributes},
     .min_inputs = 2,
     .max_inputs = 3,
     .infer = infer_loss,
     .vjp = loss_vjp,
     .sliced = ctc_sliced,
     .params = ctc_params,
     .flops = ctc_flops,
     .internal = true},
    {.name = "ctc_grad",
     .doc = "The gradient of ctc's logits, given the losses'.",
     .attributes = {.options = kCtcAttributes},
     .min_inputs = 3,
     .max_inputs = 4,
     .infer = infer_ctc_grad,
     .sliced = ctc_sliced,
     .params = ctc_params,
     .flops = ctc_flops,
     .internal = true,
     .derivative = true},
};

}  // namespace

extern const OpList ops_ctc;
const OpList ops_ctc = op_list(kCtcOps);

}  // namespace perigee
