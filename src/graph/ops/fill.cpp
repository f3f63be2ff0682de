// Constants and conversions: full, full_like, cast, broadcast_to, broadcast_like.
#include "kernels/ops/full.h"

#include <cstring>

#include "src/core/error.h"
#include "src/graph/build.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kFillValue = {"value", "number", "0", "of every element"};
constexpr Option kFillShape = {"shape", "list of integers", "[]", "sizes by dimension", {.low = 0}};
constexpr Option kFillDtype = {"dtype", "name", "f32", "of the result"};
constexpr Option kFull[] = {kFillValue, kFillShape, kFillDtype}, kFullLike[] = {kFillValue}, kCast[] = {kFillDtype},
                 kBroadcast[] = {kFillShape};

Dtype attr_dtype(const OpCall& call) { return dtype_from_name(attr_string(call.attrs, kFillDtype)); }

std::vector<Type> infer_full(const OpCall& call) { return {{attr_dtype(call), Shape(attr_ints(call.attrs, kFillShape))}}; }

std::vector<Type> infer_full_like(const OpCall& call) { return {call.inputs[0]}; }

size_t full_params(const OpCall& call, void* out) {
  const FullParams params{attr_number(call.attrs, kFillValue)};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

// A constant is no sum over examples, whatever it is shaped after; only a batch's shape depends on the slice.
Sliced sliced_full_like(const OpCall&, std::span<const Sliced> inputs) { return inputs[0] == Sliced::partial ? Sliced::whole : inputs[0]; }

std::vector<Type> infer_cast(const OpCall& call) { return {{attr_dtype(call), call.inputs[0].shape}}; }

std::vector<Value> cast_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  return {cast(grads[0], node.in(graph, 0).dtype())};
}

Type broadcast_type(const Type& from, const Shape& to) {
  if (broadcast(from.shape, to) != to)
    throw Error(ErrorKind::model, {.what = "a value does not broadcast to the shape", .got = from.text(), .expected = to.text()});
  return {from.dtype, to};
}

std::vector<Type> infer_broadcast_to(const OpCall& call) {
  return {broadcast_type(call.inputs[0], Shape(attr_ints(call.attrs, kFillShape)))};
}

std::vector<Type> infer_broadcast_like(const OpCall& call) { return {broadcast_type(call.inputs[0], call.inputs[1].shape)}; }

std::vector<Value> broadcast_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  return {sum_to(grads[0], node.in(graph, 0).shape())};
}

Sliced sliced_broadcast_to(const OpCall& call, std::span<const Sliced> inputs) {
  const auto shape = attr_ints(call.attrs, kFillShape);
  const bool same_first =
      call.inputs[0].shape.rank() == static_cast<int>(shape.size()) && !shape.empty() && call.inputs[0].shape[0] == shape[0];
  return inputs[0] == Sliced::batch && !same_first ? Sliced::mixed : inputs[0];
}

Sliced sliced_broadcast_like(const OpCall& call, std::span<const Sliced> inputs) {
  if (inputs[1] == Sliced::partial || inputs[1] == Sliced::whole) return inputs[0] == Sliced::batch ? Sliced::mixed : inputs[0];
  return sliced_elementwise(call, inputs);
}

// Dimensions that the input lacks, or has once, get stride 0.
void broadcast_view(const View& in, const Shape& shape, View* out) {
  out->data = in.data;
  out->dtype = in.dtype;
  out->rank = shape.rank();
  const int extra = shape.rank() - in.rank;
  for (int i = 0; i < shape.rank(); ++i) {
    out->dims[i] = shape[i];
    out->strides[i] = i < extra || (in.dims[i - extra] == 1 && shape[i] != 1) ? 0 : in.strides[i - extra];
  }
}

bool broadcast_to_alias(const OpCall& call, const View& in, View* out) {
  broadcast_view(in, Shape(attr_ints(call.attrs, kFillShape)), out);
  return true;
}

bool broadcast_like_alias(const OpCall& call, const View& in, View* out) {
  broadcast_view(in, call.inputs[1].shape, out);
  return true;
}

constexpr OpDef kFillOps[] = {
    {.name = "full",
     .doc = "One number everywhere: value, shape, dtype.",
     .attributes = {.options = kFull},
     .min_inputs = 0,
     .max_inputs = 0,
     .infer = infer_full,
     .sliced = sliced_never,
     .params = full_params,
     .constant = true},
    {.name = "full_like",
     .doc = "One number (value) in the shape and dtype of x.",
     .attributes = {.options = kFullLike},
     .infer = infer_full_like,
     .sliced = sliced_full_like,
     .params = full_params,
     .constant = true,
     .elementwise = true},
    {.name = "cast",
     .doc = "x converted to dtype.",
     .attributes = {.options = kCast},
     .infer = infer_cast,
     .vjp = cast_vjp,
     .sliced = sliced_linear_elementwise,
     .identity = true,
     .converts = true,
     .elementwise = true},
    {.name = "broadcast_to",
     .doc = "x repeated to shape, as NumPy broadcasts.",
     .attributes = {.options = kBroadcast},
     .infer = infer_broadcast_to,
     .vjp = broadcast_vjp,
     .sliced = sliced_broadcast_to,
     .repeats = true,
     .identity = true,
     .alias = broadcast_to_alias},
    {.name = "broadcast_like",
     .doc = "x repeated to the shape of like.",
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_broadcast_like,
     .vjp = broadcast_vjp,
     .sliced = sliced_broadcast_like,
     .repeats = true,
     .identity = true,
     .alias = broadcast_like_alias},
};

}  // namespace

extern const OpList ops_fill;
const OpList ops_fill = op_list(kFillOps);

}  // namespace perigee
