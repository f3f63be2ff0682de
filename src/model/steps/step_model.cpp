#include "src/model/steps/step_model.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/convert.h"
#include "src/model/steps/carried_rows.h"
#include "src/model/steps/session_graph.h"
#include "src/model/steps/timed_fields.h"
#include "src/tensor/bytes.h"

namespace perigee {
namespace {

Type step_model_of_one_step(const Type& type) { return {type.dtype, type.shape.with(type.shape.rank() - 1, 1)}; }

std::string place_of(const ModelSpec& spec) { return spec.where.empty() ? "network" : spec.where; }

void check_reads_steps(const Model& model) {
  const ModelSpec& spec = model.spec();
  const Type& output = model.output_types().at(0);
  const auto refuse = [&](const char* what, const std::string& got, const std::string& expected) {
    throw Error(ErrorKind::usage, {.where = place_of(spec), .what = what, .got = got, .expected = expected});
  };
  std::string inputs;
  for (const NetworkInput& input : spec.inputs) inputs += (inputs.empty() ? "" : ", ") + input.type.shape.text();
  if (stepped_input(spec, output.shape) < 0)
    refuse("a session is for a network that gives an output for each step", output.shape.text(),
           "an output with as many steps as an input: " + inputs);
}

std::vector<NetworkInput> memory_of(const Model& model) {
  std::vector<NetworkInput> memory = model.spec().inputs;
  memory.erase(memory.begin() + stepped_input(model.spec(), model.output_types().at(0).shape));
  return memory;
}

// The network of one step. Error(model) names the layer that cannot go step by step.
BuiltNetwork built_of(const Model& model) {
  check_reads_steps(model);
  const ModelSpec& spec = model.spec();
  std::vector<NetworkInput> inputs = spec.inputs;
  Type& stepped = inputs[static_cast<size_t>(stepped_input(spec, model.output_types().at(0).shape))].type;
  const int64_t window = stepped.shape.at(-1);
  stepped = step_model_of_one_step(stepped);
  Graph graph;
  BuiltNetwork built =
      Network(spec.network, spec.where)
          .build(graph, inputs, {.batch = 1, .training = false, .dtype = spec.dtype, .carry = Carry::all, .window = window});
  [[maybe_unused]] const auto same = [](const ParameterSpec& one, const ParameterSpec& other) {
    return one.name == other.name && one.shape == other.shape;
  };
  assert(std::ranges::equal(built.parameters, model.params().specs(), same));  // no such layer has parameters for each step
  return built;
}

std::unique_ptr<Model> copied(const Model& model) {
  auto copy = std::make_unique<Model>(model.spec());
  std::memcpy(copy->params().block(), model.params().block(), model.params().block_bytes());
  std::ranges::copy(model.params().state_bytes(), copy->params().state_bytes().begin());
  return copy;
}

}  // namespace

// A plan with memory of its own.
struct StepModel::Bound {
  Bound(const Graph& graph, Params& params) : plan(Plan::compile(graph, {})), arena(plan->arena_bytes()) {
    std::vector<void*> parameters, states;
    for (const std::string& name : plan->parameters()) parameters.push_back(params.parameter(params.find(name)));
    for (const std::string& name : plan->states()) states.push_back(params.state(params.find_state(name)));
    run = std::make_unique<PlanRun>(plan, PlanRun::Memory{arena.data(), parameters, states, {}});
    run->pack();
  }
  std::shared_ptr<const Plan> plan;
  Storage arena;
  std::unique_ptr<PlanRun> run;
};

StepModel::~StepModel() = default;

StepModel::StepModel(const Model& model, int64_t rows, bool unlinked) : StepModel(model, built_of(model), rows, unlinked) {}

StepModel::StepModel(const Model& model, const BuiltNetwork& one, int64_t rows, bool unlinked)
    : carried_(std::make_shared<CarriedLayout>(one.carried)),
      most_steps_(one.most_steps),
      input_type_(step_model_of_one_step(
          model.spec().inputs[static_cast<size_t>(stepped_input(model.spec(), model.output_types()[0].shape))].type)),
      output_type_(step_model_of_one_step(model.output_types()[0])),
      model_(copied(model)),
      plans_(*model_, PlanSet::Kind::inference, Backend::cpu, nullptr,
             unlinked ? std::vector<std::string>{kUnlinkedOutput} : std::vector<std::string>()),
      memory_(plans_, model_->params(), nullptr),
      rows_(rows),
      one_(static_cast<size_t>(rows) * byte_size(input_type_)) {
  plans_.set_carry(Carry::all);
  memory_inputs_ = memory_of(model);
  if (memory_inputs_.empty()) {
    run_ = &memory_.at(rows);
    run_->pack();
  } else {
    cut(unlinked ? std::vector<std::string>{kUnlinkedOutput} : std::vector<std::string>());
  }
  const int stepped = stepped_input(model.spec(), model.output_types()[0].shape);
  input_ = run_->plan().input_index(model_->spec().inputs[static_cast<size_t>(stepped)].name);
  output_ = run_->output_index(unlinked ? std::string("layer:") + kUnlinkedOutput : "output");
}

void StepModel::cut(const std::vector<std::string>& layers) {
  std::set<std::string> fixed;
  for (const NetworkInput& input : memory_inputs_) fixed.insert(input.name);
  SessionGraphs graphs = cut_session(model_->inference_graph(rows_, false, Backend::cpu, layers, Carry::all), fixed);
  kept_ = std::move(graphs.kept);
  once_ = std::make_unique<Bound>(graphs.once, model_->params());
  each_ = std::make_unique<Bound>(graphs.step, model_->params());
  run_ = each_->run.get();
}

void StepModel::keep(std::span<const void* const> memory, std::vector<Storage>* kept) {
  assert(once_ && memory.size() == memory_inputs_.size());
  for (size_t i = 0; i < memory.size(); ++i)
    if (const int input = once_->plan->input_index(memory_inputs_[i].name); input >= 0) once_->run->set_input(input, memory[i]);
  once_->run->run(nullptr, {});
  kept->clear();
  for (size_t i = 0; i < kept_.size(); ++i) {
    const View& from = once_->run->output(once_->run->output_index(kept_leaf(i)));
    kept->emplace_back(byte_size(kept_[i]));
    copy_packed(from, kept->back().data());
  }
}

bool StepModel::is_for(const Model& model) {
  try {
    return !built_of(model).carried.empty();
  } catch (const Error&) {  // it says why not
    return false;
  }
}

bool StepModel::has_parameters_of(const Model& model) const {
  const Params &own = model_->params(), &other = model.params();
  return std::memcmp(own.block(), other.block(), own.block_bytes()) == 0 &&
         std::memcmp(own.state_bytes().data(), other.state_bytes().data(), own.state_bytes().size()) == 0;
}

void StepModel::check_room(const CarriedRows& state, int64_t steps) const {
  const int64_t read = state.steps_read();
  if (most_steps_ == 0 || read <= most_steps_ - steps) return;
  throw Error(ErrorKind::usage, {.where = "session",
                                 .what = "the model looks at no more steps than its context has",
                                 .got = std::to_string(read) + " steps read, and " + std::to_string(steps) + " more",
                                 .expected = "at most " + std::to_string(most_steps_),
                                 .hint = "clear the session and read the last steps again"});
}

const View& StepModel::step(CarriedRows& state, const void* x, std::span<const Storage> kept) {
  for (size_t i = 0; i < kept.size(); ++i)
    if (const int input = run_->plan().input_index(kept_leaf(i)); input >= 0) run_->set_input(input, kept[i].data());
  if (input_ >= 0) run_->set_input(input_, x);
  state.bind(*run_, 0);
  run_->run(nullptr, {});
  state.take(*run_, 0);
  state.commit();
  return run_->output(output_);
}

std::shared_ptr<StepModel> StepModel::shared(std::shared_ptr<StepModel>& last, const Model& model, int64_t rows) {
  if (!last || last->rows() != rows || !last->has_parameters_of(model)) last = std::make_shared<StepModel>(model, rows);
  return last;
}

StepSession::StepSession(std::shared_ptr<StepModel> model)
    : model_(std::move(model)), state_(model_->layout(), model_->rows(), CarriedRows::Kept::in_place), there_(model_->memory().size()) {
  for (size_t i = 0; i < there_.size(); ++i) given_.emplace_back(byte_size(memory_type(i)));
}

Type StepSession::memory_type(size_t i) const {
  const Type& one = model_->memory().at(i).type;
  std::vector<int64_t> dims = one.shape.vector();
  dims.insert(dims.begin(), model_->rows());
  return {one.dtype, Shape(dims)};
}

void StepSession::remember(size_t i, const void* memory) {
  std::memcpy(given_.at(i).data(), memory, given_[i].bytes());
  there_[i] = true;
  if (std::ranges::find(there_, false) != there_.end()) return;
  std::vector<const void*> all;
  for (const Storage& each : given_) all.push_back(each.data());
  const std::lock_guard lock(model_->turns_);
  model_->keep(all, &kept_);
  state_.clear();
}

// A step of [rows, ..., steps] is every steps-th number.
void StepSession::step(const void* x, int64_t steps, void* y) {
  model_->check_room(state_, steps);
  if (!model_->memory().empty() && kept_.empty())
    throw Error(ErrorKind::usage, {.where = "session",
                                   .what = "the network looks at a memory that the session was not given",
                                   .expected = "'" + model_->memory()[0].name + "' before the first step",
                                   .hint = "session:remember { " + model_->memory()[0].name + " = … }"});
  const std::lock_guard lock(model_->turns_);
  const Type &input = model_->input(), &output = model_->output();
  const size_t in = dtype_bytes(input.dtype), out = dtype_bytes(output.dtype);
  const int64_t width = model_->rows() * input.shape.elements();
  for (int64_t t = 0; t < steps; ++t) {
    const auto* from = static_cast<const std::byte*>(x) + static_cast<size_t>(t) * in;
    for (int64_t i = 0; i < width; ++i)
      std::memcpy(&model_->one_[static_cast<size_t>(i) * in], from + static_cast<size_t>(i * steps) * in, in);
    const View& given = model_->step(state_, model_->one_.data(), kept_);
    View to = given;
    to.data = static_cast<std::byte*>(y) + static_cast<size_t>(t) * out;
    int64_t stride = steps;
    for (int d = to.rank - 1; d >= 0; --d) {
      to.strides[d] = stride;
      stride *= d == to.rank - 1 ? 1 : to.dims[d];
    }
    copy_view(given, to);
  }
}

}  // namespace perigee
