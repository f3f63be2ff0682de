// Rotary positions: pairs of features turned by an angle that grows with the step.
#include "kernels/ops/rotary.h"

#include <cstring>

#include "kernels/dtype_kinds.h"
#include "src/core/error.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kTheta = {"theta", "number", "10000", "the slowest pair turns by about one over this at each step", {1, 1e12}};
constexpr Option kWidth = {"width", "integer", "0", "features of each head that turn, an even number; 0: all", {.low = 0}};
constexpr Option kHeads = {"heads", "integer", "0", "the first so many heads turn; 0: all", {.low = 0}};
constexpr Option kOffset = {"offset", "integer", "0", "position of the first step"};
constexpr Option kInterleaved = {"interleaved", "boolean", "false", "pairs are neighbours, else one of each half"};
constexpr Option kInverse = {"inverse", "boolean", "false", "turns back"};
constexpr Option kRotaryOptions[] = {kTheta, kWidth, kHeads, kOffset, kInterleaved, kInverse};

int64_t width_of(const OpCall& call) {
  const int64_t width = attr_int(call.attrs, kWidth);
  return width > 0 ? width : call.inputs[0].shape[3];
}

std::vector<Type> infer_rotary(const OpCall& call) {
  const Type& x = call.inputs[0];
  if (x.shape.rank() != 4 || !is_floating(x.dtype))
    throw Error(ErrorKind::model,
                {.what = "rotary turns heads of features", .got = x.text(), .expected = "numbers [examples, steps, heads, features]"});
  const int64_t width = width_of(call), heads = attr_int(call.attrs, kHeads);
  if (width > x.shape[3] || width % 2 != 0)
    throw Error(ErrorKind::model, {.what = "rotary turns pairs of features",
                                   .got = std::to_string(width) + " of " + std::to_string(x.shape[3]),
                                   .expected = "an even number, at most all"});
  if (heads > x.shape[2])
    throw Error(ErrorKind::model, {.what = "rotary turns more heads than there are",
                                   .got = std::to_string(heads),
                                   .expected = "at most " + std::to_string(x.shape[2])});
  if (call.inputs.size() > 1 && call.present[1] && call.inputs[1] != Type{Dtype::i64, Shape{x.shape[0]}})
    throw Error(ErrorKind::model, {.what = "rotary: the positions do not fit the examples",
                                   .got = call.inputs[1].text(),
                                   .expected = Type{Dtype::i64, Shape{x.shape[0]}}.text()});
  return {x};
}

size_t rotary_params(const OpCall& call, void* out) {
  const int64_t heads = attr_int(call.attrs, kHeads);
  const RotaryParams params{.theta = attr_number(call.attrs, kTheta),
                            .width = width_of(call),
                            .heads = heads > 0 ? heads : call.inputs[0].shape[2],
                            .offset = attr_int(call.attrs, kOffset),
                            .interleaved = attr_bool(call.attrs, kInterleaved),
                            .inverse = attr_bool(call.attrs, kInverse)};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

std::vector<Value> rotary_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  Json back = node.attrs.is_null() ? Json::object() : node.attrs;
  back.set("inverse", !attr_bool(node, "inverse"));
  const Value operands[] = {grads[0], node.inputs.size() > 1 ? node.in(graph, 1) : Value()};
  std::vector<Value> flows{graph.apply_all("rotary", std::span(operands, node.inputs.size()), std::move(back))[0]};
  flows.resize(node.inputs.size());
  return flows;
}

Sliced rotary_sliced(const OpCall& call, std::span<const Sliced> inputs) {
  if (inputs.size() > 1 && call.present[1] && inputs[1] != inputs[0]) return Sliced::mixed;
  return inputs[0];
}

constexpr OpDef kRotaryOps[] = {
    {.name = "rotary",
     .doc = "Heads of features [n, steps, heads, features] with pairs turned by angles that grow with the step. Optional: each "
            "example's position of step 0 [n].",
     .attributes = {.options = kRotaryOptions},
     .max_inputs = 2,
     .infer = infer_rotary,
     .vjp = rotary_vjp,
     .sliced = rotary_sliced,
     .params = rotary_params,
     .operand_dtypes = OperandDtypes::labels,
     .precision = Precision::follows}};

}  // namespace

extern const OpList ops_rotary;
const OpList ops_rotary = op_list(kRotaryOps);

}  // namespace perigee
