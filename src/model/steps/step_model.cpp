#include "src/model/steps/step_model.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/convert.h"
#include "src/tensor/bytes.h"

namespace perigee {
namespace {

Type of_one_step(const Type& type) { return {type.dtype, type.shape.with(type.shape.rank() - 1, 1)}; }

std::string place_of(const ModelSpec& spec) { return spec.where.empty() ? "network" : spec.where; }

void check_reads_steps(const Model& model) {
  const ModelSpec& spec = model.spec();
  const Type& output = model.output_types().at(0);
  const auto refuse = [&](const char* what, const std::string& got, const std::string& expected) {
    throw Error(ErrorKind::usage, {.where = place_of(spec), .what = what, .got = got, .expected = expected});
  };
  if (spec.inputs.size() != 1 || spec.inputs[0].type.shape.rank() < 1)
    refuse("a session is for a network that reads the steps of one sequence", std::to_string(spec.inputs.size()) + " inputs",
           "one input, whose last dimension are steps");
  const Shape& input = spec.inputs[0].type.shape;
  if (output.shape.rank() < 1 || output.shape[output.shape.rank() - 1] != input[input.rank() - 1])
    refuse("a session is for a network that gives an output for each step", output.shape.text(),
           "an output with as many steps as the input " + input.text());
}

// The network of one step. Error(model) names the layer that cannot go step by step.
BuiltNetwork built_of(const Model& model) {
  check_reads_steps(model);
  const ModelSpec& spec = model.spec();
  std::vector<NetworkInput> inputs = spec.inputs;
  const int64_t window = inputs[0].type.shape.at(-1);
  inputs[0].type = of_one_step(inputs[0].type);
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

StepModel::StepModel(const Model& model, int64_t rows, bool unlinked) : StepModel(model, built_of(model), rows, unlinked) {}

StepModel::StepModel(const Model& model, const BuiltNetwork& one, int64_t rows, bool unlinked)
    : carried_(std::make_shared<CarriedLayout>(one.carried)),
      most_steps_(one.most_steps),
      input_type_(of_one_step(model.spec().inputs[0].type)),
      output_type_(of_one_step(model.output_types()[0])),
      model_(copied(model)),
      plans_(*model_, PlanSet::Kind::inference, Backend::cpu, nullptr,
             unlinked ? std::vector<std::string>{kUnlinkedOutput} : std::vector<std::string>()),
      memory_(plans_, model_->params(), nullptr),
      rows_(rows),
      one_(static_cast<size_t>(rows) * byte_size(input_type_)) {
  plans_.set_carry(Carry::all);
  run_ = &memory_.at(rows);
  run_->pack();
  input_ = run_->plan().input_index(model_->spec().inputs[0].name);
  output_ = run_->output_index(unlinked ? std::string("layer:") + kUnlinkedOutput : "output");
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

const View& StepModel::step(CarriedRows& state, const void* x) {
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
    : model_(std::move(model)), state_(model_->layout(), model_->rows(), CarriedRows::Kept::in_place) {}

// A step of [rows, ..., steps] is every steps-th number.
void StepSession::step(const void* x, int64_t steps, void* y) {
  model_->check_room(state_, steps);
  const std::lock_guard lock(model_->turns_);
  const Type &input = model_->input(), &output = model_->output();
  const size_t in = dtype_bytes(input.dtype), out = dtype_bytes(output.dtype);
  const int64_t width = model_->rows() * input.shape.elements();
  for (int64_t t = 0; t < steps; ++t) {
    const auto* from = static_cast<const std::byte*>(x) + static_cast<size_t>(t) * in;
    for (int64_t i = 0; i < width; ++i)
      std::memcpy(&model_->one_[static_cast<size_t>(i) * in], from + static_cast<size_t>(i * steps) * in, in);
    const View& given = model_->step(state_, model_->one_.data());
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
