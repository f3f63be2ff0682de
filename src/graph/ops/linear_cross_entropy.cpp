// A dense layer, the cross entropy of its result with class numbers, and the gradients of both by row, as one op. fuse_head makes it after
// autodiff; nothing flows through it.
#include "kernels/ops/linear_cross_entropy.h"

#include <cstring>

#include "kernels/cuda/library/libraries.h"
#include "src/core/error.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kLinearCrossEntropyActivation = {"activation", "name", "none", "of the layer below", {}, {"none", "relu"}};
constexpr Option kLinearCrossEntropySmoothing = {"label_smoothing", "number", "0", "of the classes", {.low = 0, .high = 1}};
constexpr Option kLinearCrossEntropyAttributes[] = {kLinearCrossEntropyActivation, kLinearCrossEntropySmoothing};

constexpr const char* kOpsOfAHead[] = {"linear", "cross_entropy", "cross_entropy_grad", "linear_grad_input"};

// The result of an op that this one stands for; that op reports operands that do not fit.
Type result_of(const char* op, std::initializer_list<Type> inputs, std::initializer_list<bool> present, const Json& attrs) {
  return op_named(op).infer({{inputs.begin(), inputs.size()}, {present.begin(), present.size()}, attrs})[0];
}

std::vector<Type> infer_linear_cross_entropy(const OpCall& call) {
  const Type &x = call.inputs[0], &weight = call.inputs[1], &classes = call.inputs[2], &flow = call.inputs[3];
  const bool bias = call.inputs.size() > 4 && call.present[4];
  const bool relu = attr_string(call.attrs, kLinearCrossEntropyActivation) == "relu";
  if (x.shape.rank() != 2 || classes.dtype != Dtype::i64)
    throw Error(ErrorKind::model,
                {.what = "linear_cross_entropy takes rows [N, K] and class numbers i64 [N]", .got = x.text() + " and " + classes.text()});
  const Type logits = result_of("linear", {x, weight, bias ? call.inputs[4] : Type{}}, {true, true, bias}, Json::object());
  const Type losses = result_of("cross_entropy", {logits, classes}, {true, true}, call.attrs);
  const Type slopes = result_of("cross_entropy_grad", {logits, classes, flow}, {true, true, true}, call.attrs);
  return {logits, losses, slopes, result_of("linear_grad_input", {slopes, weight, relu ? x : Type{}}, {true, true, relu}, call.attrs)};
}

// Row by row; the weight is whole, and what the losses' gradient is filled with may be.
Sliced linear_cross_entropy_sliced(const OpCall& call, std::span<const Sliced> inputs) {
  for (const size_t whole : {1, 4})
    if (whole < inputs.size() && call.present[whole] && inputs[whole] != Sliced::whole) return Sliced::mixed;
  if (inputs[2] != inputs[0] || inputs[0] == Sliced::partial) return Sliced::mixed;
  return inputs[3] == inputs[0] || inputs[3] == Sliced::whole ? inputs[0] : Sliced::mixed;
}

size_t linear_cross_entropy_params(const OpCall& call, void* out) {
  const bool relu = attr_string(call.attrs, kLinearCrossEntropyActivation) == "relu";
  const LinearCrossEntropyParams params{{attr_number(call.attrs, kLinearCrossEntropySmoothing)},
                                        {relu ? LinearActivation::relu : LinearActivation::none}};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

double linear_cross_entropy_flops(const OpCall& call) {
  const Shape& weight = call.inputs[1].shape;
  return static_cast<double>(call.inputs[0].shape[0]) * static_cast<double>(weight[0]) * (4.0 * static_cast<double>(weight[1]) + 10.0);
}

const OpDef kLinearCrossEntropyOps[] = {
    {.name = "linear_cross_entropy",
     .doc = "A dense layer of x [N, K], weight [C, K], classes i64 [N], the gradient of the losses [N] and a bias [C] (optional): logits, "
            "losses and the gradients of logits and x; label_smoothing; activation, of the layer below: relu of which x is the result.",
     .attributes = {.options = kLinearCrossEntropyAttributes},
     .min_inputs = 4,
     .max_inputs = 5,
     .infer = infer_linear_cross_entropy,
     .sliced = linear_cross_entropy_sliced,
     .params = linear_cross_entropy_params,
     .flops = linear_cross_entropy_flops,
     .parameters = 0b10010,
     .replaces = kOpsOfAHead,
     .library = CudaLibrary::cublas_lt},
};

}  // namespace

extern const OpList ops_linear_cross_entropy;
const OpList ops_linear_cross_entropy = op_list(kLinearCrossEntropyOps);

}  // namespace perigee
