#include "src/graph/plan.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "kernels/cuda/runtime/queue.h"
#include "src/graph/plan_check.h"
#include "src/graph/scan_plan.h"

namespace perigee {

int Plan::input_index(const std::string& name) const {
  const auto found = std::find(inputs_.begin(), inputs_.end(), name);
  return found == inputs_.end() ? -1 : static_cast<int>(found - inputs_.begin());
}

size_t Plan::steps_until(int external_output) const {
  for (size_t i = steps_.size(); i-- > 0;)
    for (const Operand& out : steps_[i].out)
      if (out.place == Place::output && out.index == external_output) return i + 1;
  return 0;
}

double Plan::flops() const {
  double sum = 0;
  for (const PlanStep& step : steps_) sum += step.flops;
  return sum;
}

std::string Plan::report() const {
  std::string text;
  const auto shapes = [](const std::vector<Operand>& operands) {
    std::string list;
    for (const Operand& operand : operands) {
      list += list.empty() ? "" : " ";
      for (int i = 0; i < operand.view.rank; ++i) list += (i ? "x" : "") + std::to_string(operand.view.dims[i]);
      if (operand.view.rank == 4 && !operand.view.contiguous()) list += operand.view.channels_last() ? "(cl)" : "(strided)";
    }
    return list;
  };
  static constexpr const char* kBackends[] = {"ref", "cpu", "cuda"};
  for (const PlanStep& step : steps_)
    text += std::string(step.op->name) + " [" + kBackends[static_cast<int>(step.kernel->backend)] + " " + step.kernel->name + " " +
            isa_name(step.kernel->isa) + (step.accumulate ? " +=" : "") + "] " + shapes(step.in) + " -> " + shapes(step.out) + "  " +
            step.scope + "\n";
  return text;
}

bool all_finite(const View& view) {
  for (int64_t k = 0; k < view.elements(); ++k) {
    if (view.dtype == Dtype::f32 && !std::isfinite(view.as<float>()[k])) return false;
    if (view.dtype == Dtype::f64 && !std::isfinite(view.as<double>()[k])) return false;
    if (view.dtype == Dtype::f16 && (view.as<uint16_t>()[k] & 0x7c00) == 0x7c00) return false;
    if (view.dtype == Dtype::bf16 && (view.as<uint16_t>()[k] & 0x7f80) == 0x7f80) return false;
  }
  return true;
}

void PlanRun::bind(View& view, const Operand& operand, const Memory& memory) {
  view = operand.view;
  std::byte* base = nullptr;
  const auto later = [&](Patches& patches) { patches[static_cast<size_t>(operand.index)].push_back({&view, operand.offset}); };
  if (operand.place == Place::parameter && memory.parameters.empty()) return later(parameter_patches_);
  if (operand.place == Place::output && memory.outputs.empty()) return later(output_patches_);
  switch (operand.place) {
    case Place::arena: base = operand.index < 0 ? nullptr : memory.arena; break;
    case Place::parameter: base = static_cast<std::byte*>(memory.parameters[static_cast<size_t>(operand.index)]); break;
    case Place::half: base = static_cast<std::byte*>(memory.halves[static_cast<size_t>(operand.index)]); break;
    case Place::state: base = static_cast<std::byte*>(memory.states[static_cast<size_t>(operand.index)]); break;
    case Place::table:
      base = static_cast<std::byte*>(memory.tables.empty() ? plan_->tables_[static_cast<size_t>(operand.index)].view().data
                                                           : memory.tables[static_cast<size_t>(operand.index)]);
      break;
    case Place::output: base = static_cast<std::byte*>(memory.outputs[static_cast<size_t>(operand.index)]); break;
    case Place::input: return later(input_patches_);
  }
  view.data = base ? base + operand.offset : nullptr;
}

PlanRun::PlanRun(std::shared_ptr<const Plan> plan, const Memory& memory)
    : plan_(std::move(plan)), packed_(memory.packed ? 0 : plan_->packed_bytes()) {
  assert(memory.parameters.empty() || memory.parameters.size() == plan_->parameters().size());
  assert(memory.states.size() == plan_->states().size());
  input_patches_.resize(plan_->inputs().size());
  parameter_patches_.resize(plan_->parameters().size());
  output_patches_.resize(plan_->external_outputs().size());
  size_t count = 0;
  for (const PlanStep& step : plan_->steps()) count += step.in.size() + step.out.size();
  views_.resize(count);  // never grows after this: calls point into it
  outputs_.resize(plan_->outputs_.size());
  assignments_.resize(plan_->assignments_.size());
  size_t next = 0;
  for (const PlanStep& step : plan_->steps()) {
    Bound bound{.run = step.kernel->run,
                .pack = step.packed_bytes ? step.kernel->pack : nullptr,
                .pack_each_run = step.pack_each_run,
                .accumulates = step.accumulate,
                .keeps = step.keeps,
                .algorithm = step.algorithm};
    KernelCall& call = bound.call;
    call.in = views_.data() + next;
    call.n_in = static_cast<int>(step.in.size());
    for (const Operand& operand : step.in) bind(views_[next++], operand, memory);
    call.out = views_.data() + next;
    call.n_out = static_cast<int>(step.out.size());
    for (const Operand& operand : step.out) bind(views_[next++], operand, memory);
    call.params = step.params.data();
    if (step.loop) {
      loops_.push_back(std::make_unique<ScanRun>(*step.loop, memory.arena + step.scratch_offset));
      call.params = loops_.back().get();
    }
    call.scratch = step.scratch_bytes ? memory.arena + step.scratch_offset : nullptr;
    call.packed = step.packed_bytes ? (memory.packed ? memory.packed : packed_.data()) + step.packed_offset : nullptr;
    call.accumulate = step.accumulate;
    calls_.push_back(bound);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) bind(outputs_[i], plan_->outputs_[i].operand, memory);
  for (size_t i = 0; i < assignments_.size(); ++i) {
    bind(assignments_[i], plan_->assignments_[i].operand, memory);
    const auto found = std::find(plan_->states().begin(), plan_->states().end(), plan_->assignments_[i].name);
    // A state that is assigned but never read has no pointer here; its owner passes all states that the network declares.
    states_by_assignment_.push_back(found == plan_->states().end() ? nullptr
                                                                   : memory.states[static_cast<size_t>(found - plan_->states().begin())]);
  }
}

void PlanRun::set(Patches& patches, int index, const void* data) {
  for (const Patch& patch : patches[static_cast<size_t>(index)])
    patch.view->data = const_cast<std::byte*>(static_cast<const std::byte*>(data)) + patch.offset;
}

void PlanRun::set_input(int index, const void* data) { set(input_patches_, index, data); }
void PlanRun::set_parameter(int index, void* data) { set(parameter_patches_, index, data); }
void PlanRun::set_output(int index, void* data) { set(output_patches_, index, data); }

void PlanRun::pack() {
  for (const Bound& bound : calls_)
    if (bound.pack && !bound.pack_each_run) bound.pack(bound.call);
}

void PlanRun::run_steps(size_t first, size_t last, Team* team, const StepInfo& step, bool accumulate) {
  assert(first <= last && last <= calls_.size());
  for (Bound& bound : std::span(calls_).subspan(first, last - first)) {
    bound.call.team = team;
    bound.call.step = &step;
    bound.call.accumulate = bound.accumulates && (accumulate || bound.keeps);
    if (bound.pack && bound.pack_each_run) bound.pack(bound.call);
    if (checker_) {
      const auto index = static_cast<size_t>(&bound - calls_.data());
      checker_->before(index, bound.call);
      bound.run(bound.call);
      checker_->after(index, bound.call);
      continue;
    }
    bound.run(bound.call);
  }
}

void PlanRun::queue_packs(CudaQueue& queue) {
  for (Bound& bound : calls_) {
    bound.call.queue = &queue;
    if (bound.pack && !bound.pack_each_run) bound.pack(bound.call);
  }
}

void PlanRun::queue_step(size_t index, CudaQueue& queue, const StepInfo* step) {
  Bound& bound = calls_[index];
  bound.call.queue = &queue;
  bound.call.step = step;
  if (bound.pack && bound.pack_each_run) bound.pack(bound.call);
  queue.algorithm = bound.algorithm;
  bound.run(bound.call);
}

StepAccess PlanRun::packs_access() const {
  StepAccess access;
  for (size_t i = 0; i < calls_.size(); ++i) {
    const Bound& bound = calls_[i];
    if (!bound.pack || bound.pack_each_run) continue;
    for (int k = 0; k < bound.call.n_in; ++k) access.read(range_of(bound.call.in[k]));
    access.write(range_of(bound.call.packed, plan_->steps()[i].packed_bytes));
  }
  return access;
}

namespace {

// cuDNN's batch norm is one kernel whose blocks wait for each other: of two at once, neither may find room for all of its own. As if both
// wrote here, they run one after the other.
constexpr std::byte kWholeDevice{};
bool waits_for_itself(const PlanStep& step) {
  return step.op->collective && step.kernel->backend == Backend::cuda && std::string_view(step.kernel->name) == "cudnn";
}

}  // namespace

StepAccess PlanRun::access(size_t index) const {
  const Bound& bound = calls_[index];
  const PlanStep& step = plan_->steps()[index];
  StepAccess access;
  double bytes = 0;
  const auto of = [&](const View& view) {
    bytes += static_cast<double>(view.elements()) * static_cast<double>(dtype_bytes(view.dtype));
    return range_of(view);
  };
  for (int i = 0; i < bound.call.n_in; ++i) access.read(of(bound.call.in[i]));
  for (int i = 0; i < bound.call.n_out; ++i) access.write(of(bound.call.out[i]));
  access.write(range_of(bound.call.scratch, step.scratch_bytes));
  const MemoryRange packed = range_of(bound.call.packed, step.packed_bytes);
  if (bound.pack_each_run) access.write(packed);
  else access.read(packed);
  if (waits_for_itself(step)) access.write(range_of(&kWholeDevice, 1));
  // Microseconds of a GPU of today, to the order of magnitude: a launch, then memory, then products.
  access.cost = 3 + bytes / 2e6 + step.flops / 3e7;
  return access;
}

PlanRun::~PlanRun() = default;

void PlanRun::enable_check() {
  checker_ = std::make_unique<PlanChecker>(*plan_);
  for (const auto& loop : loops_) loop->body().enable_check();
}

std::string PlanRun::check_failure() const {
  for (const auto& loop : loops_)
    if (std::string failure = loop->body().check_failure(); !failure.empty()) return failure;
  return checker_ ? checker_->failure() : "";
}

std::string PlanRun::find_non_finite(const StepInfo& step) {
  pack();
  for (size_t i = 0; i < calls_.size(); ++i) {
    Bound& bound = calls_[i];
    bound.call.team = nullptr;
    bound.call.step = &step;
    bound.call.accumulate = false;
    if (bound.pack && bound.pack_each_run) bound.pack(bound.call);
    bound.run(bound.call);
    for (int o = 0; o < bound.call.n_out; ++o)
      if (bound.call.out[o].data && bound.call.out[o].dense() && !all_finite(bound.call.out[o])) {
        const PlanStep& culprit = plan_->steps()[i];
        return (culprit.scope.empty() ? "" : culprit.scope + ", ") + "op '" + culprit.op->name + "'";
      }
  }
  return "";
}

void PlanRun::commit_states() {
  for_each_commit([](void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); });
}

int PlanRun::output_index(const std::string& name) const {
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (plan_->outputs_[i].name == name) return static_cast<int>(i);
  return -1;
}

View PlanRun::output(const std::string& name) const {
  const int index = output_index(name);
  return index < 0 ? View{} : output(index);
}

}  // namespace perigee
