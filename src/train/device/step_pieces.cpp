#include "src/core/warning.h"
#include "src/train/device/step_program.h"

namespace perigee {
namespace {

std::vector<std::string> names_of_inputs(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const NetworkInput& field : fields_of(spec, true)) names.push_back(field.name);
  return names;
}

}  // namespace

StepProgram::StepProgram(DeviceModel& model, StepBuffers& buffers, DevicePlans& plans, DeviceUpdate& update, const ResidentData* data,
                         const DeviceRows* rows, const Field& target)
    : model_(model),
      gpu_(model.gpu()),
      buffers_(buffers),
      plans_(plans),
      update_(update),
      data_(data),
      rows_(rows),
      input_names_(names_of_inputs(model.model().spec())),
      labels_(model.model().spec().classes > 0 && target.dtype == Dtype::i64) {}

void StepProgram::bind_inputs(PlanRun& run, const StepSlot& slot, const StepWork& work) {
  const StepLayout layout = buffers_.layout_of(work);
  for (size_t f = 0; f < input_names_.size(); ++f) {
    const int index = run.plan().input_index(input_names_[f]);
    if (index >= 0) run.set_input(index, work.gather ? buffers_.gathered(f).data() : slot.device.data() + layout.fields[f]);
  }
  for (size_t i = 0; i < layout.factors.size(); ++i) {
    const int index = run.plan().input_index(model_.model().factors()[i].input);
    if (index >= 0) run.set_input(index, slot.device.data() + layout.factors[i]);
  }
  if (rows_) rows_->bind(run, work.first);
  if (const int seeds = run.plan().input_index(kLossSeed); seeds >= 0) run.set_input(seeds, slot.device.data() + layout.seeds);
}

CudaScaleCall StepProgram::scaling(const StepSlot& slot, const StepWork& work) const {
  return {.scale = reinterpret_cast<CudaLossScale*>(buffers_.scale().data()),
          .seeds = reinterpret_cast<float*>(slot.device.data() + buffers_.layout_of(work).seeds),
          .examples = work.examples,
          .of = work.of > 0 ? work.of : work.examples,
          .gradient = reinterpret_cast<const float*>(buffers_.gradient().data()),
          .elements = static_cast<int64_t>(buffers_.gradient().bytes() / sizeof(float)),
          .stopped = buffers_.stopped(),
          .update = work.part == StepPart::whole ? buffers_.image(slot) : nullptr,
          .record = buffers_.record(slot)};
}

// By field: where it is gathered to; null where the plan does not read it.
std::vector<std::byte*> StepProgram::gathered_by(const Plan& plan) const {
  std::vector<std::byte*> to;
  for (size_t f = 0; f < input_names_.size(); ++f)
    to.push_back(plan.input_index(input_names_[f]) >= 0 ? buffers_.gathered(f).data() : nullptr);
  return to;
}

void StepProgram::add_scale(const StepSlot& slot, const StepWork& work, std::vector<DeviceWork>* pieces) {
  DeviceWork begin{.what = "the scale of the loss"};
  const CudaScaleCall call = scaling(slot, work);
  begin.access.write(range_of(call.scale, sizeof *call.scale));
  begin.access.write(range_of(call.seeds, static_cast<size_t>(work.examples) * sizeof(float)));
  begin.access.write(range_of(call.update, buffers_.image_bytes()));
  begin.queue = [this, call](CudaQueue& queue) { gpu_.module().steps->begin_scaled(call, queue); };
  pieces->push_back(std::move(begin));
}

void StepProgram::queue_gather(const PlanRun& run, const StepSlot& slot, const StepWork& work) {
  const auto* const ids = reinterpret_cast<const int64_t*>(slot.device.data() + buffers_.layout_of(work).ids);
  if (work.gather) data_->gather(gpu_, ids, work.examples, gathered_by(run.plan()), gpu_.queue());
}

void StepProgram::queue_seeds(const StepSlot& slot, const StepWork& work) {
  if (!buffers_.scale().data()) return;
  CudaScaleCall seeds = scaling(slot, work);
  seeds.update = nullptr;
  gpu_.module().steps->begin_scaled(seeds, gpu_.queue());
}

void StepProgram::add_gather(const PlanRun& run, const StepSlot& slot, const StepWork& work, std::vector<DeviceWork>* pieces) {
  const auto* const ids = reinterpret_cast<const int64_t*>(slot.device.data() + buffers_.layout_of(work).ids);
  const std::vector<std::byte*> to = gathered_by(run.plan());
  DeviceWork gather{.what = "the gathering of a batch"};
  for (size_t f = 0; f < to.size(); ++f) gather.access.write(range_of(to[f], buffers_.gathered(f).bytes()));
  gather.queue = [this, ids, to, n = work.examples](CudaQueue& queue) { data_->gather(gpu_, ids, n, to, queue); };
  pieces->push_back(std::move(gather));
}

// Null unless kernels are compared with the reference.
std::shared_ptr<DeviceCheck> StepProgram::check_of(PlanRun& run, const StepSlot& slot, const StepWork& work) {
  if (!checked_) return nullptr;
  StepInfo here = *reinterpret_cast<const StepInfo*>(buffers_.host(slot));
  here.example_ids = reinterpret_cast<const int64_t*>(buffers_.host(slot) + buffers_.layout_of(work).ids);
  auto check = std::make_shared<DeviceCheck>(gpu_, run, here);
  const std::string& unchecked = check->unchecked();
  if (!unchecked.empty() && unchecked != unchecked_) warn((unchecked_ = unchecked) + ": there is no reference to compare with");
  return check;
}

void StepProgram::add_compute(const StepSlot& slot, const StepWork& work, std::vector<DeviceWork>* pieces) {
  PlanRun* const run = &plans_.at(work.examples);
  if (work.gather) add_gather(*run, slot, work, pieces);
  bind_inputs(*run, slot, work);
  if (buffers_.scale().data()) add_scale(slot, work, pieces);
  DeviceWork packs{.what = "the packing of parameters", .access = run->packs_access()};
  packs.queue = [run](CudaQueue& queue) { run->queue_packs(queue); };
  if (!packs.access.writes.empty()) pieces->push_back(std::move(packs));
  const std::shared_ptr<DeviceCheck> check = check_of(*run, slot, work);
  const StepInfo* const info = buffers_.info(slot);
  for (size_t i = 0; i < run->plan().steps().size(); ++i)
    pieces->push_back(
        {.what = step_name(run->plan().steps()[i]), .access = run->access(i), .queue = [run, i, info, check](CudaQueue& queue) {
           if (check) check->run_step(i, queue, info);
           else run->queue_step(i, queue, info);
         }});
  add_judge(slot, work, *run, pieces);
}

void StepProgram::add_judge(const StepSlot& slot, const StepWork& work, const PlanRun& run, std::vector<DeviceWork>* pieces) {
  const View output = labels_ ? run.output("output") : View{};
  const View loss = run.output("loss");
  const bool counts = labels_ && output.rank == 2 && output.contiguous() && output.dtype == loss.dtype;
  const size_t target = model_.model().spec().inputs.size();
  const std::byte* const labels =
      work.gather ? buffers_.gathered(target).data() : slot.device.data() + buffers_.layout_of(work).fields[target];
  const CudaJudgeCall call{.loss = loss,
                           .output = counts ? output : View{},
                           .labels = reinterpret_cast<const int64_t*>(labels),
                           .counter = buffers_.counter(),
                           .stopped = buffers_.stopped(),
                           .update = work.part == StepPart::whole && work.of == 0 ? buffers_.image(slot) : nullptr,
                           .record = buffers_.record(slot),
                           .shares = work.of > 0 ? reinterpret_cast<double*>(buffers_.shares().data()) : nullptr};
  DeviceWork judge{.what = "the sum of the losses"};
  judge.access.read(range_of(loss));
  judge.access.read(range_of(call.output));
  judge.access.read(range_of(labels, static_cast<size_t>(work.examples) * sizeof(int64_t)));
  judge.access.write(range_of(buffers_.words().data(), buffers_.words().bytes()));
  judge.access.write(range_of(call.update, sizeof(CudaUpdate)));
  judge.access.write(range_of(call.record, sizeof *call.record));
  judge.access.write(range_of(buffers_.shares().data(), buffers_.shares().bytes()));
  judge.queue = [this, call](CudaQueue& queue) { gpu_.module().steps->judge(call, queue); };
  pieces->push_back(std::move(judge));
}

void StepProgram::add_commits(const StepWork& work, const int32_t* skip, std::vector<DeviceWork>* pieces) {
  DeviceWork commit{.what = "the commit of states"};
  commit.access.read(range_of(skip, sizeof *skip));
  std::vector<CudaCommit> states;
  plans_.at(work.examples).for_each_commit([&](void* to, const void* from, size_t bytes) {
    commit.access.read(range_of(from, bytes));
    commit.access.write(range_of(to, bytes));
    states.push_back({to, from, static_cast<int64_t>(bytes)});
  });
  if (rows_) rows_->add_commits(plans_.at(work.examples), work.first, &commit.access, &states);
  if (states.empty()) return;
  commit.queue = [this, states, skip](CudaQueue& queue) { gpu_.module().steps->commit(states.data(), states.size(), skip, queue); };
  pieces->push_back(std::move(commit));
}

std::vector<DeviceWork> StepProgram::whole(const StepSlot& slot, const StepWork& work) {
  std::vector<DeviceWork> pieces;
  if (work.part != StepPart::update) add_compute(slot, work, &pieces);
  const CudaScaleCall scale = buffers_.scale().data() && work.part != StepPart::update ? scaling(slot, work) : CudaScaleCall{};
  if (scale.scale && work.part == StepPart::compute) pieces.push_back(update_.end_of_scaling(scale));
  if (work.part != StepPart::compute) update_.add(buffers_.image(slot), buffers_.record(slot), scale.scale ? &scale : nullptr, &pieces);
  if (work.part == StepPart::whole) add_commits(work, &buffers_.image(slot)->skip, &pieces);
  return pieces;
}

}  // namespace perigee
