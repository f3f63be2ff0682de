#include "src/model/device/device_model.h"

#include "kernels/flat_view.h"
#include "src/graph/plan_compiler.h"

namespace perigee {

void DeviceArena::reserve(size_t bytes) {
  if (memory_.data() && memory_.bytes() >= bytes) return;
  gpu_.wait();
  memory_ = {};
  ++generation_;
  memory_ = gpu_.allocate(bytes, "activations");
}

DeviceModel::DeviceModel(Gpu& gpu, Model& model, const std::vector<Storage>* slots, Tuning& tuning)
    : gpu_(gpu), model_(model), host_slots_(slots), tuning_(tuning), arena_(gpu) {
  gpu_.select();
  const Params& params = model.params();
  block_ = gpu.allocate(params.block_bytes(), "parameters");
  if (model.spec().half) {
    halves_ = gpu.allocate(half_block_bytes(params), "parameters in 16 bits");
    const View from = flat_view(block_.data(), params.block_elements(), Dtype::f32), to = halves();
    rounding_ = kernel_candidates("cast", {.in = &from, .out = &to, .n_in = 1, .n_out = 1}, {.backend = Backend::cuda}).front();
  }
  states_ = gpu.allocate(model.params().state_bytes().size(), "states");
  for (size_t i = 0; slots && i < slots->size(); ++i) slots_.push_back(gpu.allocate(params.block_bytes(), "the optimiser's states"));
}

void DeviceModel::to_device() {
  Params& params = model_.params();
  if (parameters_newer_ == Newer::host) {
    gpu_.upload(block_.data(), params.block(), params.block_bytes());
    parameters_newer_ = Newer::neither;
    halves_old_ = true;
  }
  if (halves_old_) {
    queue_rounding(gpu_.queue());
    gpu_.check_queue("the rounding of parameters");
    halves_old_ = false;
  }
  if (states_newer_ == Newer::host) {
    gpu_.upload(states_.data(), params.state_bytes().data(), params.state_bytes().size());
    states_newer_ = Newer::neither;
  }
  if (slots_newer_ == Newer::host) {
    for (size_t i = 0; i < slots_.size(); ++i) gpu_.upload(slots_[i].data(), (*host_slots_)[i].data(), (*host_slots_)[i].bytes());
    slots_newer_ = Newer::neither;
  }
}

void DeviceModel::bring_home(Newer* newer, std::byte* to, const std::byte* from, size_t bytes) {
  if (*newer != Newer::device) return;
  gpu_.select();
  gpu_.download(to, from, bytes);
  *newer = Newer::neither;
}

void DeviceModel::to_host() {
  Params& params = model_.params();
  bring_home(&parameters_newer_, params.block(), block_.data(), params.block_bytes());
  states_to_host();
}

void DeviceModel::states_to_host() {
  const std::span<std::byte> states = model_.params().state_bytes();
  bring_home(&states_newer_, states.data(), states_.data(), states.size());
}

void DeviceModel::slots_to_host() {
  if (slots_newer_ != Newer::device) return;
  gpu_.select();
  for (size_t i = 0; i < slots_.size(); ++i) gpu_.download((*host_slots_)[i].data(), slots_[i].data(), (*host_slots_)[i].bytes());
  slots_newer_ = Newer::neither;
}

void* DeviceModel::parameter(const std::string& name) const {
  const Params& params = model_.params();
  return block_.data() + params.parameter_offset(params.find(name));
}

View DeviceModel::halves() const {
  return halves_.data() ? flat_view(halves_.data(), model_.params().block_elements(), *model_.spec().half) : View{};
}

void DeviceModel::queue_rounding(CudaQueue& queue) const {
  if (!rounding_) return;
  const View from = flat_view(block_.data(), model_.params().block_elements(), Dtype::f32), to = halves();
  rounding_->run({.in = &from, .out = &to, .n_in = 1, .n_out = 1, .queue = &queue});
}

void* DeviceModel::half(const std::string& name) const {
  const Params& params = model_.params();
  return halves_.data() + params.parameter_offset(params.find(name)) / 2;
}

void* DeviceModel::state(const std::string& name) const {
  const Params& params = model_.params();
  return states_.data() + params.state_offset(params.find_state(name));
}

DevicePlans::DevicePlans(DeviceModel& model, PlanSet& plans, std::byte* gradient) : model_(model), plans_(plans), gradient_(gradient) {}

std::unique_ptr<DevicePlans::Bound> DevicePlans::bind(std::shared_ptr<const Plan> plan) {
  Gpu& gpu = model_.gpu();
  auto bound = std::make_unique<Bound>();
  std::vector<void*> parameters, halves, states, outputs, tables;
  for (const std::string& name : plan->parameters()) parameters.push_back(model_.parameter(name));
  if (model_.halves().data)
    for (const std::string& name : plan->parameters()) halves.push_back(model_.half(name));
  for (const std::string& name : plan->states()) states.push_back(model_.state(name));
  const Params& params = model_.model().params();
  for (const std::string& name : plan->external_outputs())
    outputs.push_back(gradient_ + params.parameter_offset(params.find(name.substr(5))));
  for (const Tensor& table : plan->tables()) {
    bound->tables.push_back(gpu.allocate(table.bytes(), "constants"));
    gpu.upload(bound->tables.back().data(), table.view().data, table.bytes());
    tables.push_back(bound->tables.back().data());
  }
  if (plan->packed_bytes() > 0) bound->packed = gpu.allocate(plan->packed_bytes(), "packed parameters");
  bound->run = std::make_unique<PlanRun>(plan, PlanRun::Memory{.arena = model_.arena().data(),
                                                               .parameters = parameters,
                                                               .states = states,
                                                               .outputs = outputs,
                                                               .tables = tables,
                                                               .packed = bound->packed.data(),
                                                               .halves = halves});
  return bound;
}

PlanRun& DevicePlans::at(int64_t batch) {
  const bool moved = arena_generation_ != model_.arena().generation();
  if (const auto known = runs_.find(batch); known != runs_.end() && !moved) return *known->second->run;
  const auto plan = plans_.plan(batch);
  model_.arena().reserve(plan->arena_bytes());
  if (arena_generation_ != model_.arena().generation() || runs_.size() >= 16) {
    model_.gpu().wait();  // somebody may still be working there
    runs_.clear();
    ++generation_;
    arena_generation_ = model_.arena().generation();
  }
  return *runs_.emplace(batch, bind(plan)).first->second->run;
}

void DevicePlans::renew(int64_t batch) {
  model_.gpu().wait();
  runs_.erase(batch);
  plans_.drop(batch);
  ++generation_;
}

size_t DevicePlans::bytes() const {
  size_t sum = 0;
  for (const auto& [batch, bound] : runs_) {
    sum += bound->packed.bytes();
    for (const GpuMemory& table : bound->tables) sum += table.bytes();
  }
  return sum;
}

std::string step_name(const PlanStep& step) { return (step.scope.empty() ? "" : step.scope + ", ") + "op '" + step.op->name + "'"; }

}  // namespace perigee
