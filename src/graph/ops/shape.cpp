// Ops that move or repeat elements: reshape, transpose, slice and stop_gradient are windows on their operand; concatenate and pad copy.
#include "kernels/ops/shape.h"

#include <algorithm>
#include <cstring>

#include "src/core/error.h"
#include "src/graph/build.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kOpShape = {"shape", "list of integers", nullptr, "sizes by dimension; -1 for one of them: what is left", {.low = -1}};
constexpr Option kOrder = {"order", "list of integers", "reversed", "the operand's dimensions; below 0 from the end"};
constexpr Option kStart = {"start", "list of integers", "the beginning", "by dimension; below 0 from the end"};
constexpr Option kStop = {"stop", "list of integers", "the end", "by dimension, not included; below 0 from the end"};
constexpr Option kStep = {"step", "list of integers", "1", "by dimension", {.low = 1}};
constexpr Option kShapeAxis = {"axis", "integer", "0", "along which operands follow each other; below 0 from the end"};
constexpr Option kBefore = {"before", "list of integers", "0", "elements by dimension", {.low = 0}};
constexpr Option kAfter = {"after", "list of integers", "0", "elements by dimension", {.low = 0}};
constexpr Option kInterior = {"interior", "list of integers", "0", "between neighbours, by dimension", {.low = 0}};
constexpr Option kShapeValue = {"value", "number", "0", "of the elements around and between"};
constexpr Option kReshape[] = {kOpShape}, kTranspose[] = {kOrder}, kSlice[] = {kStart, kStop, kStep}, kConcatenate[] = {kShapeAxis};
constexpr Option kPad[] = {kBefore, kAfter, kInterior, kShapeValue};

[[noreturn]] void refuse_shape(std::string what, std::string got, std::string expected = "") {
  throw Error(ErrorKind::model, {.what = std::move(what), .got = std::move(got), .expected = std::move(expected)});
}

// An op that does the same to every example keeps a batch; a linear op keeps partial sums.
Sliced sliced_rows_if(bool keeps_batch, Sliced input) { return input == Sliced::batch && !keeps_batch ? Sliced::mixed : input; }

// --- reshape ---

Shape reshaped(const OpCall& call) {
  std::vector<int64_t> dims = attr_ints(call.attrs, kOpShape);
  const int64_t elements = call.inputs[0].shape.elements();
  const auto open = std::find(dims.begin(), dims.end(), -1);
  if (open != dims.end()) {
    *open = 1;
    const int64_t others = Shape(dims).elements();
    *open = others > 0 ? elements / others : 0;
  }
  const Shape shape(dims);
  if (shape.elements() != elements) refuse_shape("cannot reshape", call.inputs[0].text(), "as many elements as " + shape.text() + " has");
  return shape;
}

std::vector<Type> infer_reshape(const OpCall& call) { return {{call.inputs[0].dtype, reshaped(call)}}; }

std::vector<Value> reshape_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  return {reshape(grads[0], node.in(graph, 0).shape())};
}

Sliced sliced_reshape(const OpCall& call, std::span<const Sliced> inputs) {
  const Shape from = call.inputs[0].shape, to = reshaped(call);
  return sliced_rows_if(from.rank() > 0 && to.rank() > 0 && from[0] == to[0], inputs[0]);
}

// Cuts both shapes into the smallest groups of dimensions with equal products; each group of the input must be one flat run.
bool reshape_alias(const OpCall& call, const View& in, View* out) {
  const Shape to = reshaped(call);
  *out = contiguous_view(in.data, in.dtype, to);
  if (to.elements() == 0) return true;
  int i = 0, o = 0;
  while (i < in.rank || o < to.rank()) {
    const int first_in = i, first_out = o;
    int64_t in_size = i < in.rank ? in.dims[i++] : 1, out_size = o < to.rank() ? to[o++] : 1;
    while (in_size != out_size) {
      if (in_size < out_size) in_size *= in.dims[i++];
      else out_size *= to[o++];
    }
    int64_t flat_stride = 0;  // of the innermost dimension of this group that has more than one element
    int64_t expected = -1;
    for (int d = i - 1; d >= first_in; --d) {
      if (in.dims[d] == 1) continue;
      if (expected < 0) flat_stride = in.strides[d];
      else if (in.strides[d] != expected) return false;
      expected = in.strides[d] * in.dims[d];
    }
    int64_t stride = flat_stride;
    for (int d = o - 1; d >= first_out; --d) {
      out->strides[d] = stride;
      stride *= to[d];
    }
  }
  return true;
}

// --- transpose ---

std::vector<int64_t> order_of(const OpCall& call) {
  const int rank = call.inputs[0].shape.rank();
  std::vector<int64_t> order = attr_ints(call.attrs, kOrder);
  if (order.empty())
    for (int i = rank - 1; i >= 0; --i) order.push_back(i);
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (int64_t& axis : order) {
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || seen[static_cast<size_t>(axis)])
      refuse_shape("the order is no permutation of the axes", call.inputs[0].text());
    seen[static_cast<size_t>(axis)] = true;
  }
  if (static_cast<int>(order.size()) != rank) refuse_shape("the order must name every axis once", call.inputs[0].text());
  return order;
}

std::vector<Type> infer_transpose(const OpCall& call) {
  std::vector<int64_t> dims;
  for (int64_t axis : order_of(call)) dims.push_back(call.inputs[0].shape[static_cast<int>(axis)]);
  return {{call.inputs[0].dtype, Shape(dims)}};
}

std::vector<Value> transpose_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const OperandTypes types(graph, node);
  const std::vector<int64_t> order = order_of(types.call());
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return {transpose(grads[0], inverse)};
}

// Transposes in a row become one, and none where the dimensions are in order again.
std::optional<ValueId> simpler_transpose(const SimplerCall& call) {
  const bool present[] = {true};
  const auto order_in = [&](const Node& node, ValueId of) { return order_of({{&call.graph.type(of), 1}, present, node.attrs}); };
  const bool twice = call.made(0).op == call.node.op;
  const ValueId from = twice ? call.made(0).inputs[0] : call.operands[0];
  std::vector<int64_t> order = order_in(call.node, call.operands[0]);
  if (twice) {
    const std::vector<int64_t> inner = order_in(call.made(0), from);
    for (int64_t& axis : order) axis = inner[static_cast<size_t>(axis)];
  }
  if (std::is_sorted(order.begin(), order.end())) return from;
  if (!twice) return {};
  return transpose(Value(&call.graph, from), order).id();
}

Sliced sliced_transpose(const OpCall& call, std::span<const Sliced> inputs) {
  const auto order = order_of(call);
  return sliced_rows_if(!order.empty() && order[0] == 0, inputs[0]);
}

bool transpose_alias(const OpCall& call, const View& in, View* out) {
  const auto order = order_of(call);
  *out = in;
  for (int i = 0; i < in.rank; ++i) {
    out->dims[i] = in.dims[order[static_cast<size_t>(i)]];
    out->strides[i] = in.strides[order[static_cast<size_t>(i)]];
  }
  return true;
}

// --- slice ---

struct Range {
  int64_t start, stop, step;
  int64_t size() const { return stop > start ? (stop - start + step - 1) / step : 0; }
};

// As Python's x[start:stop:step] for steps of at least 1; dimensions beyond the lists are whole.
std::vector<Range> ranges_of(const OpCall& call) {
  const Shape& shape = call.inputs[0].shape;
  const auto start = attr_ints(call.attrs, kStart), stop = attr_ints(call.attrs, kStop), step = attr_ints(call.attrs, kStep);
  const size_t rank = static_cast<size_t>(shape.rank());
  if (start.size() > rank || stop.size() > rank || step.size() > rank)
    refuse_shape("a slice has more dimensions than its operand", call.inputs[0].text());
  std::vector<Range> ranges;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t size = shape[static_cast<int>(i)];
    const auto place = [size](int64_t x) { return std::clamp(x < 0 ? x + size : x, int64_t{0}, size); };
    const int64_t stride = i < step.size() ? step[i] : 1;
    ranges.push_back({i < start.size() ? place(start[i]) : 0, i < stop.size() ? place(stop[i]) : size, stride});
  }
  return ranges;
}

std::vector<Type> infer_slice(const OpCall& call) {
  std::vector<int64_t> dims;
  for (const Range& range : ranges_of(call)) dims.push_back(range.size());
  return {{call.inputs[0].dtype, Shape(dims)}};
}

std::vector<Value> slice_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const OperandTypes types(graph, node);
  const Shape shape = node.in(graph, 0).shape();
  std::vector<int64_t> before, after, interior;
  const std::vector<Range> ranges = ranges_of(types.call());
  for (size_t i = 0; i < ranges.size(); ++i) {
    const int64_t covered = ranges[i].size() > 0 ? (ranges[i].size() - 1) * ranges[i].step + 1 : 0;
    before.push_back(ranges[i].start);
    interior.push_back(ranges[i].step - 1);
    after.push_back(shape[static_cast<int>(i)] - ranges[i].start - covered);
  }
  Json attrs = Json::object();
  attrs.set("before", ints_json(before));
  attrs.set("after", ints_json(after));
  attrs.set("interior", ints_json(interior));
  return {graph.apply("pad", {grads[0]}, std::move(attrs))};
}

Sliced sliced_slice(const OpCall& call, std::span<const Sliced> inputs) {
  const auto ranges = ranges_of(call);
  return sliced_rows_if(!ranges.empty() && ranges[0].size() == call.inputs[0].shape[0], inputs[0]);
}

bool slice_alias(const OpCall& call, const View& in, View* out) {
  const auto ranges = ranges_of(call);
  *out = in;
  int64_t offset = 0;
  for (int i = 0; i < in.rank; ++i) {
    const Range& range = ranges[static_cast<size_t>(i)];
    out->dims[i] = range.size();
    out->strides[i] = in.strides[i] * range.step;
    if (range.size() > 0) offset += range.start * in.strides[i];
  }
  out->data = in.as<std::byte>() + offset * static_cast<int64_t>(dtype_bytes(in.dtype));
  return true;
}

// --- concatenate ---

int concatenate_axis(const OpCall& call) { return axis_of(attr_int(call.attrs, kShapeAxis), call.inputs[0]); }

std::vector<Type> infer_concatenate(const OpCall& call) {
  const int axis = concatenate_axis(call);
  const Type& first = call.inputs[0];
  int64_t total = 0;
  for (const Type& type : call.inputs) {
    if (type.dtype != first.dtype || type.shape.rank() != first.shape.rank() || type.shape.with(axis, 0) != first.shape.with(axis, 0))
      refuse_shape("cannot concatenate along axis " + std::to_string(axis), type.text(), "like " + first.text());
    if (__builtin_add_overflow(total, type.shape[axis], &total)) refuse_shape("a dimension overflows", type.text());
  }
  return {{first.dtype, first.shape.with(axis, total)}};
}

std::vector<Value> concatenate_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const OperandTypes types(graph, node);
  const size_t axis = static_cast<size_t>(concatenate_axis(types.call()));
  std::vector<Value> result;
  int64_t begin = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    std::vector<int64_t> start(axis, 0), stop = grads[0].shape().vector();
    stop.resize(axis + 1);
    start.push_back(begin);
    begin += node.in(graph, i).shape()[static_cast<int>(axis)];
    stop[axis] = begin;
    Json attrs = Json::object();
    attrs.set("start", ints_json(start));
    attrs.set("stop", ints_json(stop));
    result.push_back(graph.apply("slice", {grads[0]}, std::move(attrs)));
  }
  return result;
}

Sliced sliced_concatenate(const OpCall& call, std::span<const Sliced> inputs) {
  for (const Sliced& input : inputs)
    if (input != inputs[0]) return Sliced::mixed;
  return sliced_rows_if(concatenate_axis(call) != 0, inputs[0]);
}

size_t concatenate_params(const OpCall& call, void* out) {
  const ConcatenateParams params{concatenate_axis(call)};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

// --- pad ---

// A list of one number per dimension, 0 when shorter.
std::vector<int64_t> pad_list(const OpCall& call, const Option& option) {
  std::vector<int64_t> list = attr_ints(call.attrs, option);
  const size_t rank = static_cast<size_t>(call.inputs[0].shape.rank());
  if (list.size() > rank) refuse_shape(std::string("'") + option.name + "' has more dimensions than the operand", call.inputs[0].text());
  list.resize(rank, 0);
  return list;
}

std::vector<Type> infer_pad(const OpCall& call) {
  const Type& x = call.inputs[0];
  const auto before = pad_list(call, kBefore), after = pad_list(call, kAfter), interior = pad_list(call, kInterior);
  std::vector<int64_t> dims;
  for (size_t i = 0; i < before.size(); ++i) {
    const int64_t size = x.shape[static_cast<int>(i)];
    int64_t total = 0;
    if (__builtin_mul_overflow(std::max<int64_t>(size - 1, 0), interior[i], &total) || __builtin_add_overflow(total, size, &total) ||
        __builtin_add_overflow(total, before[i], &total) || __builtin_add_overflow(total, after[i], &total))
      refuse_shape("a padded dimension overflows", x.text());
    dims.push_back(total);
  }
  return {{x.dtype, Shape(dims)}};
}

std::vector<Value> pad_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const OperandTypes types(graph, node);
  const auto before = pad_list(types.call(), kBefore), after = pad_list(types.call(), kAfter), interior = pad_list(types.call(), kInterior);
  std::vector<int64_t> stop, step;
  for (size_t i = 0; i < before.size(); ++i) {
    stop.push_back(grads[0].shape()[static_cast<int>(i)] - after[i]);
    step.push_back(interior[i] + 1);
  }
  Json attrs = Json::object();
  attrs.set("start", ints_json(before));
  attrs.set("stop", ints_json(stop));
  attrs.set("step", ints_json(step));
  return {graph.apply("slice", {grads[0]}, std::move(attrs))};
}

Sliced sliced_pad(const OpCall& call, std::span<const Sliced> inputs) {
  const bool linear = attr_number(call.attrs, kShapeValue) == 0;
  if (inputs[0] == Sliced::partial && !linear) return Sliced::mixed;
  const auto before = pad_list(call, kBefore), after = pad_list(call, kAfter), interior = pad_list(call, kInterior);
  return sliced_rows_if(!before.empty() && before[0] + after[0] + interior[0] == 0, inputs[0]);
}

size_t pad_params(const OpCall& call, void* out) {
  PadParams params{};
  const auto before = pad_list(call, kBefore), interior = pad_list(call, kInterior);
  std::copy(before.begin(), before.end(), params.before);
  std::copy(interior.begin(), interior.end(), params.interior);
  params.value = attr_number(call.attrs, kShapeValue);
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

// --- stop_gradient ---

std::vector<Type> infer_stop_gradient(const OpCall& call) { return {call.inputs[0]}; }
Sliced sliced_stop_gradient(const OpCall&, std::span<const Sliced> inputs) { return inputs[0]; }

bool stop_gradient_alias(const OpCall&, const View& in, View* out) {
  *out = in;
  return true;
}

constexpr OpDef kShapeOps[] = {
    {.name = "reshape",
     .doc = "The elements in row-major order in another shape; one dimension may be -1.",
     .attributes = {.options = kReshape},
     .infer = infer_reshape,
     .vjp = reshape_vjp,
     .sliced = sliced_reshape,
     .precision = Precision::follows,
     .identity = true,
     .reshapes = true,
     .alias = reshape_alias},
    {.name = "transpose",
     .doc = "Dimensions in another order; reversed when no order is given.",
     .attributes = {.options = kTranspose},
     .infer = infer_transpose,
     .vjp = transpose_vjp,
     .sliced = sliced_transpose,
     .precision = Precision::follows,
     .permutes = true,
     .simpler = simpler_transpose,
     .alias = transpose_alias},
    {.name = "slice",
     .doc = "x[start:stop:step], lists by dimension, negative from the end.",
     .attributes = {.options = kSlice},
     .infer = infer_slice,
     .vjp = slice_vjp,
     .sliced = sliced_slice,
     .precision = Precision::follows,
     .identity = true,
     .alias = slice_alias},
    {.name = "concatenate",
     .doc = "Operands one after the other along axis.",
     .attributes = {.options = kConcatenate},
     .max_inputs = -1,
     .infer = infer_concatenate,
     .vjp = concatenate_vjp,
     .sliced = sliced_concatenate,
     .params = concatenate_params,
     .operand_dtypes = OperandDtypes::common,
     .precision = Precision::follows},
    {.name = "pad",
     .doc = "x with value around (before, after) and between (interior) its elements, lists by dimension.",
     .attributes = {.options = kPad},
     .infer = infer_pad,
     .vjp = pad_vjp,
     .sliced = sliced_pad,
     .params = pad_params,
     .precision = Precision::follows},
    // Not `identity`: passes that run before autodiff would take it away.
    {.name = "stop_gradient",
     .doc = "x itself, as a constant to gradients: none flows through it.",
     .infer = infer_stop_gradient,
     .sliced = sliced_stop_gradient,
     .precision = Precision::follows,
     .alias = stop_gradient_alias},
};

}  // namespace

extern const OpList ops_shape;
const OpList ops_shape = op_list(kShapeOps);

}  // namespace perigee
