// Order along an axis: arg_sort, and take_along with its adjoint put_along, which move elements by such places.
#include "kernels/ops/order.h"

#include <cstring>

#include "src/core/error.h"
#include "src/graph/build.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kOrderAxis = {"axis", "integer", "-1", "of the lines; below 0 from the end"};
constexpr Option kCount = {"count", "integer", "-1", "so many places; -1: all", {.low = -1}};
constexpr Option kDescending = {"descending", "boolean", "false", "the largest first"};
constexpr Option kOrderSize = {"size", "integer", nullptr, "of the result along axis", {.low = 0}};
constexpr Option kSort[] = {kOrderAxis, kCount, kDescending}, kTake[] = {kOrderAxis}, kPut[] = {kOrderAxis, kOrderSize};

[[noreturn]] void refuse_order(std::string what, std::string got, std::string expected = "") {
  throw Error(ErrorKind::model, {.what = std::move(what), .got = std::move(got), .expected = std::move(expected)});
}

int line_axis(const OpCall& call) { return axis_of(attr_int(call.attrs, kOrderAxis), call.inputs[0]); }

std::vector<Type> infer_sort(const OpCall& call) {
  const Type& x = call.inputs[0];
  const int axis = line_axis(call);
  const int64_t count = attr_int(call.attrs, kCount);
  if (count > x.shape[axis])
    refuse_order("there are not so many elements along dimension " + std::to_string(axis + 1), x.text(),
                 "at least " + std::to_string(count));
  return {{Dtype::i64, count < 0 ? x.shape : x.shape.with(axis, count)}};
}

// x or updates, and the places, which have its dims but along the axis.
void check_places(const OpCall& call, bool same) {
  const Type &x = call.inputs[0], &places = call.inputs[1];
  const int axis = line_axis(call);
  if (places.dtype != Dtype::i64) refuse_order("places have the wrong dtype", places.text(), "i64");
  const bool fits = places.shape.rank() == x.shape.rank() && places.shape.with(axis, 0) == x.shape.with(axis, 0);
  if (!fits || (same && places.shape != x.shape))
    refuse_order("places have the shape of the tensor" + std::string(same ? "" : ", but along the dimension"),
                 places.text() + " for " + x.text());
}

std::vector<Type> infer_take(const OpCall& call) {
  check_places(call, false);
  return {{call.inputs[0].dtype, call.inputs[1].shape}};
}

std::vector<Value> take_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const OperandTypes types(graph, node);
  const int axis = line_axis(types.call());
  Json attrs = Json::object();
  attrs.set("axis", axis);
  attrs.set("size", node.in(graph, 0).shape()[axis]);
  return {graph.apply("put_along", {grads[0], node.in(graph, 1)}, std::move(attrs))};
}

std::vector<Type> infer_put(const OpCall& call) {
  check_places(call, true);
  const int64_t size = attr_int(call.attrs, kOrderSize);
  return {{call.inputs[0].dtype, call.inputs[0].shape.with(line_axis(call), size)}};
}

std::vector<Value> put_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const OperandTypes types(graph, node);
  Json attrs = Json::object();
  attrs.set("axis", line_axis(types.call()));
  return {graph.apply("take_along", {grads[0], node.in(graph, 1)}, std::move(attrs))};
}

Sliced sliced_lines(const OpCall& call, std::span<const Sliced> inputs) {
  for (const Sliced& input : inputs)
    if (input != inputs[0] || input == Sliced::partial) return Sliced::mixed;
  return inputs[0] == Sliced::batch && line_axis(call) == 0 ? Sliced::mixed : inputs[0];
}

size_t sort_params(const OpCall& call, void* out) {
  const SortParams params{line_axis(call), attr_bool(call.attrs, kDescending)};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

size_t along_params(const OpCall& call, void* out) {
  const AlongParams params{line_axis(call)};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

constexpr OpDef kOrderOps[] = {
    {.name = "arg_sort",
     .doc = "The places that sort x along axis (descending), stable, NaN last; the first `count` of them.",
     .attributes = {.options = kSort},
     .infer = infer_sort,
     .sliced = sliced_lines,
     .params = sort_params},
    {.name = "take_along",
     .doc = "x's elements at i64 places along axis, line by line, as arg_sort gives them.",
     .attributes = {.options = kTake},
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_take,
     .vjp = take_vjp,
     .sliced = sliced_lines,
     .params = along_params,
     .operand_dtypes = OperandDtypes::indices},
    {.name = "put_along",
     .doc = "Zeros of `size` along axis, plus each update at its place in its line: the adjoint of take_along.",
     .attributes = {.options = kPut},
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_put,
     .vjp = put_vjp,
     .sliced = sliced_lines,
     .params = along_params,
     .operand_dtypes = OperandDtypes::indices},
};

}  // namespace

extern const OpList ops_order;
const OpList ops_order = op_list(kOrderOps);

}  // namespace perigee
