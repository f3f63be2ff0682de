// Reductions over axes, arg-reductions and the cumulative sum.
#include "kernels/ops/reduce.h"

#include <cstring>

#include "src/core/error.h"
#include "src/graph/build.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kAxes = {"axes", "list of integers", "all", "that are reduced; below 0 from the end"};
constexpr Option kReduceKeep = {"keep", "boolean", "false", "reduced dimensions stay, with size 1"};
constexpr Option kReduceAxis = {"axis", "integer", "-1", "below 0 from the end"};
constexpr Option kExclusive = {"exclusive", "boolean", "false", "a sum does not count its own element"};
constexpr Option kReduceReverse = {"reverse", "boolean", "false", "from the end"};
constexpr Option kReduction[] = {kAxes, kReduceKeep}, kArg[] = {kReduceAxis, kReduceKeep},
                 kCumulative[] = {kReduceAxis, kExclusive, kReduceReverse};

uint32_t axes_mask(const OpCall& call) {
  const Type& type = call.inputs[0];
  if (!call.attrs.find(kAxes.name)) return (1u << type.shape.rank()) - 1u;
  uint32_t mask = 0;
  for (int64_t axis : attr_ints(call.attrs, kAxes)) mask |= 1u << axis_of(axis, type);
  return mask;
}

Shape reduced_shape(const Shape& shape, uint32_t mask, bool keep) {
  std::vector<int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!(mask >> i & 1u)) dims.push_back(shape[i]);
    else if (keep) dims.push_back(1);
  }
  return Shape(dims);
}

bool reduce_keeps(const OpCall& call) { return attr_bool(call.attrs, kReduceKeep); }

std::vector<Type> infer_reduce(const OpCall& call) {
  const Type& x = call.inputs[0];
  if (x.dtype == Dtype::boolean)
    throw Error(ErrorKind::model, {.what = "cannot reduce this dtype", .got = x.text(), .expected = "a number", .hint = "cast it"});
  return {{x.dtype, reduced_shape(x.shape, axes_mask(call), reduce_keeps(call))}};
}

// An empty dimension has no extreme.
std::vector<Type> infer_extreme(const OpCall& call) {
  std::vector<Type> result = infer_reduce(call);
  const Shape& shape = call.inputs[0].shape;
  for (int i = 0; i < shape.rank(); ++i)
    if ((axes_mask(call) >> i & 1u) && shape[i] == 0)
      throw Error(ErrorKind::model, {.what = "cannot reduce a dimension of size 0", .got = call.inputs[0].text()});
  return result;
}

uint32_t arg_mask(const OpCall& call) { return 1u << axis_of(attr_int(call.attrs, kReduceAxis), call.inputs[0]); }

std::vector<Type> infer_arg(const OpCall& call) {
  const Shape& shape = call.inputs[0].shape;
  const uint32_t mask = arg_mask(call);
  for (int i = 0; i < shape.rank(); ++i)
    if ((mask >> i & 1u) && shape[i] == 0)
      throw Error(ErrorKind::model, {.what = "no largest or smallest of 0 elements", .got = call.inputs[0].text()});
  return {{Dtype::i64, reduced_shape(shape, mask, reduce_keeps(call))}};
}

std::vector<Type> infer_cumulative(const OpCall& call) {
  axis_of(attr_int(call.attrs, kReduceAxis), call.inputs[0]);
  return {call.inputs[0]};
}

// Sums over the examples are partial, other results over them mix; row by row the batch stays.
Sliced sliced_rows(Sliced input, bool over_batch) {
  if (input == Sliced::batch) return over_batch ? Sliced::mixed : Sliced::batch;
  return input == Sliced::whole ? Sliced::whole : Sliced::mixed;
}

Sliced sliced_sum(const OpCall& call, std::span<const Sliced> inputs) {
  if (inputs[0] == Sliced::partial) return Sliced::partial;
  if (inputs[0] == Sliced::batch && (axes_mask(call) & 1u)) return Sliced::partial;
  return sliced_rows(inputs[0], false);
}

Sliced sliced_mean(const OpCall& call, std::span<const Sliced> inputs) {
  return inputs[0] == Sliced::partial ? Sliced::partial : sliced_rows(inputs[0], axes_mask(call) & 1u);
}

Sliced sliced_reduce(const OpCall& call, std::span<const Sliced> inputs) { return sliced_rows(inputs[0], axes_mask(call) & 1u); }
Sliced sliced_arg(const OpCall& call, std::span<const Sliced> inputs) { return sliced_rows(inputs[0], arg_mask(call) & 1u); }

Sliced sliced_cumulative(const OpCall& call, std::span<const Sliced> inputs) {
  if (inputs[0] == Sliced::partial) return Sliced::partial;
  return sliced_rows(inputs[0], axis_of(attr_int(call.attrs, kReduceAxis), call.inputs[0]) == 0);
}

size_t reduce_params(const OpCall& call, void* out) {
  const ReduceParams params{axes_mask(call), reduce_keeps(call)};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

size_t arg_params(const OpCall& call, void* out) {
  const ReduceParams params{arg_mask(call), reduce_keeps(call)};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

size_t cumulative_params(const OpCall& call, void* out) {
  const CumulativeParams params{axis_of(attr_int(call.attrs, kReduceAxis), call.inputs[0]), attr_bool(call.attrs, kExclusive),
                                attr_bool(call.attrs, kReduceReverse)};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

double flops_per_input(const OpCall& call) { return static_cast<double>(call.inputs[0].shape.elements()); }

// The facts about a reduction that its VJP needs.
struct Reduction {
  Value x, y;
  std::vector<int64_t> axes;
  Shape kept;  // x's shape with the reduced dimensions of size 1
  double count = 1;

  Reduction(Graph& graph, const Node& node) : x(node.in(graph, 0)), y(node.out(graph)) {
    const OperandTypes types(graph, node);
    const uint32_t mask = axes_mask(types.call());
    kept = reduced_shape(x.shape(), mask, true);
    for (int i = 0; i < x.rank(); ++i) {
      if (!(mask >> i & 1u)) continue;
      axes.push_back(i);
      count *= static_cast<double>(x.shape()[i]);
    }
  }

  // A value of the reduced shape, in one that broadcasts to x.
  Value spread(Value reduced) const { return reshape(reduced, kept); }
  Value like_x(Value reduced) const { return x.graph().apply("broadcast_like", {spread(reduced), x}); }
};

std::vector<Value> sum_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  return {Reduction(graph, node).like_x(grads[0])};
}

std::vector<Value> mean_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Reduction reduction(graph, node);
  return {reduction.like_x(grads[0] / reduction.count)};
}

// Equal extremes share the gradient.
std::vector<Value> extreme_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Reduction reduction(graph, node);
  const Value hit = cast(graph.apply("equal", {reduction.x, reduction.spread(reduction.y)}), reduction.x.dtype());
  return {hit * (reduction.spread(grads[0]) / reduce_sum(hit, reduction.axes, true))};
}

// The product of the others: y / x, and where there is one zero, the product of the rest.
std::vector<Value> prod_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Reduction reduction(graph, node);
  const Value x = reduction.x, none = graph.constant(0, {x.dtype(), Shape()}), one = graph.constant(1, {x.dtype(), Shape()});
  const Value is_zero = graph.apply("equal", {x, none});
  const Value nonzero = where(is_zero, one, x);
  const Value zeros = reduce_sum(cast(is_zero, x.dtype()), reduction.axes, true);
  Json attrs = Json::object();
  attrs.set("axes", ints_json(reduction.axes));
  attrs.set("keep", true);
  const Value rest = graph.apply("reduce_prod", {nonzero}, std::move(attrs));
  const Value at_zero = where(graph.apply("equal", {zeros, one}), rest, none);
  const Value elsewhere = where(graph.apply("equal", {zeros, none}), rest, none) / nonzero;
  return {reduction.spread(grads[0]) * where(is_zero, at_zero, elsewhere)};
}

std::vector<Value> cumulative_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  Json attrs = node.attrs;
  attrs.set("reverse", !attr_bool(node.attrs, kReduceReverse));
  return {graph.apply("cumulative_sum", {grads[0]}, std::move(attrs))};
}

constexpr OpDef kReduceOps[] = {
    {.name = "reduce_sum",
     .doc = "The sum over axes.",
     .attributes = {.options = kReduction},
     .infer = infer_reduce,
     .vjp = sum_vjp,
     .sliced = sliced_sum,
     .params = reduce_params,
     .flops = flops_per_input,
     .operand_dtypes = OperandDtypes::sums,
     .reduces = Reduces::sum},
    {.name = "reduce_mean",
     .doc = "The mean over axes.",
     .attributes = {.options = kReduction},
     .infer = infer_reduce,
     .vjp = mean_vjp,
     .sliced = sliced_mean,
     .params = reduce_params,
     .flops = flops_per_input,
     .operand_dtypes = OperandDtypes::real,
     .reduces = Reduces::mean},
    {.name = "reduce_max",
     .doc = "The largest over axes.",
     .attributes = {.options = kReduction},
     .infer = infer_extreme,
     .vjp = extreme_vjp,
     .sliced = sliced_reduce,
     .params = reduce_params,
     .flops = flops_per_input,
     .operand_dtypes = OperandDtypes::order},
    {.name = "reduce_min",
     .doc = "The smallest over axes.",
     .attributes = {.options = kReduction},
     .infer = infer_extreme,
     .vjp = extreme_vjp,
     .sliced = sliced_reduce,
     .params = reduce_params,
     .flops = flops_per_input,
     .operand_dtypes = OperandDtypes::order},
    {.name = "reduce_prod",
     .doc = "The product over axes.",
     .attributes = {.options = kReduction},
     .infer = infer_reduce,
     .vjp = prod_vjp,
     .sliced = sliced_reduce,
     .params = reduce_params,
     .flops = flops_per_input,
     .operand_dtypes = OperandDtypes::sums},
    {.name = "arg_max",
     .doc = "The index of the largest along axis; the first of a tie.",
     .attributes = {.options = kArg},
     .infer = infer_arg,
     .sliced = sliced_arg,
     .params = arg_params,
     .flops = flops_per_input,
     .operand_dtypes = OperandDtypes::order},
    {.name = "arg_min",
     .doc = "The index of the smallest along axis; the first of a tie.",
     .attributes = {.options = kArg},
     .infer = infer_arg,
     .sliced = sliced_arg,
     .params = arg_params,
     .flops = flops_per_input,
     .operand_dtypes = OperandDtypes::order},
    {.name = "cumulative_sum",
     .doc = "Running sums along axis; exclusive, reverse.",
     .attributes = {.options = kCumulative},
     .infer = infer_cumulative,
     .vjp = cumulative_vjp,
     .sliced = sliced_cumulative,
     .params = cumulative_params,
     .operand_dtypes = OperandDtypes::sums},
};

}  // namespace

extern const OpList ops_reduce;
const OpList ops_reduce = op_list(kReduceOps);

}  // namespace perigee
