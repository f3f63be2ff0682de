// Recurrent cells over all steps of a sequence, with their gradients. An op has the whole loop over time in it, so that a plan does not grow
// with the length. The state after each step is the result: a layer that wants zeros at masked steps multiplies by the mask.
#include "kernels/ops/recurrent.h"

#include <cstring>

#include "src/core/error.h"
#include "src/graph/build.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kRecurrentReverse = {"reverse", "boolean", "false", "the steps go from the last to the first"};
constexpr Option kReset = {
    "reset", "name", "after", "where the reset gate acts: after or before the product of n", {}, {"after", "before"}};
constexpr Option kAnyReset = {"reset", "name", "none", "of the cell", {}, {"none", "after", "before"}};
constexpr Option kRecurrentActivation = {"activation", "name", "tanh", "of the new state", {}, {"tanh", "relu"}};
constexpr Option kLstm[] = {kRecurrentReverse}, kGru[] = {kRecurrentReverse, kReset}, kRnn[] = {kRecurrentReverse, kRecurrentActivation},
                 kWeight[] = {kRecurrentReverse, kAnyReset};

[[noreturn]] void refuse_recurrent(std::string what, std::string got, std::string expected) {
  throw Error(ErrorKind::model, {.what = std::move(what), .got = std::move(got), .expected = std::move(expected)});
}

void require_recurrent(const OpCall& call, size_t i, const Type& expected, const char* what) {
  if (i < call.inputs.size() && call.present[i] && call.inputs[i] != expected)
    refuse_recurrent(std::string("the ") + what + " does not fit", call.inputs[i].text(), expected.text());
}

struct RecurrentSizes {
  Dtype dtype;
  int64_t n, t, h;
  Type sequence(int64_t width) const { return {dtype, Shape{n, t, width * h}}; }
  Type state() const { return {dtype, Shape{n, h}}; }
  Type mask() const { return {dtype, Shape{n, t}}; }
  Type weight(int64_t gates) const { return {dtype, Shape{h, gates * h}}; }
};

// The sizes of a sequence [N,T,width H].
RecurrentSizes sizes_of(const Type& sequence, int64_t width) {
  if (sequence.shape.rank() != 3 || (sequence.dtype != Dtype::f32 && sequence.dtype != Dtype::f64) || sequence.shape[1] < 1 ||
      sequence.shape[2] < width || sequence.shape[2] % width != 0)
    refuse_recurrent("takes sequences", sequence.text(),
                     "f32 or f64, examples x steps x features" + (width > 1 ? ", " + std::to_string(width) + " for each unit" : ""));
  return {sequence.dtype, sequence.shape[0], sequence.shape[1], sequence.shape[2] / width};
}

std::vector<Type> infer_lstm(const OpCall& call) {
  const RecurrentSizes s = sizes_of(call.inputs[0], 4);
  require_recurrent(call, 1, s.weight(4), "recurrent weight");
  require_recurrent(call, 2, s.state(), "first state h0");
  require_recurrent(call, 3, s.state(), "first state c0");
  require_recurrent(call, 4, s.mask(), "mask");
  return {s.sequence(1), s.sequence(1), s.sequence(4)};
}

std::vector<Type> infer_lstm_grad(const OpCall& call) {
  const RecurrentSizes s = sizes_of(call.inputs[4], 4);
  require_recurrent(call, 0, s.sequence(1), "gradient");
  require_recurrent(call, 1, s.sequence(1), "gradient");
  require_recurrent(call, 2, s.weight(4), "recurrent weight");
  require_recurrent(call, 3, s.sequence(1), "states");
  require_recurrent(call, 5, s.state(), "first state c0");
  require_recurrent(call, 6, s.mask(), "mask");
  return {s.sequence(4), s.state(), s.state()};
}

std::vector<Type> infer_gru(const OpCall& call) {
  const RecurrentSizes s = sizes_of(call.inputs[0], 3);
  require_recurrent(call, 1, s.weight(3), "recurrent weight");
  require_recurrent(call, 2, {s.dtype, Shape{s.h}}, "recurrent bias");
  require_recurrent(call, 3, s.state(), "first state h0");
  require_recurrent(call, 4, s.mask(), "mask");
  if (call.inputs.size() > 2 && call.present[2] && attr_string(call.attrs, kReset) == "before")
    throw Error(ErrorKind::model,
                {.what = "the recurrent bias is only for reset = after", .hint = "leave the third operand out, or take reset = after"});
  return {s.sequence(1), s.sequence(4)};
}

std::vector<Type> infer_gru_grad(const OpCall& call) {
  const RecurrentSizes s = sizes_of(call.inputs[3], 4);
  require_recurrent(call, 0, s.sequence(1), "gradient");
  require_recurrent(call, 1, s.weight(3), "recurrent weight");
  require_recurrent(call, 2, s.sequence(1), "states");
  require_recurrent(call, 4, s.state(), "first state h0");
  require_recurrent(call, 5, s.mask(), "mask");
  return {s.sequence(4), s.state()};
}

std::vector<Type> infer_rnn(const OpCall& call) {
  const RecurrentSizes s = sizes_of(call.inputs[0], 1);
  require_recurrent(call, 1, s.weight(1), "recurrent weight");
  require_recurrent(call, 2, s.state(), "first state h0");
  require_recurrent(call, 3, s.mask(), "mask");
  return {s.sequence(1)};
}

std::vector<Type> infer_rnn_grad(const OpCall& call) {
  const RecurrentSizes s = sizes_of(call.inputs[2], 1);
  require_recurrent(call, 0, s.sequence(1), "gradient");
  require_recurrent(call, 1, s.weight(1), "recurrent weight");
  require_recurrent(call, 3, s.mask(), "mask");
  return {s.sequence(1), s.state()};
}

std::vector<Type> infer_weight(const OpCall& call) {
  const RecurrentSizes s = sizes_of(call.inputs[1], 1);
  const bool plain = attr_string(call.attrs, kAnyReset) == "none";
  const Type& d = call.inputs[0];
  if (plain && d.shape.rank() == 3) require_recurrent(call, 0, {s.dtype, Shape{s.n, s.t, d.shape[2]}}, "gradient");
  else require_recurrent(call, 0, s.sequence(4), "gradient");
  require_recurrent(call, 2, s.state(), "first state h0");
  require_recurrent(call, 3, s.sequence(4), "gates");
  return {{s.dtype, Shape{s.h, plain ? d.shape[2] : 3 * s.h}}};
}

RecurrentReset reset_of(const std::string& name) {
  return name == "after" ? RecurrentReset::after : name == "before" ? RecurrentReset::before : RecurrentReset::none;
}

size_t store_params(const RecurrentParams& values, void* out) {
  std::memcpy(out, &values, sizeof values);
  return sizeof values;
}

size_t params_lstm(const OpCall& call, void* out) { return store_params({.reverse = attr_bool(call.attrs, kRecurrentReverse)}, out); }

size_t params_gru(const OpCall& call, void* out) {
  return store_params({.reverse = attr_bool(call.attrs, kRecurrentReverse), .reset = reset_of(attr_string(call.attrs, kReset))}, out);
}

size_t params_rnn(const OpCall& call, void* out) {
  const bool relu = attr_string(call.attrs, kRecurrentActivation) == "relu";
  return store_params(
      {.reverse = attr_bool(call.attrs, kRecurrentReverse), .activation = relu ? RecurrentActivation::relu : RecurrentActivation::tanh},
      out);
}

size_t params_weight(const OpCall& call, void* out) {
  return store_params({.reverse = attr_bool(call.attrs, kRecurrentReverse), .reset = reset_of(attr_string(call.attrs, kAnyReset))}, out);
}

Value operand(Graph& graph, const Node& node, size_t i) { return i < node.inputs.size() ? node.in(graph, i) : Value(); }

Json weight_attributes(const Node& node, const char* reset) {
  Json attrs = Json::object();
  attrs.set("reverse", attr_bool(node, "reverse"));
  attrs.set("reset", reset);
  return attrs;
}

void refuse_gates(Value gradient, const char* hint) {
  if (gradient) throw Error(ErrorKind::model, {.what = "the gates of a recurrent op cannot be differentiated", .hint = hint});
}

std::vector<Value> fitted(std::vector<Value> flows, const Node& node) {
  flows.resize(node.inputs.size());
  return flows;
}

std::vector<Value> vjp_lstm(Graph& graph, const Node& node, std::span<const Value> grads) {
  refuse_gates(grads[2], "use its first two results for the loss");
  const Value r = node.in(graph, 1), h0 = operand(graph, node, 2), c0 = operand(graph, node, 3), mask = operand(graph, node, 4);
  const Value operands[] = {grads[0], grads[1], r, node.out(graph, 1), node.out(graph, 2), c0, mask};
  const std::vector<Value> back = graph.apply_all("lstm_grad", operands, node.attrs);
  const Value weight = graph.apply("recurrent_grad_weight", {back[0], node.out(graph, 0), h0}, weight_attributes(node, "none"));
  return fitted({back[0], weight, h0 ? back[1] : Value(), c0 ? back[2] : Value(), Value()}, node);
}

// Units [first, last) times H of a sequence.
Value recurrent_part(Value sequence, int64_t first, int64_t last, int64_t h) {
  Json attrs = Json::object();
  const int64_t start[] = {0, 0, first * h}, stop[] = {sequence.shape()[0], sequence.shape()[1], last * h};
  attrs.set("start", ints_json(start));
  attrs.set("stop", ints_json(stop));
  return sequence.graph().apply("slice", {sequence}, std::move(attrs));
}

std::vector<Value> vjp_gru(Graph& graph, const Node& node, std::span<const Value> grads) {
  refuse_gates(grads[1], "use its first result for the loss");
  const Value r = node.in(graph, 1), bias = operand(graph, node, 2), h0 = operand(graph, node, 3), mask = operand(graph, node, 4);
  const Value h = node.out(graph, 0), gates = node.out(graph, 1), operands[] = {grads[0], r, h, gates, h0, mask};
  const std::vector<Value> back = graph.apply_all("gru_grad", operands, node.attrs);
  const std::string reset = attr_string(node, "reset");
  const Value weight =
      graph.apply("recurrent_grad_weight", {back[0], h, h0, reset == "before" ? gates : Value()}, weight_attributes(node, reset.c_str()));
  const int64_t units = h.shape()[2];
  const Value dbias = bias ? reduce_sum(recurrent_part(back[0], 3, 4, units), {0, 1}) : Value();
  return fitted({recurrent_part(back[0], 0, 3, units), weight, dbias, h0 ? back[1] : Value(), Value()}, node);
}

std::vector<Value> vjp_rnn(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value r = node.in(graph, 1), h = node.out(graph, 0), h0 = operand(graph, node, 2), mask = operand(graph, node, 3);
  const Value operands[] = {grads[0], r, h, mask};
  const std::vector<Value> back = graph.apply_all("rnn_grad", operands, node.attrs);
  const Value weight = graph.apply("recurrent_grad_weight", {back[0], h, h0}, weight_attributes(node, "none"));
  return fitted({back[0], weight, h0 ? back[1] : Value(), Value()}, node);
}

// By example, with the same weights for all of them.
template <int kSequence, uint32_t kWeights>
Sliced sliced_steps(const OpCall&, std::span<const Sliced> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if ((kWeights >> i & 1) != 0 && inputs[i] != Sliced::whole) return Sliced::mixed;
  const Sliced sequence = inputs[kSequence];
  return sequence == Sliced::batch || sequence == Sliced::whole ? sequence : Sliced::mixed;
}

Sliced sliced_weight(const OpCall&, std::span<const Sliced> inputs) {
  if (inputs[1] == Sliced::batch) return Sliced::partial;
  return inputs[1] == Sliced::whole && inputs[0] == Sliced::whole ? Sliced::whole : Sliced::mixed;
}

// The products, and some 30 operations for a unit's gates.
template <int kSequence>
double flops_steps(const OpCall& call) {
  const double rows = static_cast<double>(call.inputs[kSequence].shape[0]) * static_cast<double>(call.inputs[kSequence].shape[1]);
  const Type& weight = call.inputs[1].shape.rank() == 2 ? call.inputs[1] : call.inputs[2];
  return rows * (2 * static_cast<double>(weight.shape.elements()) + 30 * static_cast<double>(weight.shape[0]));
}

double flops_weight(const OpCall& call) {
  return 2 * static_cast<double>(call.inputs[0].shape.elements()) * static_cast<double>(call.inputs[1].shape[2]);
}

// --- steps as examples ---

constexpr Option kRecurrentSteps = {"steps", "integer", nullptr, "of each example", {.low = 1}};
constexpr Option kUnfold[] = {kRecurrentSteps};

std::vector<Type> infer_fold(const OpCall& call) {
  const Type& x = call.inputs[0];
  if (x.shape.rank() < 2) refuse_recurrent("folds examples x steps", x.text(), "two dimensions or more");
  std::vector<int64_t> dims = x.shape.vector();
  dims[1] *= dims[0];  // no more than a shape's elements, which are counted
  dims.erase(dims.begin());
  return {{x.dtype, Shape(dims)}};
}

std::vector<Type> infer_unfold(const OpCall& call) {
  const Type& x = call.inputs[0];
  const int64_t steps = attr_int(call.attrs, kRecurrentSteps);
  if (x.shape.rank() < 1 || x.shape[0] % steps != 0)
    refuse_recurrent("cannot be cut into steps", x.text(), "a multiple of " + std::to_string(steps));
  std::vector<int64_t> dims = x.shape.vector();
  dims[0] /= steps;
  dims.insert(dims.begin() + 1, steps);
  return {{x.dtype, Shape(dims)}};
}

Json steps_attribute(int64_t steps) { return Json(Json::Object{{"steps", Json(steps)}}); }

std::vector<Value> vjp_fold(Graph& graph, const Node& node, std::span<const Value> grads) {
  return {graph.apply("unfold_steps", {grads[0]}, steps_attribute(node.in(graph, 0).shape()[1]))};
}

std::vector<Value> vjp_unfold(Graph& graph, const Node&, std::span<const Value> grads) { return {graph.apply("fold_steps", {grads[0]})}; }

// Rows of one example stay together.
Sliced sliced_folds(const OpCall&, std::span<const Sliced> inputs) { return inputs[0] == Sliced::partial ? Sliced::mixed : inputs[0]; }

// Each undoes the other, where the steps are as many.
std::optional<ValueId> simpler_folds(const SimplerCall& call) {
  const std::string_view outer = call.node.op->name, inner = call.made(0).op->name;
  if (!(outer == "fold_steps" && inner == "unfold_steps") && !(outer == "unfold_steps" && inner == "fold_steps")) return {};
  const ValueId from = call.made(0).inputs[0];
  return call.graph.type(from) == call.node.outputs[0] ? std::optional(from) : std::nullopt;
}

bool alias_fold(const OpCall&, const View& in, View* out) {
  if (in.dims[0] != 1 && in.dims[1] != 1 && in.strides[0] != in.dims[1] * in.strides[1]) return false;
  *out = in;
  out->rank = in.rank - 1;
  for (int d = 1; d < out->rank; ++d) out->dims[d] = in.dims[d + 1], out->strides[d] = in.strides[d + 1];
  out->dims[0] = in.dims[0] * in.dims[1];
  out->strides[0] = in.dims[1] == 1 ? in.strides[0] : in.strides[1];
  return true;
}

bool alias_unfold(const OpCall& call, const View& in, View* out) {
  const int64_t steps = attr_int(call.attrs, kRecurrentSteps);
  *out = in;
  out->rank = in.rank + 1;
  for (int d = in.rank; d > 1; --d) out->dims[d] = in.dims[d - 1], out->strides[d] = in.strides[d - 1];
  out->dims[0] = in.dims[0] / steps, out->strides[0] = in.strides[0] * steps;
  out->dims[1] = steps, out->strides[1] = in.strides[0];
  return true;
}

constexpr OpDef kRecurrentOps[] = {
    {.name = "fold_steps",
     .doc = "Examples x steps x ... as rows: each step of each example is one.",
     .infer = infer_fold,
     .vjp = vjp_fold,
     .sliced = sliced_folds,
     .internal = true,
     .precision = Precision::follows,
     .simpler = simpler_folds,
     .alias = alias_fold},
    {.name = "unfold_steps",
     .doc = "Rows as examples x steps x ...: the inverse of fold_steps.",
     .attributes = {.options = kUnfold},
     .infer = infer_unfold,
     .vjp = vjp_unfold,
     .sliced = sliced_folds,
     .internal = true,
     .precision = Precision::follows,
     .simpler = simpler_folds,
     .alias = alias_unfold},
    {.name = "lstm",
     .doc = "States h of an LSTM after each step, from x (products of the inputs, N x T x 4H: i f g o), r (H x 4H), and h0, c0, mask "
            "(N x T), all optional. Also the states c, and the gates.",
     .attributes = {.options = kLstm},
     .min_inputs = 2,
     .max_inputs = 5,
     .infer = infer_lstm,
     .vjp = vjp_lstm,
     .sliced = sliced_steps<0, 0b10>,
     .params = params_lstm,
     .flops = flops_steps<0>,
     .operand_dtypes = OperandDtypes::real,
     .whole_slice = true,
     .in_place = {.operand = 0, .result = 2}},
    {.name = "lstm_grad",
     .doc = "Gradients of lstm's x, h0 and c0 from dh, dc (either optional), r, c, gates, c0 and mask (optional).",
     .attributes = {.options = kLstm},
     .min_inputs = 5,
     .max_inputs = 7,
     .infer = infer_lstm_grad,
     .sliced = sliced_steps<4, 0b100>,
     .params = params_lstm,
     .flops = flops_steps<4>,
     .internal = true,
     .derivative = true,
     .whole_slice = true,
     .in_place = {.operand = 4, .result = 0}},
    {.name = "gru",
     .doc =
         "States h of a GRU after each step, from x (products of the inputs, N x T x 3H: r z n), r (H x 3H), and the recurrent bias of n, "
         "h0, mask (N x T), all optional. Also the gates and the reset part.",
     .attributes = {.options = kGru},
     .min_inputs = 2,
     .max_inputs = 5,
     .infer = infer_gru,
     .vjp = vjp_gru,
     .sliced = sliced_steps<0, 0b110>,
     .params = params_gru,
     .flops = flops_steps<0>,
     .operand_dtypes = OperandDtypes::real,
     .whole_slice = true},
    {.name = "gru_grad",
     .doc = "Gradients of the sums inside gru's gates (r z n, and the reset part) and of h0, from dh, r, h, gates, h0 and mask (optional).",
     .attributes = {.options = kGru},
     .min_inputs = 4,
     .max_inputs = 6,
     .infer = infer_gru_grad,
     .sliced = sliced_steps<3, 0b10>,
     .params = params_gru,
     .flops = flops_steps<3>,
     .internal = true,
     .derivative = true,
     .whole_slice = true},
    {.name = "rnn",
     .doc = "States h of a simple recurrent layer after each step, from x (products of the inputs, N x T x H), r (H x H), and h0, mask "
            "(N x T), both optional.",
     .attributes = {.options = kRnn},
     .min_inputs = 2,
     .max_inputs = 4,
     .infer = infer_rnn,
     .vjp = vjp_rnn,
     .sliced = sliced_steps<0, 0b10>,
     .params = params_rnn,
     .flops = flops_steps<0>,
     .operand_dtypes = OperandDtypes::real,
     .whole_slice = true},
    {.name = "rnn_grad",
     .doc = "Gradients of rnn's x and h0 from dh, r, h and mask (optional).",
     .attributes = {.options = kRnn},
     .min_inputs = 3,
     .max_inputs = 4,
     .infer = infer_rnn_grad,
     .sliced = sliced_steps<2, 0b10>,
     .params = params_rnn,
     .flops = flops_steps<2>,
     .internal = true,
     .derivative = true,
     .whole_slice = true},
    {.name = "recurrent_grad_weight",
     .doc = "Gradient of the recurrent weight of lstm, gru or rnn, from the gradients of its products, h, h0 (optional) and the gates (gru "
            "with reset = before).",
     .attributes = {.options = kWeight},
     .min_inputs = 2,
     .max_inputs = 4,
     .infer = infer_weight,
     .sliced = sliced_weight,
     .params = params_weight,
     .flops = flops_weight,
     .internal = true,
     .derivative = true},
};

}  // namespace

extern const OpList ops_recurrent;
const OpList ops_recurrent = op_list(kRecurrentOps);

}  // namespace perigee
