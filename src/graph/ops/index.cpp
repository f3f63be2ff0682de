// Ops that choose by index: gather (embedding lookup), its adjoint scatter_add, one_hot.
#include "kernels/ops/index.h"

#include <cstring>

#include "src/core/error.h"
#include "src/graph/build.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kIndexAxis = {"axis", "integer", "0", "that the indices count along; below 0 from the end"};
constexpr Option kIndexSize = {"size", "integer", nullptr, "of the result along axis", {.low = 0}};
constexpr Option kDepth = {"depth", "integer", nullptr, "of the last dimension", {.low = 1}};
constexpr Option kIndexDtype = {"dtype", "name", "f32", "of the result"};
constexpr Option kOn = {"on", "number", "1", "at the index"}, kOff = {"off", "number", "0", "elsewhere"};
constexpr Option kGather[] = {kIndexAxis}, kScatter[] = {kIndexAxis, kIndexSize}, kOneHot[] = {kDepth, kIndexDtype, kOn, kOff};

[[noreturn]] void refuse_index(std::string what, std::string got, std::string expected = "") {
  throw Error(ErrorKind::model, {.what = std::move(what), .got = std::move(got), .expected = std::move(expected)});
}

void check_indices(const Type& type) {
  if (type.dtype != Dtype::i64) refuse_index("indices have the wrong dtype", type.text(), "i64");
}

int gather_axis(const OpCall& call) { return axis_of(attr_int(call.attrs, kIndexAxis), call.inputs[0]); }

std::vector<Type> infer_gather(const OpCall& call) {
  const Type &x = call.inputs[0], &indices = call.inputs[1];
  check_indices(indices);
  const int axis = gather_axis(call);
  std::vector<int64_t> dims = x.shape.vector();
  dims.erase(dims.begin() + axis);
  const std::vector<int64_t> chosen = indices.shape.vector();
  dims.insert(dims.begin() + axis, chosen.begin(), chosen.end());
  return {{x.dtype, Shape(dims)}};
}

ChoosingOperand gathered(const OpCall& call) { return {.operand = 1, .count = call.inputs[0].shape[gather_axis(call)]}; }

std::vector<Value> gather_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const OperandTypes types(graph, node);
  const int axis = gather_axis(types.call());
  Json attrs = Json::object();
  attrs.set("axis", axis);
  attrs.set("size", node.in(graph, 0).shape()[axis]);
  return {graph.apply("scatter_add", {grads[0], node.in(graph, 1)}, std::move(attrs))};
}

// Rows of a table, by each example's indices; or the same elements of each example.
Sliced sliced_gather(const OpCall& call, std::span<const Sliced> inputs) {
  const bool first = gather_axis(call) == 0;
  if (inputs[1] == Sliced::whole) return inputs[0] == Sliced::batch && first ? Sliced::mixed : inputs[0];
  return inputs[0] == Sliced::whole && inputs[1] == Sliced::batch && first ? Sliced::batch : Sliced::mixed;
}

// The axis of scatter_add counts in its result.
int scatter_axis(const OpCall& call) {
  const int rank = call.inputs[0].shape.rank() - call.inputs[1].shape.rank() + 1;
  const int64_t axis = attr_int(call.attrs, kIndexAxis);
  if (rank < 1 || axis < -rank || axis >= rank)
    refuse_index("axis out of range", std::to_string(axis) + " for updates " + call.inputs[0].text() + ", indices " + call.inputs[1].text(),
                 rank < 1 ? "" : std::to_string(-rank) + " to " + std::to_string(rank - 1));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<Type> infer_scatter_add(const OpCall& call) {
  const Type &updates = call.inputs[0], &indices = call.inputs[1];
  check_indices(indices);
  const int axis = scatter_axis(call);
  const int64_t size = attr_int(call.attrs, kIndexSize);
  std::vector<int64_t> dims = updates.shape.vector();
  for (int i = 0; i < indices.shape.rank(); ++i)
    if (dims[static_cast<size_t>(axis + i)] != indices.shape[i])
      refuse_index("updates do not fit the indices", updates.text(),
                   "the dimensions of " + indices.text() + " at axis " + std::to_string(axis));
  dims.erase(dims.begin() + axis, dims.begin() + axis + indices.shape.rank());
  dims.insert(dims.begin() + axis, size);
  return {{updates.dtype, Shape(dims)}};
}

std::vector<Value> scatter_add_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const OperandTypes types(graph, node);
  Json attrs = Json::object();
  attrs.set("axis", scatter_axis(types.call()));
  return {graph.apply("gather", {grads[0], node.in(graph, 1)}, std::move(attrs))};
}

Sliced sliced_scatter_add(const OpCall& call, std::span<const Sliced> inputs) {
  const bool first = scatter_axis(call) == 0;
  if (inputs[1] == Sliced::whole) return inputs[0] == Sliced::batch && first ? Sliced::mixed : inputs[0];
  return inputs[0] == Sliced::batch && inputs[1] == Sliced::batch && first ? Sliced::partial : Sliced::mixed;
}

size_t gather_params(const OpCall& call, void* out) {
  const IndexParams params{gather_axis(call)};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

size_t scatter_params(const OpCall& call, void* out) {
  const IndexParams params{scatter_axis(call)};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

std::vector<Type> infer_one_hot(const OpCall& call) {
  check_indices(call.inputs[0]);
  const int64_t depth = attr_int(call.attrs, kDepth);
  std::vector<int64_t> dims = call.inputs[0].shape.vector();
  dims.push_back(depth);
  return {{dtype_from_name(attr_string(call.attrs, kIndexDtype)), Shape(dims)}};
}

ChoosingOperand hot(const OpCall& call) { return {.operand = 0, .count = attr_int(call.attrs, kDepth)}; }

size_t one_hot_params(const OpCall& call, void* out) {
  const OneHotParams params{attr_number(call.attrs, kOn), attr_number(call.attrs, kOff)};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

constexpr OpDef kIndexOps[] = {
    {.name = "gather",
     .doc = "x's slices along axis at i64 indices.",
     .attributes = {.options = kGather},
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_gather,
     .vjp = gather_vjp,
     .sliced = sliced_gather,
     .params = gather_params,
     .chooses = gathered,
     .operand_dtypes = OperandDtypes::indices},
    {.name = "scatter_add",
     .doc = "Zeros of `size` along axis, plus each update at its index: the adjoint of gather.",
     .attributes = {.options = kScatter},
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_scatter_add,
     .vjp = scatter_add_vjp,
     .sliced = sliced_scatter_add,
     .params = scatter_params,
     .operand_dtypes = OperandDtypes::indices,
     .scatters = true},
    {.name = "one_hot",
     .doc = "A last dimension of size depth: on at the index, off elsewhere; dtype.",
     .attributes = {.options = kOneHot},
     .infer = infer_one_hot,
     .sliced = sliced_first_input,
     .params = one_hot_params,
     .chooses = hot,
     .operand_dtypes = OperandDtypes::indices},
};

}  // namespace

extern const OpList ops_index;
const OpList ops_index = op_list(kIndexOps);

}  // namespace perigee
