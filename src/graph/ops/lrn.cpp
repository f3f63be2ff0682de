// Local response normalisation across channels.
#include "kernels/ops/lrn.h"

#include <cassert>
#include <cstring>

#include "src/core/error.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kLrnSize = {"size", "integer", "5", "channels in a window", {.low = 1, .high = 1 << 20}};
constexpr Option kK = {"k", "number", "2", "added to the sum; above 0"}, kAlpha = {"alpha", "number", "1e-4", "times the sum", {.low = 0}};
constexpr Option kBeta = {"beta", "number", "0.75", "the power"};
constexpr Option kLrnAttributes[] = {kLrnSize, kK, kAlpha, kBeta};

LrnParams read(const OpCall& call) {
  const LrnParams p{attr_int(call.attrs, kLrnSize), attr_number(call.attrs, kK), attr_number(call.attrs, kAlpha),
                    attr_number(call.attrs, kBeta)};
  if (!(p.k > 0)) throw Error(ErrorKind::model, {.what = "k must be above 0"});
  return p;
}

std::vector<Type> infer_lrn(const OpCall& call) {
  const Type& x = call.inputs.back();
  if (x.shape.rank() < 2 || (x.dtype != Dtype::f32 && x.dtype != Dtype::f64))
    throw Error(ErrorKind::model,
                {.what = "normalises across channels, dimension 1", .got = x.text(), .expected = "f32 or f64, N x C ..."});
  assert(call.inputs[0] == x);
  read(call);
  return {x};
}

size_t lrn_params(const OpCall& call, void* out) {
  const LrnParams values = read(call);
  std::memcpy(out, &values, sizeof values);
  return sizeof values;
}

std::vector<Value> lrn_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  return {graph.apply("lrn_grad", {grads[0], node.in(graph, 0)}, node.attrs)};
}

Sliced lrn_sliced(const OpCall&, std::span<const Sliced> inputs) {
  const Sliced x = inputs.back();
  return x == Sliced::batch || x == Sliced::whole ? x : Sliced::mixed;
}

double lrn_flops(const OpCall& call) {
  return (2 * static_cast<double>(read(call).size) + 5) * static_cast<double>(call.inputs[0].shape.elements());
}

constexpr OpDef kLrnOps[] = {
    {.name = "lrn",
     .doc = "x / (k + alpha sum of squares over `size` neighbouring channels)^beta.",
     .attributes = {.options = kLrnAttributes},
     .infer = infer_lrn,
     .vjp = lrn_vjp,
     .sliced = lrn_sliced,
     .params = lrn_params,
     .flops = lrn_flops,
     .operand_dtypes = OperandDtypes::real,
     .image = true},
    {.name = "lrn_grad",
     .doc = "Gradient of lrn from dy and x.",
     .attributes = {.options = kLrnAttributes},
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_lrn,
     .sliced = lrn_sliced,
     .params = lrn_params,
     .flops = lrn_flops,
     .internal = true,
     .derivative = true,
     .image = true},
};

}  // namespace

extern const OpList ops_lrn;
const OpList ops_lrn = op_list(kLrnOps);

}  // namespace perigee
