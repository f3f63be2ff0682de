#include "src/model/model.h"

#include <algorithm>
#include <charconv>

#include "src/graph/autodiff.h"
#include "src/graph/build.h"
#include "src/graph/passes/fuse_head.h"
#include "src/graph/passes/mixed_precision.h"
#include "src/graph/passes/passes.h"
#include "src/graph/passes/unroll_scan.h"
#include "src/model/losses/training_loss.h"
#include "src/model/steps/timed_fields.h"
#include "src/nn/loss.h"

namespace perigee {
namespace {

Value named_output(Graph& graph, const std::string& name) {
  for (const NamedValue& output : graph.outputs())
    if (output.name == name) return Value(&graph, output.value);
  return {};
}

// Which of the network's outputs comes in a place, when the one that the target belongs to is in front.
int output_in_place(const ModelSpec& spec, size_t place) {
  if (place == 0) return spec.loss_output;
  return static_cast<int>(place) == spec.loss_output ? 0 : static_cast<int>(place);
}

// "parts:1": the layer and which of its outputs, -1 where it does not say.
std::pair<std::string, int> layer_reference(const std::string& name) {
  const size_t colon = name.rfind(':');
  int number = -1;
  if (colon == std::string::npos) return {name, number};
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + colon + 1, end, number);
  if (error != std::errc() || stop != end || number < 0) return {name, -1};
  return {name.substr(0, colon), number};
}

// Its place among the layers, and which output. Error(usage).
std::pair<size_t, size_t> find_layer(const std::vector<LayerReport>& layers, const std::string& reference) {
  const auto [name, number] = layer_reference(reference);
  std::vector<std::string> known;
  for (size_t i = 0; i < layers.size(); ++i) {
    known.push_back(layers[i].name);
    if (layers[i].name != name) continue;
    const size_t count = layers[i].outputs.size();
    if (number < 0 ? count == 1 : static_cast<size_t>(number) < count) return {i, static_cast<size_t>(std::max(number, 0))};
    throw Error(ErrorKind::usage, {.where = "layer '" + name + "'",
                                   .what = "has " + std::to_string(count) + " outputs",
                                   .got = "'" + reference + "'",
                                   .expected = "'" + name + ":0' to '" + name + ":" + std::to_string(count - 1) + "'"});
  }
  std::string listed;
  for (const std::string& each : known) listed += (listed.empty() ? "" : ", ") + each;
  throw Error(ErrorKind::usage, {.where = "layer '" + reference + "'",
                                 .what = "the network has no layer of this name",
                                 .expected = "one of: " + listed,
                                 .hint = nearest_hint(reference, known)});
}

std::vector<int> loss_outputs(const ModelSpec& spec) {
  std::vector<int> outputs = {spec.loss_output};
  for (const LossHead& head : spec.more_heads) outputs.push_back(head.output);
  return outputs;
}

// The outputs with the one that the target belongs to in front.
std::vector<Value> main_output_first(const ModelSpec& spec, std::vector<Value> outputs) {
  for (int output : loss_outputs(spec))
    if (output < 0 || static_cast<size_t>(output) >= outputs.size())
      throw Error(ErrorKind::model, {.where = spec.where + ": loss",
                                     .what = "is of an output that the network does not have",
                                     .got = "output " + std::to_string(output + 1),
                                     .expected = std::to_string(outputs.size()) + " outputs"});
  if (spec.loss_output > 0) std::swap(outputs.at(0), outputs.at(static_cast<size_t>(spec.loss_output)));
  return outputs;
}

// A layer whose sizes go by how many examples there are: the model was made for two of them, and its numbers would not be enough.
void check_sizes(const BuiltNetwork& built, const Params& params, int64_t batch, const std::string& where) {
  for (const ParameterSpec& spec : built.parameters) {
    const int index = params.find(spec.name);
    const Shape& kept = params.specs()[static_cast<size_t>(index)].shape;
    if (spec.shape != kept)
      throw Error(ErrorKind::model, {.where = where,
                                     .what = "the shape of '" + spec.name + "' goes by the number of examples in a batch",
                                     .got = spec.shape.text() + " with " + std::to_string(batch) + ", " + kept.text() + " with 2",
                                     .expected = "one shape for all",
                                     .hint = "keep the batch, which is axis 1 of a traced function, apart from the others"});
  }
}

// A target whose steps are those of an input counts as the input does, where the network has kept its time axis.
void inherit_masks(const BuiltNetwork& built, ModelSpec* spec) {
  const auto inherit = [&](const NetworkInput& target, const Json& loss, int output) {
    if (has_own_steps(loss)) return;
    const Value mask = built.masks.at(static_cast<size_t>(output));
    const Shape& shape = target.type.shape;
    if (!mask || shape.rank() == 0 || shape[shape.rank() - 1] != mask.shape()[1]) return;
    for (const NetworkInput& role : spec->target_roles)
      if (role.of == target.name && role.role != FieldRole::weight) return;
    const auto found =
        std::find_if(built.input_masks.begin(), built.input_masks.end(), [&](const auto& each) { return each.second.id() == mask.id(); });
    if (found == built.input_masks.end())
      throw Error(ErrorKind::model, {.where = spec->where + ": loss",
                                     .what = "the steps of '" + target.name + "' are not those of an input, so nothing says which count",
                                     .hint = "give it a field of its own: data = { lengths = { " + target.name + " = \"...\" } }"});
    for (const NetworkInput& input : std::vector<NetworkInput>(spec->inputs))
      if ((input.role == FieldRole::length || input.role == FieldRole::mask) && input.of == found->first)
        spec->target_roles.push_back({.name = input.name, .type = input.type, .role = input.role, .of = target.name});
  };
  inherit(spec->target, spec->loss, spec->loss_output);
  for (const LossHead& head : spec->more_heads) inherit(head.target, head.loss, head.output);
}

// Without a loss of the outputs and without terms of layers nothing would be trained, and nobody would say so.
void refuse_empty_loss(const ModelSpec& spec, const BuiltNetwork& built) {
  const auto none = [](const Json& loss) { return loss == Json("none") || (loss.is_object() && *loss.find("type") == Json("none")); };
  if (!built.losses.empty() || !none(spec.loss)) return;
  if (!std::all_of(spec.more_heads.begin(), spec.more_heads.end(), [&](const LossHead& head) { return none(head.loss); })) return;
  throw Error(ErrorKind::model, {.where = spec.where + ": loss",
                                 .what = "'none' counts only what layers add to the loss, and no layer of this network adds anything",
                                 .hint = "take a loss of the outputs, such as mse, or a layer such as vae or rbm"});
}

int64_t steps_at_once(const std::vector<NetworkInput>& inputs) {
  const Shape& shape = inputs[0].type.shape;
  return shape.rank() > 0 ? shape[shape.rank() - 1] : 0;
}

std::vector<NetworkInput> model_of_one_step(std::vector<NetworkInput> inputs, int stepped) {
  Shape& shape = inputs.at(static_cast<size_t>(stepped)).type.shape;
  shape = shape.with(shape.rank() - 1, 1);
  return inputs;
}

}  // namespace

std::vector<NetworkInput> fields_of(const ModelSpec& spec, bool with_loss) {
  std::vector<NetworkInput> fields = spec.inputs;
  if (!with_loss) return fields;
  fields.push_back(spec.target);
  for (const LossHead& head : spec.more_heads) fields.push_back(head.target);
  for (const NetworkInput& role : spec.target_roles)
    if (std::none_of(fields.begin(), fields.end(), [&](const NetworkInput& field) { return field.name == role.name; }))
      fields.push_back(role);
  return fields;
}

Model::Model(ModelSpec spec) : spec_(std::move(spec)), network_(spec_.network, spec_.where) {
  Graph graph;
  BuiltNetwork built = network_.build(graph, spec_.inputs, {.batch = 2, .training = true, .dtype = spec_.dtype, .freeze = spec_.freeze});
  layers_ = built.layers;
  carried_ = built.carried;
  for (const Value& output : main_output_first(spec_, built.outputs)) {
    std::vector<int64_t> dims = output.shape().vector();
    dims.erase(dims.begin());
    output_types_.push_back({output.dtype(), Shape(dims)});
  }
  main_output_ends_ = static_cast<bool>(built.masks.at(static_cast<size_t>(spec_.loss_output)));
  if (!spec_.loss.is_null()) {
    try {
      link_ = link_of_loss(spec_.loss);
    } catch (const Error& error) {
      throw error.within(spec_.where + ": loss");
    }
    if (!spec_.target.name.empty()) {
      inherit_masks(built, &spec_);
      refuse_empty_loss(spec_, built);
      add_loss(graph, spec_, built);
      for (const LossHead& head : heads_of(spec_))
        if (!head.schedule.is_null()) factors_.push_back(factor_of(spec_, head));
    }
  }
  factors_.insert(factors_.end(), built.factors.begin(), built.factors.end());
  choosing_ = choosing_inputs(graph);
  for (const auto& values : built.layer_outputs) {
    std::vector<Type>& types = layer_types_.emplace_back();
    for (const Value& value : values) types.push_back(value.type());
  }
  params_ = Params(std::move(built.parameters), std::move(built.states), spec_.dtype);
}

bool Model::fits(int64_t steps) const {
  const ModelSpec spec = with_steps(spec_, steps);
  try {
    Graph graph;
    const BuiltNetwork built =
        network_.build(graph, spec.inputs,
                       {.batch = 2, .training = true, .dtype = spec.dtype, .freeze = spec.freeze, .window = steps_at_once(spec_.inputs)});
    add_loss(graph, spec, built);
    return std::equal(built.parameters.begin(), built.parameters.end(), params_.specs().begin(), params_.specs().end(),
                      [](const ParameterSpec& a, const ParameterSpec& b) { return a.name == b.name && a.shape == b.shape; });
  } catch (const Error&) {
    return false;
  }
}

namespace {

// The reference computes gelu op by op; what is half as wide or twice as wide has no product of its own on the host.
GeluIn gelu_in(const ModelSpec& spec, Backend backend, GeluIn product) {
  const bool fast = backend == Backend::cuda || (backend == Backend::cpu && !spec.half && spec.dtype == Dtype::f32);
  return fast ? product : GeluIn::elementwise;
}

}  // namespace

Graph Model::training_graph(int64_t batch, Backend backend, Carry carry, int64_t steps) const {
  const ModelSpec spec = steps > 0 ? with_steps(spec_, steps) : spec_;
  Graph forward;
  const BuiltNetwork built = network_.build(forward, spec.inputs,
                                            {.batch = batch,
                                             .training = true,
                                             .dtype = spec.dtype,
                                             .freeze = spec.freeze,
                                             .carry = carry,
                                             .window = steps > 0 ? steps_at_once(spec_.inputs) : 0});
  check_sizes(built, params_, batch, spec_.where);
  forward.output("output", main_output_first(spec, built.outputs).at(0));
  forward.output("loss", add_loss(forward, spec, built, true));
  if (backend == Backend::cuda) forward = unroll_scans(forward);
  Graph graph = fuse_forward(forward, gelu_in(spec, backend, GeluIn::product_for_gradients));
  if (spec_.half) graph = mixed_precision(graph, *spec_.half);
  const Value loss = named_output(graph, "loss");
  std::vector<Value> targets;
  std::vector<std::string> names;
  for (const ParamWindow& window : params_.windows()) {
    if (!window.trainable) continue;
    for (const Leaf& leaf : graph.leaves())
      if (leaf.kind == LeafKind::parameter && leaf.name == window.name) {
        targets.push_back(Value(&graph, leaf.value));
        names.push_back(window.name);
      }
  }
  // Gradients in f16 have the range of f16: they begin with the loss scale.
  const Value seed = spec_.half == Dtype::f16 ? graph.input(kLossSeed, loss.type()) : ones_like(loss);
  const std::vector<Value> grads = [&] {
    try {
      return gradients(graph, loss, seed, targets);
    } catch (const Error& error) {  // which names the layer
      throw error.within(spec_.where);
    }
  }();
  for (size_t i = 0; i < grads.size(); ++i)
    if (grads[i]) graph.output("grad:" + names[i], grads[i]);
  graph = fuse_backward(graph);
  return backend == Backend::cuda ? fuse_head(std::move(graph)) : graph;
}

std::vector<ModelOutput> Model::outputs() const {
  const std::vector<std::string> names = network_.output_names();
  std::vector<ModelOutput> outputs;
  for (size_t place = 0; place < output_types_.size(); ++place) {
    const auto output = static_cast<size_t>(output_in_place(spec_, place));
    ModelOutput each{.name = place == 0 ? "output" : "output" + std::to_string(place + 1), .type = output_types_[place]};
    each.plan = place == 0 ? "output" : "output" + std::to_string(place);
    if (output < names.size()) each.name = names[output];
    if (const Json& loss = loss_of(spec_, static_cast<int>(output)); !loss.is_null()) each.link = link_of_loss(loss);
    each.label = place == 0 && spec_.classes > 0;
    for (const LossHead& head : spec_.more_heads)
      if (place > 0 && head.output == static_cast<int>(output)) {
        each.label = !each.link.empty() && head.target.type.dtype == Dtype::i64 && head.target.type.shape.rank() == 0;
        each.class_names = head.class_names;
      }
    outputs.push_back(std::move(each));
  }
  return outputs;
}

ModelOutput Model::layer_output(const std::string& name) const {
  const auto [layer, number] = find_layer(layers_, name);
  const Type& type = layer_types_[layer][number];
  std::vector<int64_t> dims = type.shape.vector();
  if (dims.empty() || dims[0] != 2)
    throw Error(ErrorKind::usage, {.where = "layer '" + name + "'",
                                   .what = "its output does not belong to one example each",
                                   .got = type.shape.text() + " for two examples"});
  dims.erase(dims.begin());
  return {.name = name, .plan = "layer:" + name, .type = {type.dtype, Shape(dims)}, .link = ""};
}

ModelOutput Model::steps_output() const {
  return {.name = kOutputSteps, .plan = std::string("layer:") + kOutputSteps, .type = {Dtype::i64, Shape()}, .link = ""};
}

ModelOutput Model::head_loss(size_t head) const {
  const std::string name = kHeadLoss + std::to_string(head);
  return {.name = name, .plan = "layer:" + name, .type = {spec_.dtype, Shape()}, .link = ""};
}

Graph Model::inference_graph(int64_t batch, bool with_loss, Backend backend, std::span<const std::string> layers, Carry carry,
                             int64_t steps) const {
  const ModelSpec spec = steps > 0 ? with_steps(spec_, steps) : spec_;
  Graph graph;
  const int stepped = carry == Carry::all ? std::max(stepped_input(spec, output_types_[0].shape), 0) : 0;
  const std::vector<NetworkInput> inputs = carry == Carry::all ? model_of_one_step(spec.inputs, stepped) : spec.inputs;
  const BuiltNetwork built =
      network_.build(graph, inputs,
                     {.batch = batch,
                      .training = false,
                      .dtype = spec_.dtype,
                      .carry = carry,
                      .window = carry == Carry::all || steps > 0 ? steps_at_once({spec_.inputs[static_cast<size_t>(stepped)]}) : 0});
  check_sizes(built, params_, batch, spec_.where);
  const std::vector<Value> outputs = main_output_first(spec_, built.outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    Value output = outputs[i];
    if (const Json& loss = loss_of(spec_, output_in_place(spec_, i)); !loss.is_null()) output = linked_output(loss, output);
    graph.output(i == 0 ? "output" : "output" + std::to_string(i), output);
  }
  for (const std::string& name : layers) {
    if (name == kUnlinkedOutput) {
      graph.output("layer:" + name, outputs[0]);
      continue;
    }
    if (name == kOutputSteps) {
      graph.output("layer:" + name, cast(reduce_sum(built.masks.at(static_cast<size_t>(spec_.loss_output)), {1}), Dtype::i64));
      continue;
    }
    if (name.starts_with(kHeadLoss)) {
      graph.output("layer:" + name,
                   add_loss_of(graph, spec, built, static_cast<size_t>(std::stoul(name.substr(std::string_view(kHeadLoss).size())))));
      continue;
    }
    const auto [layer, number] = find_layer(built.layers, name);
    graph.output("layer:" + name, built.layer_outputs[layer][number]);
  }
  if (with_loss) graph.output("loss", add_loss(graph, spec, built));
  if (backend == Backend::cuda) graph = unroll_scans(graph);
  const Graph fused = fuse_forward(graph, gelu_in(spec, backend, GeluIn::product));
  return fuse_backward(spec_.half ? mixed_precision(fused, *spec_.half) : fused);
}

std::vector<std::string> gradient_outputs(const Graph& graph) {
  std::vector<std::string> names;
  for (const NamedValue& output : graph.outputs())
    if (output.name.starts_with("grad:")) names.push_back(output.name);
  return names;
}

}  // namespace perigee
