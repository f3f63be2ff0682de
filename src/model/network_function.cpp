#include "src/model/network_function.h"

#include "src/nn/loss.h"

namespace perigee {
namespace {

Type without_batch(const Type& type) {
  std::vector<int64_t> dims = type.shape.vector();
  if (!dims.empty()) dims.erase(dims.begin());
  return {type.dtype, Shape(dims)};
}

}  // namespace

NetworkFunction::NetworkFunction(Json network, std::vector<NetworkInput> inputs, uint64_t seed, const std::string& where) {
  ModelSpec spec;
  spec.network = std::move(network);
  spec.inputs = std::move(inputs);
  spec.where = where;
  loaded_.model = std::make_unique<Model>(std::move(spec));
  loaded_.model->params().initialize(seed);
  name_outputs();
}

NetworkFunction::NetworkFunction(const std::string& path) : loaded_(load_model(path)) { name_outputs(); }

void NetworkFunction::name_outputs() {
  const ModelSpec& spec = loaded_.model->spec();
  network_ = std::make_unique<Network>(spec.network, spec.where);
  const Json* names = spec.network.find("outputs");
  for (size_t i = 0; i < loaded_.model->output_types().size(); ++i) {
    const bool named = names && names->is_array() && i < names->as_array().size() && names->as_array()[i].is_string();
    outputs_.push_back(named ? names->as_array()[i].as_string() : i == 0 ? "output" : "output" + std::to_string(i));
  }
}

std::shared_ptr<StepModel> NetworkFunction::step_model(int64_t rows) { return StepModel::shared(step_, *loaded_.model, rows); }

Value NetworkFunction::linked_value(Value output, int index) const {
  const ModelSpec& spec = loaded_.model->spec();
  if (index == spec.loss_output && !spec.loss.is_null()) return linked_output(spec.loss, output);
  for (const LossHead& head : spec.more_heads)
    if (head.output == index) return linked_output(head.loss, output);
  return output;
}

std::vector<int> NetworkFunction::record(Recorder& recorder, std::span<const int> inputs, std::span<const int> parameters, bool linked) {
  const ModelSpec& spec = loaded_.model->spec();
  const std::string where = spec.where.empty() ? "network" : spec.where;
  if (inputs.size() != spec.inputs.size())
    throw Error(ErrorKind::usage, {.where = where,
                                   .what = "the network takes another number of tensors",
                                   .got = std::to_string(inputs.size()),
                                   .expected = std::to_string(spec.inputs.size())});
  int64_t batch = -1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type& given = recorder.type(inputs[i]);
    const bool fits = given.shape.rank() > 0 && without_batch(given).shape == spec.inputs[i].type.shape;
    if (!fits || (batch >= 0 && given.shape[0] != batch))
      throw Error(ErrorKind::usage, {.where = where,
                                     .what = "input '" + spec.inputs[i].name + "' does not fit",
                                     .got = given.text(),
                                     .expected = std::string(fits ? "as many examples as the others, " : "examples, ") +
                                                 (spec.inputs[i].type.shape.rank() > 0 ? "each " : "each a ") + spec.inputs[i].type.text(),
                                     .hint = given.shape == spec.inputs[i].type.shape
                                                 ? "the first axis counts the examples: x:unsqueeze(1) is one example as a batch"
                                                 : ""});
    batch = given.shape[0];
  }
  Params& params = loaded_.model->params();
  if (!parameters.empty() && parameters.size() != params.specs().size())
    throw Error(ErrorKind::usage, {.where = where,
                                   .what = "these are not the network's parameters",
                                   .got = std::to_string(parameters.size()),
                                   .expected = std::to_string(params.specs().size())});
  Graph graph;
  const BuiltNetwork built = network_->build(graph, spec.inputs, {.batch = batch, .training = false, .dtype = spec.dtype});
  for (size_t i = 0; i < built.outputs.size(); ++i)
    graph.output(outputs_.at(i), linked ? linked_value(built.outputs[i], static_cast<int>(i)) : built.outputs[i]);
  return recorder.append(graph, [&](const Leaf& leaf) {
    const Type& wanted = graph.type(leaf.value);
    if (leaf.kind == LeafKind::input) {
      for (size_t i = 0; i < spec.inputs.size(); ++i)
        if (spec.inputs[i].name == leaf.name) return recorder.value_as(inputs[i], wanted.dtype);
    }
    if (leaf.kind == LeafKind::state) return recorder.value_at(recorder.capture(Array(params.state_tensor(params.find_state(leaf.name)))));
    const int index = params.find(leaf.name);
    if (parameters.empty()) return recorder.value_at(recorder.capture(Array(params.parameter_tensor(index))));
    const int given = parameters[static_cast<size_t>(index)];
    if (recorder.type(given).shape != wanted.shape)
      throw Error(ErrorKind::usage, {.where = where,
                                     .what = "parameter '" + leaf.name + "' has another shape",
                                     .got = recorder.type(given).text(),
                                     .expected = wanted.text()});
    return recorder.value_as(given, wanted.dtype);
  });
}

}  // namespace perigee
