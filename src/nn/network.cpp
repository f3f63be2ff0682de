#include "src/nn/network.h"

#include <algorithm>
#include <map>

#include "kernels/dtype_kinds.h"
#include "src/core/known_hint.h"
#include "src/graph/op.h"
#include "src/nn/describe.h"
#include "src/nn/layer_build.h"
#include "src/nn/noise.h"

namespace perigee {
namespace {

// "x", "z": as a script writes them.
std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return text;
}

Shape without_batch(const Shape& shape) {
  std::vector<int64_t> dims = shape.vector();
  if (!dims.empty()) dims.erase(dims.begin());
  return Shape(dims);
}

std::string count_text(int low, int high) {
  if (high < 0) return std::to_string(low) + " or more";
  return low == high ? std::to_string(low) : std::to_string(low) + " to " + std::to_string(high);
}

// Steps are carried along where the time axis is still there. What a layer inside has decided stays.
void carry_masks(NetworkBuild& build, std::span<const Value> inputs, std::span<const Value> outputs) {
  const auto carry = [&](Value steps, std::map<ValueId, Value>& into) {
    for (const Value& output : outputs) {
      if (!steps) continue;
      const Shape& shape = output.shape();
      const bool kept = shape.rank() >= 2 && shape[0] == steps.shape()[0] && shape[shape.rank() - 1] == steps.shape()[1];
      into.try_emplace(output.id(), kept ? steps : Value());
    }
  };
  if (inputs.empty()) return;
  carry(build.mask(inputs[0]), build.masks);
  carry(build.segments_of(inputs[0]), build.segments);
}

// An embedding takes one index of an example for no list of them. In a session it is a list of one step.
std::vector<Value> with_steps(std::span<const Value> inputs, std::vector<Value> outputs) {
  if (inputs.size() != 1 || is_floating(inputs[0].dtype()) || inputs[0].rank() != 2) return outputs;
  for (Value& y : outputs)
    if (is_floating(y.dtype()) && y.rank() == 2) y = reshape(y, Shape{y.shape()[0], y.shape()[1], 1});
  return outputs;
}

std::vector<Value> build_graph(NetworkBuild& build, const Json& description, const LayerPlace& place, std::span<const Value> inputs) {
  const GraphText text = read_graph(description, place.where, place.inside);
  if (text.inputs.size() != inputs.size())
    throw Error(ErrorKind::model, {.where = place.where,
                                   .what = "a graph network gets another number of inputs than it names",
                                   .got = std::to_string(inputs.size()),
                                   .expected = std::to_string(text.inputs.size())});
  std::map<std::string, std::vector<Value>> known;
  for (size_t i = 0; i < inputs.size(); ++i) known[text.inputs[i]] = {inputs[i]};
  const auto take = [&](const std::string& reference, const std::string& where, std::vector<Value>& into) {
    const auto [name, output] = node_reference(reference);
    const std::vector<Value>& values = known.at(name);
    if (output >= static_cast<int>(values.size()))
      throw Error(ErrorKind::model, {.where = where,
                                     .what = "'" + name + "' has no output " + std::to_string(output),
                                     .got = "'" + reference + "'",
                                     .expected = "0 to " + std::to_string(values.size() - 1)});
    if (output >= 0) into.push_back(values[static_cast<size_t>(output)]);
    else into.insert(into.end(), values.begin(), values.end());
  };
  for (const NodeText& node : text.nodes) {
    std::vector<Value> operands;
    for (const std::string& input : node.inputs) take(input, node.layer.where(), operands);
    known[node.layer.name] = build_layer(build, node.layer, place, operands);
  }
  std::vector<Value> outputs;
  for (const std::string& output : text.outputs) take(output, place.where, outputs);
  return outputs;
}

}  // namespace

std::vector<Value> build_layer(NetworkBuild& build, const LayerText& text, const LayerPlace& around, std::span<const Value> inputs) {
  const LayerDef& def = *text.def;
  LayerPlace place = around;
  place.fixed = build.options.carry == Carry::all && std::ranges::none_of(inputs, [&](Value input) { return build.by_step(input); });
  const int given = static_cast<int>(inputs.size());
  const std::string outer_scope = build.graph.scope();
  build.graph.set_scope(text.scope);
  const size_t index = build.result.layers.size();
  build.result.layers.push_back(
      {.name = place.name + text.name, .type = def.name, .scope = text.scope, .first_node = static_cast<int>(build.graph.nodes().size())});
  LayerBuild context(build, text, place, build.result.layers.back());
  if (given < def.min_inputs || (def.max_inputs >= 0 && given > def.max_inputs))
    context.fail("has the wrong number of inputs", std::to_string(given), count_text(def.min_inputs, def.max_inputs),
                 given > def.max_inputs ? "join them with concat, add, ... first" : "");
  std::vector<Value> outputs;
  try {
    std::vector<Value> values;
    for (const Value& input : inputs)
      values.push_back(def.any_dtype || is_floating(input.dtype()) ? input : cast(input, build.options.dtype));
    if (build.options.training)
      for (size_t i = 0; i < values.size(); ++i) values[i] = drop_input(context, values[i], i);
    for (size_t i = 0; i < values.size(); ++i) build.follow(inputs[i], values[i]);
    const bool by_step = build.options.carry == Carry::all && !place.folded && !place.fixed;
    if (by_step) context.check_steps(values);
    outputs = def.build(context, values);
    if (by_step) outputs = with_steps(values, outputs);
    carry_masks(build, values, outputs);
    context.check_segments(values);
    context.check_parameter_options();
  } catch (const Error& error) {
    // An op names the graph's scope, a layer its full position.
    if (error.parts().where.starts_with(text.scope) && !text.at.empty()) throw error.within(text.at);
    if (error.parts().where.empty()) throw error.within(text.where());
    throw;
  }
  LayerReport& report = build.result.layers[index];
  report.last_node = static_cast<int>(build.graph.nodes().size());
  for (const Value& output : outputs) report.outputs.push_back(without_batch(output.shape()));
  build.result.layer_outputs.resize(build.result.layers.size());
  build.result.layer_outputs[index] = outputs;
  build.graph.set_scope(outer_scope);
  return outputs;
}

std::vector<Value> build_network(NetworkBuild& build, const Json& description, const LayerPlace& outer, std::span<const Value> inputs) {
  LayerPlace place = outer;
  if (Json defaults = read_defaults(description, place.where); !defaults.is_null()) {
    if (place.defaults.is_null()) place.defaults = Json::object();
    for (const auto& [key, value] : defaults.as_object()) place.defaults.set(key, value);
  }
  if (is_graph(description)) return build_graph(build, description, place, inputs);
  std::vector<Value> values(inputs.begin(), inputs.end());
  for (const LayerText& text : read_sequence(description, place.where, place.inside)) values = build_layer(build, text, place, values);
  return values;
}

Network::Network(const Json& description, std::string where) : description_(description), where_(std::move(where)) {
  read_defaults(description_, where_);
  if (is_graph(description_)) read_graph(description_, where_, "");
  else read_sequence(description_, where_, "");
}

std::vector<std::string> Network::input_names() const {
  return is_graph(description_) ? read_graph(description_, where_, "").inputs : std::vector<std::string>{};
}

std::vector<std::string> Network::output_names() const {
  return is_graph(description_) ? read_graph(description_, where_, "").outputs : std::vector<std::string>{};
}

Value steps_mask(FieldRole role, Value given, int64_t steps, Dtype dtype) {
  Graph& graph = given.graph();
  const Value zero = graph.constant(0, {dtype, Shape()}), one = graph.constant(1, {dtype, Shape()});
  if (role == FieldRole::mask) return where(not_equal(cast(given, dtype), zero), one, zero);
  std::vector<double> numbers(static_cast<size_t>(steps));
  for (size_t t = 0; t < numbers.size(); ++t) numbers[t] = static_cast<double>(t);
  const Value index = graph.constant(Tensor::from(Shape{1, steps}, numbers).to(dtype));
  return where(greater(reshape(cast(given, dtype), Shape{given.shape()[0], 1}), index), one, zero);
}

BuiltNetwork Network::build(Graph& graph, const std::vector<NetworkInput>& inputs, const BuildOptions& options) const {
  BuiltNetwork result;
  std::map<std::string, Value> by_name;
  std::vector<Value> operands;
  NetworkBuild build{.graph = graph, .options = options, .result = result, .owners = {}, .states = {}, .assigned = {}};
  for (const NetworkInput& input : inputs) {
    std::vector<int64_t> dims = input.type.shape.vector();
    dims.insert(dims.begin(), options.batch);
    result.inputs.push_back(graph.input(input.name, {input.type.dtype, Shape(dims)}));
    if (input.role != FieldRole::none) continue;
    operands.push_back(is_floating(input.type.dtype) ? cast(result.inputs.back(), options.dtype) : result.inputs.back());
    by_name[input.name] = operands.back();
  }
  const auto plain = std::ranges::count(inputs, FieldRole::none, &NetworkInput::role);
  for (const NetworkInput& input : inputs) {  // a session reads the one that has one step
    const NetworkInput& of = input.role == FieldRole::none ? input : *std::ranges::find(inputs, input.of, &NetworkInput::name);
    if (plain > 1 && (of.type.shape.rank() == 0 || of.type.shape.at(-1) != 1)) build.fixed.insert(input.name);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].role == FieldRole::none) continue;
    const Value of = by_name.at(inputs[i].of);
    if (inputs[i].role == FieldRole::segment) {
      build.segments[of.id()] = cast(result.inputs[i], options.dtype);
      continue;
    }
    const Value mask = steps_mask(inputs[i].role, result.inputs[i], of.shape()[of.rank() - 1], options.dtype);
    const Value before = build.mask(of);
    build.masks[of.id()] = before ? before * mask : mask;
  }
  for (const NetworkInput& input : inputs)
    if (input.role == FieldRole::none)
      if (const Value mask = build.mask(by_name.at(input.name))) result.input_masks.emplace_back(input.name, mask);
  // A graph names its inputs; their order in the data does not matter.
  if (const std::vector<std::string> names = input_names(); !names.empty()) {
    operands.clear();
    std::vector<std::string> known;
    for (const NetworkInput& input : inputs)
      if (input.role == FieldRole::none) known.push_back(input.name);
    for (const std::string& name : names) {
      const std::string hint = by_name.contains(name) ? "" : nearest_hint(name, known);
      if (!by_name.contains(name))
        throw Error(ErrorKind::model, {.where = input_place(description_, name, where_),
                                       .what = "'" + name + "', which the network takes as input, is not among the job's inputs",
                                       .got = quoted(known),
                                       .hint = hint.empty() ? "write inputs = { " + quoted(names) + " } in the job" : hint});
      operands.push_back(by_name.at(name));
    }
  }
  result.outputs = build_network(build, description_, {.where = where_}, operands);
  for (const Value& output : result.outputs) result.masks.push_back(build.mask(output));
  for (const std::string& name : build.assigned) graph.assign(name, build.states.at(name));
  return result;
}

}  // namespace perigee
