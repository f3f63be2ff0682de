#include "src/model/model.h"

#include <algorithm>
#include <charconv>

#include "src/graph/autodiff.h"
#include "src/graph/build.h"
#include "src/graph/passes/fuse_head.h"
#include "src/graph/passes/mixed_precision.h"
#include "src/graph/passes/passes.h"
#include "src/graph/passes/unroll_scan.h"
#include "src/model/steps/timed_fields.h"
#include "src/nn/loss.h"

namespace perigee {
namespace {

Type batched(const Type& type, int64_t batch) {
  std::vector<int64_t> dims = type.shape.vector();
  dims.insert(dims.begin(), batch);
  return {type.dtype, Shape(dims)};
}

Value named_output(Graph& graph, const std::string& name) {
  for (const NamedValue& output : graph.outputs())
    if (output.name == name) return Value(&graph, output.value);
  return {};
}

// [N], [N, T] or [N, d...] in a form that broadcasts to `rank` dimensions: the last one is the time.
Value spread(Value weights, int rank) {
  if (weights.rank() >= rank) return weights;
  const std::vector<int64_t> own = weights.shape().vector();
  std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
  dims[0] = own[0];
  for (size_t i = 1; i < own.size(); ++i) dims[dims.size() - own.size() + i] = own[i];
  return reshape(weights, Shape(dims));
}

Value product_of(Value a, Value b) {
  if (!a || !b) return a ? a : b;
  const int rank = std::max(a.rank(), b.rank());
  return spread(a, rank) * spread(b, rank);
}

struct Counting {
  Value steps;    // 1 where a step counts, 0 where it does not; empty: all do
  Value weights;  // of examples or steps; empty: all 1
};

Counting counting_of(Graph& graph, const ModelSpec& spec, const Json& loss, const NetworkInput& field, Value output, Value target) {
  Counting counting;
  const int64_t batch = output.shape()[0];
  for (const NetworkInput& role : spec.target_roles) {
    if (role.of != field.name) continue;
    const Value given = graph.input(role.name, batched(role.type, batch));
    if (role.role == FieldRole::weight)
      counting.weights = product_of(counting.weights, role.type.shape.elements() == 1 ? reshape(cast(given, output.dtype()), Shape{batch})
                                                                                      : cast(given, output.dtype()));
    else counting.steps = product_of(counting.steps, steps_mask(role.role, given, target.shape()[target.rank() - 1], output.dtype()));
  }
  if (const auto ignored = ignored_class(loss)) {
    Value differs = not_equal(target, graph.constant(static_cast<double>(*ignored), {target.dtype(), Shape()}));
    if (target.rank() == output.rank() && target.shape()[1] == 1) differs = reshape(differs, Shape{batch});
    const auto number = [&](double value) { return graph.constant(value, {output.dtype(), Shape()}); };
    counting.steps = product_of(counting.steps, where(differs, number(1), number(0)));
  }
  return counting;
}

// The sum of the weights of an example's positions, as StepWeights counts them: what a number of the whole example is multiplied by.
Value weight_of_example(Value weights, Value output, const NetworkInput& field) {
  if (!weights || weights.rank() == 1) return weights;
  std::vector<int64_t> axes;
  for (int i = 1; i < weights.rank(); ++i) axes.push_back(i);
  const Value sum = reduce_sum(weights, axes);
  const int64_t positions = field.type.shape.elements(), own = weights.shape().elements() / std::max<int64_t>(weights.shape()[0], 1);
  const bool labels = output.rank() == field.type.shape.rank() + 2;
  return labels && own > 0 && positions > own ? sum * static_cast<double>(positions / own) : sum;
}

// `counts`, when not null, gets what numbers of whole examples are multiplied by, or stays empty.
Value add_head(Graph& graph, const ModelSpec& spec, const Json& loss, const NetworkInput& field, Value output, Value mask, double weight,
               Value* counts = nullptr) {
  Value target = graph.input(field.name, batched(field.type, output.shape()[0]));
  const Counting counting = counting_of(graph, spec, loss, field, output, target);
  const Value weights = product_of(counting.steps, counting.weights);
  if (counts != nullptr) *counts = weight_of_example(weights, output, field);
  // In the padding there may be anything, such as a label that is no class.
  if (counting.steps)
    target = where(greater(spread(counting.steps, target.rank()), graph.constant(0, {output.dtype(), Shape()})), target,
                   graph.constant(0, {target.dtype(), Shape()}));
  const std::string place = spec.where + ": loss";
  if (mask && has_own_steps(loss) && (!weights || weights.rank() == 1)) {
    const Value steps = cast(reduce_sum(mask, {1}), Dtype::i64);
    const Value each = build_loss_of_steps(graph, loss, place, output, target, steps);
    const Value counted = weights ? each * weights : each;
    return weight == 1 ? counted : counted * weight;
  }
  const Value value =
      weights ? build_weighted_loss(graph, loss, place, output, target, weights) : build_loss(graph, loss, place, output, target);
  return weight == 1 ? value : value * weight;
}

// All heads, the main one first.
std::vector<LossHead> heads_of(const ModelSpec& spec) {
  std::vector<LossHead> heads = {
      {.output = spec.loss_output, .target = spec.target, .loss = spec.loss, .weight = spec.loss_weight, .schedule = spec.loss_schedule}};
  heads.insert(heads.end(), spec.more_heads.begin(), spec.more_heads.end());
  return heads;
}

// A head stands for an output of the network, which has a name where there are several.
LossFactor factor_of(const ModelSpec& spec, const LossHead& head) {
  const Json* names = spec.network.find("outputs");
  const std::string name = names != nullptr ? names->as_array().at(static_cast<size_t>(head.output)).as_string() : "output";
  return {
      .input = std::string(kLossFactor) + "loss." + name, .schedule = head.schedule, .where = spec.where + ": loss." + name + ": weight"};
}

Value add_head(Graph& graph, const ModelSpec& spec, const BuiltNetwork& built, const LossHead& head, double weight,
               Value* counts = nullptr) {
  const auto place = static_cast<size_t>(head.output);
  return add_head(graph, spec, head.loss, head.target, built.outputs.at(place), built.masks.at(place), weight, counts);
}

// In a step of training `steps`, weights that are schedules are inputs.
Value add_loss(Graph& graph, const ModelSpec& spec, const BuiltNetwork& built, bool steps = false) {
  graph.set_scope("loss");
  Value loss, counts;
  for (const LossHead& head : heads_of(spec)) {
    const bool scheduled = steps && !head.schedule.is_null();
    Value one = add_head(graph, spec, built, head, scheduled ? 1 : head.weight, loss ? nullptr : &counts);
    if (scheduled) one = one * graph.input(factor_of(spec, head).input, one.type());
    loss = loss ? loss + one : one;
  }
  for (const Value& term : built.losses) loss = loss + (counts ? term * counts : term);
  graph.set_scope("");
  return loss;
}

// The loss of one head, without its weight.
Value add_loss_of(Graph& graph, const ModelSpec& spec, const BuiltNetwork& built, size_t head) {
  graph.set_scope("loss");
  const Value loss = add_head(graph, spec, built, heads_of(spec).at(head), 1);
  graph.set_scope("");
  return loss;
}

// Which of the network's outputs comes in a place, when the one that the target belongs to is in front.
int output_in_place(const ModelSpec& spec, size_t place) {
  if (place == 0) return spec.loss_output;
  return static_cast<int>(place) == spec.loss_output ? 0 : static_cast<int>(place);
}

// The loss of one of the network's outputs, or null.
const Json& loss_of(const ModelSpec& spec, int output) {
  static const Json kNone;
  if (output == spec.loss_output) return spec.loss;
  for (const LossHead& head : spec.more_heads)
    if (head.output == output) return head.loss;
  return kNone;
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

PlanSet::PlanSet(const Model& model, Kind kind, Backend backend, const Tuning* tuning, std::vector<std::string> layers)
    : model_(model), kind_(kind), backend_(backend), tuning_(tuning), layers_(std::move(layers)) {
  slices_ = analyze_slices(graph_of(2));
}

Graph PlanSet::graph_of(ShapeKey key) const {
  if (kind_ == Kind::training) return model_.training_graph(key.batch, backend_, carry_, key.steps);
  return model_.inference_graph(key.batch, kind_ == Kind::inference_with_loss, backend_, layers_, carry_, key.steps);
}

std::vector<RowGradient> PlanSet::row_gradients() const { return perigee::row_gradients(graph_of(2)); }

void PlanSet::set_recompute(const RecomputeOptions& options, size_t room) {
  recompute_ = options.mode;
  room_ = room;
  scopes_ = options.scopes(model_.layers(), model_.spec().where);
}

RecomputeChoice PlanSet::choice(ShapeKey key) {
  std::promise<RecomputeChoice> promise;
  uint64_t number = 0;
  {
    std::unique_lock lock(mutex_);
    if (const Entry* known = plans_.find(key)) {
      const std::shared_future<RecomputeChoice> made = known->made;
      lock.unlock();
      return made.get();
    }
    number = ++compilations_;
    plans_.insert(key, {promise.get_future().share(), number});
  }
  try {
    RecomputeChoice made = compile(key);
    promise.set_value(made);
    return made;
  } catch (...) {
    promise.set_exception(std::current_exception());
    const std::lock_guard lock(mutex_);
    if (const Entry* known = plans_.find(key); known != nullptr && known->number == number) plans_.erase(key);
    throw;
  }
}

RecomputeChoice PlanSet::compile(ShapeKey key) const {
  const Graph graph = graph_of(key);
  const PlanOptions options{.backend = backend_,
                            .external_outputs = gradient_outputs(graph),
                            .kept = kept_,
                            .halves = backend_ == Backend::cuda ? model_.spec().half : std::nullopt,
                            .tuning = tuning_};
  return choose_recompute(graph, options, recompute_, room_, scopes_);
}

void PlanSet::drop(ShapeKey key) {
  const std::lock_guard lock(mutex_);
  plans_.erase(key);
}

PlanMemory::PlanMemory(PlanSet& plans, Params& params, std::byte* gradient, bool check)
    : plans_(plans), params_(params), gradient_(gradient), check_(check) {}

PlanRun& PlanMemory::at(ShapeKey key) {
  if (const auto* known = runs_.find(key)) return **known;
  auto plan = plans_.plan(key);
  if (plan->arena_bytes() > plans_.room())
    throw Error(ErrorKind::resources,
                {.where = plans_.model().spec().where + ": memory_limit",
                 .what = "the activations of " + std::to_string(key.batch) + " examples at a time take more memory than is left",
                 .got = std::to_string(plan->arena_bytes()) + " bytes in each thread",
                 .expected = "at most " + std::to_string(plans_.room()),
                 .hint = "recompute = \"auto\", a smaller batch, fewer threads, or a higher limit"});
  if (!arena_ || arena_->bytes() < plan->arena_bytes()) {
    runs_.clear();  // they point into the smaller arena
    arena_ = std::make_unique<Storage>(plan->arena_bytes());
  }
  std::vector<void*> parameters, states, outputs;
  for (const std::string& name : plan->parameters()) parameters.push_back(params_.parameter(params_.find(name)));
  for (const std::string& name : plan->states()) states.push_back(params_.state(params_.find_state(name)));
  for (const std::string& name : plan->external_outputs())
    outputs.push_back(gradient_ + params_.parameter_offset(params_.find(name.substr(5))));
  auto run = std::make_unique<PlanRun>(plan, PlanRun::Memory{arena_->data(), parameters, states, outputs});
  if (check_) run->enable_check();
  return *runs_.insert(key, std::move(run));
}

size_t PlanMemory::bytes() const {
  size_t sum = arena_ ? arena_->bytes() : 0;
  runs_.for_each([&](ShapeKey, const std::unique_ptr<PlanRun>& run) { sum += run->plan().packed_bytes(); });
  return sum;
}

}  // namespace perigee
