#include "src/nn/layers/recurrent.h"

#include <algorithm>

#include "src/nn/noise.h"

namespace perigee {
namespace {

// Gram-Schmidt takes seconds beyond this.
constexpr int64_t kMostOrthogonal = 2'000'000'000;

// Options that only some of the cells have.
const Json* given(const LayerContext& context, const char* key) {
  const Json* value = context.options().json().find(key);
  return value != nullptr && !value->is_null() ? value : nullptr;
}

std::string name_option(const LayerContext& context, const char* key, const char* fallback) {
  const Json* value = given(context, key);
  return value == nullptr ? fallback : value->is_string() ? value->as_string() : "";
}

double rate_option(const LayerContext& context, const char* key) { return given(context, key) ? context.options().number(key) : 0.0; }
bool flag_option(const LayerContext& context, const char* key) { return given(context, key) && context.options().boolean(key); }

int64_t units_of(const LayerContext& context) { return context.options().integer_in("units", 1, 1 << 16); }

// Units of the output: those of the state, or of its projection.
int64_t output_size(const LayerContext& context, RecurrentCell cell) {
  const int64_t projection = cell == RecurrentCell::lstm ? context.options().integer("projection") : 0;
  return projection > 0 ? projection : units_of(context);
}

// The ops of whole sequences have the common cells alone.
bool runs_as_one_op(const LayerContext& context, RecurrentCell cell) {
  const std::string activation = name_option(context, "activation", "tanh");
  if (activation != "tanh" && !(cell == RecurrentCell::rnn && activation == "relu")) return false;
  if (context.training() && rate_option(context, "recurrent_dropout") > 0) return false;
  return name_option(context, "gate_activation", "sigmoid") == "sigmoid" && rate_option(context, "zoneout") == 0 &&
         !flag_option(context, "layer_norm") && !flag_option(context, "peepholes") && rate_option(context, "projection") == 0;
}

// The forget gate's part of an LSTM's bias begins at `forget_bias`.
Json bias_init(const LayerContext& context, RecurrentCell cell) {
  if (cell != RecurrentCell::lstm) return 0.0;
  Json init = Json::object();
  init.set("type", "blocks");
  init.set("values", Json(Json::Array{Json(0.0), Json(context.options().number("forget_bias")), Json(0.0), Json(0.0)}));
  return init;
}

Value parameter(LayerContext& context, const Recurrence& r, const char* name, const Shape& shape, ParameterRole role, int64_t fan_in,
                int64_t fan_out, const Json& init) {
  return context.parameter(name + r.suffix, shape, role, fan_in, fan_out, init);
}

// x w + b for all steps; layer_norm puts the bias behind the normalised products.
Value input_products(LayerContext& context, const Recurrence& r, int64_t units) {
  const int64_t in = r.x.shape()[2], out = gates_of(r.cell) * units;
  const Value weight = parameter(context, r, "weight", Shape{out, in}, ParameterRole::weight, in, units, "xavier");
  const Value bias = context.options().boolean("bias")
                         ? parameter(context, r, "bias", Shape{out}, ParameterRole::bias, in, units, bias_init(context, r.cell))
                         : Value();
  Graph& graph = context.graph();
  if (!flag_option(context, "layer_norm")) return linear(r.x, weight, bias);
  const Value gain = parameter(context, r, "gain", Shape{out}, ParameterRole::gain, out, out, 1.0), z = linear(r.x, weight);
  return bias ? graph.apply("layer_norm", {z, gain, bias}) : graph.apply("layer_norm", {z, gain});
}

Json direction_attributes(const Recurrence& r) { return Json(Json::Object{{"reverse", Json(r.reverse)}}); }

}  // namespace

Value merged(const std::string& how, Value forward, Value backward, int axis) {
  if (how == "concat") return concatenate(std::array{forward, backward}, axis);
  if (how == "multiply") return forward * backward;
  return how == "mean" ? (forward + backward) * 0.5 : forward + backward;
}

RecurrentStates run_recurrence(LayerContext& context, const Recurrence& r) {
  const Config& options = context.options();
  const int64_t units = units_of(context), gates = gates_of(r.cell), state = output_size(context, r.cell);
  const Value z = input_products(context, r, units);
  const bool small = state * state <= kMostOrthogonal / (gates * units);
  const Value recurrent =
      parameter(context, r, "recurrent", Shape{state, gates * units}, ParameterRole::weight, state, units, small ? "orthogonal" : "xavier");
  Value bias_recurrent;
  if (r.cell == RecurrentCell::gru && options.boolean("bias") && options.choice("reset") == "after")
    bias_recurrent = parameter(context, r, "bias_recurrent", Shape{units}, ParameterRole::bias, state, units, 0.0);
  if (!runs_as_one_op(context, r.cell)) return run_steps(context, r, z, recurrent, bias_recurrent);
  Graph& graph = context.graph();
  Json attrs = direction_attributes(r);
  if (r.cell == RecurrentCell::lstm) {
    const Value operands[] = {z, recurrent, r.h0, r.c0, r.mask};
    const std::vector<Value> results = graph.apply_all("lstm", operands, std::move(attrs));
    return {results[0], step_of(results[1], r.reverse ? 0 : z.shape()[1] - 1)};
  }
  if (r.cell == RecurrentCell::gru) {
    attrs.set("reset", options.choice("reset"));
    const Value operands[] = {z, recurrent, bias_recurrent, r.h0, r.mask};
    return {graph.apply_all("gru", operands, std::move(attrs))[0], {}};
  }
  attrs.set("activation", name_option(context, "activation", "tanh"));
  const Value operands[] = {z, recurrent, r.h0, r.mask};
  return {graph.apply_all("rnn", operands, std::move(attrs))[0], {}};
}

namespace {

// The results of one layer of the stack: its states at all steps, and those after the last step.
struct Layer {
  Value all, last, last_c;
};

Layer run_layer(LayerContext& context, Recurrence r, const std::string& merge) {
  const int64_t steps = r.x.shape()[1];
  const RecurrentStates one = run_recurrence(context, r);
  const Value last = step_of(one.h, r.reverse ? 0 : steps - 1);
  if (merge.empty()) return {one.h, last, one.last_c};
  r.reverse = true;
  r.suffix += "_reverse";
  const RecurrentStates other = run_recurrence(context, r);
  return {merged(merge, one.h, other.h, 2), merged(merge, last, step_of(other.h, 0), 1), {}};
}

// The first states h and c are inputs 1 and 2.
void check_states(LayerContext& context, RecurrentCell cell, std::span<const Value> inputs, int64_t layers, const std::string& merge) {
  if (inputs.size() > 1 && (layers > 1 || !merge.empty()))
    context.fail("a first state is for one layer in one direction", "", "", "write the layers one by one");
  for (size_t i = 1; i < inputs.size(); ++i) {
    const Value state = inputs[i];
    const int64_t wanted = i == 1 ? output_size(context, cell) : units_of(context);
    if (state.rank() != 2 || state.shape()[1] != wanted)
      context.fail("the first state must be a row of units", example_text(state), std::to_string(wanted),
                   "a dense layer in front makes a row of that size");
  }
}

bool one_way(const Config& options) { return options.choice("bidirectional") == "none" && !options.boolean("reverse"); }

// Whether the job wants the state to go on from window to window.
bool states_carry(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  if (options.choice("state") == "zero") return false;
  if (!one_way(options))
    options.fail("state", "cannot go on for a layer that begins at the last step", "carry", "zero", "leave out reverse and bidirectional");
  if (inputs.size() > 1) options.fail("state", "cannot go on where the first states are inputs", "carry", "zero", "drop one of the two");
  return true;
}

// A session begins with the first state that it is given, and goes on from what it carries.
Value from(LayerContext& context, Value first, Value carried) {
  if (!first || !carried) return carried ? carried : first;
  const Value before = reshape(context.steps_before(), Shape{first.shape()[0], 1});
  return where(greater(before, context.graph().constant(0, {before.dtype(), Shape()})), carried, first);
}

// One layer of the stack, which goes on from its rows' states where they carry any.
Layer run_carrying(LayerContext& context, Recurrence r, const std::string& merge, bool stated) {
  const std::string h = "h" + r.suffix, c = "c" + r.suffix;
  const bool may = one_way(context.options()) && (!r.h0 || context.steps_before());
  const Value h0 = may ? context.carried(h, Shape{output_size(context, r.cell)}, stated) : Value();
  const Value c0 = may && r.cell == RecurrentCell::lstm ? context.carried(c, Shape{units_of(context)}, stated) : Value();
  r.h0 = from(context, r.h0, h0);
  r.c0 = from(context, r.c0, c0);
  const Layer layer = run_layer(context, r, merge);
  if (h0) context.carry_on(h, layer.last);
  if (c0) context.carry_on(c, layer.last_c);
  return layer;
}

}  // namespace

StepUse recurrent_step_use(const Config& options, std::span<const Value> inputs) {
  return one_way(options) && options.choice("returns") == "all" && inputs[0] &&
                 std::none_of(inputs.begin() + 1, inputs.end(), [](const Value& state) { return static_cast<bool>(state); })
             ? StepUse::each
             : StepUse::mixed;
}

std::vector<Value> build_recurrent(LayerContext& context, RecurrentCell cell, std::span<const Value> inputs) {
  const Config& options = context.options();
  require_steps(context, inputs[0]);
  const std::string both = options.choice("bidirectional"), merge = both == "none" ? "" : both, returns = options.choice("returns");
  const int64_t layers = options.integer("layers");
  const bool reverse = options.boolean("reverse");
  if (reverse && !merge.empty())
    options.fail("reverse", "has no meaning for a layer that goes both ways", "true", "", "drop one of the two");
  const bool states = returns == "state" || returns == "both";
  if (states && !merge.empty()) options.fail("returns", "asks a layer that goes both ways for its one last state", returns, "all or last");
  check_states(context, cell, inputs, layers, merge);
  const bool stated = states_carry(context, inputs);
  const Value mask = context.mask(inputs[0]);
  Layer layer{.all = steps_first(inputs[0]), .last = {}, .last_c = {}};
  for (int64_t l = 0; l < layers; ++l) {
    const std::string number = l == 0 ? "" : "_" + std::to_string(l + 1);
    Value x = layer.all;
    const double rate = options.number("stack_dropout");
    if (l > 0 && rate > 0 && context.training()) x = dropped(x, uniform_like(context, "stack" + number, x), rate);
    layer = run_carrying(context,
                         {.cell = cell,
                          .reverse = reverse,
                          .suffix = number,
                          .x = x,
                          .mask = mask,
                          .h0 = inputs.size() > 1 ? inputs[1] : Value(),
                          .c0 = inputs.size() > 2 ? inputs[2] : Value()},
                         merge, stated);
  }
  std::vector<Value> results;
  if (returns == "all" || returns == "both") results.push_back(features_first(masked_rows(layer.all, mask)));
  if (returns != "all") results.push_back(layer.last);
  if (states && layer.last_c) results.push_back(layer.last_c);
  for (const Value& result : results)
    if (result.rank() == 2) context.set_mask(result, {});  // as many units as there were steps are no steps
  return results;
}

}  // namespace perigee
