// What a step on a device does, piece by piece, each with the memory that it reads and writes.
#include <string>

#include "src/core/warning.h"
#include "src/train/device/device_check.h"
#include "src/train/device/device_step.h"

namespace perigee {

void DeviceStep::bind_inputs(PlanRun& run, const Slot& slot, const Work& work) {
  const StepLayout layout = layout_of(work);
  for (size_t f = 0; f < fields_.size(); ++f) {
    const int index = run.plan().input_index(input_names_[f]);
    if (index >= 0) run.set_input(index, work.gather ? gathered_[f].data() : slot.device.data() + layout.fields[f]);
  }
  if (const int seeds = run.plan().input_index(kLossSeed); seeds >= 0) run.set_input(seeds, slot.device.data() + layout.seeds);
}

CudaScaleCall DeviceStep::scaling(Slot& slot, const Work& work) const {
  return {.scale = reinterpret_cast<CudaLossScale*>(scale_.data()),
          .seeds = reinterpret_cast<float*>(slot.device.data() + layout_of(work).seeds),
          .examples = work.examples,
          .of = work.of > 0 ? work.of : work.examples,
          .gradient = reinterpret_cast<const float*>(gradient_.data()),
          .elements = static_cast<int64_t>(gradient_.bytes() / sizeof(float)),
          .stopped = stopped(),
          .update = work.part == Part::whole ? image(slot) : nullptr,
          .record = record(slot)};
}

// By field: where it is gathered to; null where the plan does not read it.
std::vector<std::byte*> DeviceStep::gathered_by(const Plan& plan) const {
  std::vector<std::byte*> to;
  for (size_t f = 0; f < fields_.size(); ++f) to.push_back(plan.input_index(input_names_[f]) >= 0 ? gathered_[f].data() : nullptr);
  return to;
}

void DeviceStep::add_scale(Slot& slot, const Work& work, std::vector<DeviceWork>* pieces) {
  DeviceWork begin{.what = "the scale of the loss"};
  const CudaScaleCall call = scaling(slot, work);
  begin.access.write(range_of(call.scale, sizeof *call.scale));
  begin.access.write(range_of(call.seeds, static_cast<size_t>(work.examples) * sizeof(float)));
  begin.access.write(range_of(call.update, update_.image_bytes()));
  begin.queue = [this, call](CudaQueue& queue) { gpu_.module().steps->begin_scaled(call, queue); };
  pieces->push_back(std::move(begin));
}

void DeviceStep::add_compute(Slot& slot, const Work& work, std::vector<DeviceWork>* pieces) {
  const auto* const info = reinterpret_cast<const StepInfo*>(slot.device.data());
  const auto* const ids = reinterpret_cast<const int64_t*>(slot.device.data() + layout_of(work).ids);
  PlanRun* const run = &plans_.at(work.examples);
  if (work.gather) {
    const std::vector<std::byte*> to = gathered_by(run->plan());
    DeviceWork gather{.what = "the gathering of a batch"};
    for (size_t f = 0; f < to.size(); ++f) gather.access.write(range_of(to[f], gathered_[f].bytes()));
    gather.queue = [this, ids, to, n = work.examples](CudaQueue& queue) { data_->gather(gpu_, ids, n, to, queue); };
    pieces->push_back(std::move(gather));
  }
  bind_inputs(*run, slot, work);
  if (scale_.data()) add_scale(slot, work, pieces);
  DeviceWork packs{.what = "the packing of parameters", .access = run->packs_access()};
  packs.queue = [run](CudaQueue& queue) { run->queue_packs(queue); };
  if (!packs.access.writes.empty()) pieces->push_back(std::move(packs));
  std::shared_ptr<DeviceCheck> check;
  if (checked_) {
    StepInfo here = *reinterpret_cast<const StepInfo*>(host(slot));
    here.example_ids = reinterpret_cast<const int64_t*>(host(slot) + layout_of(work).ids);
    check = std::make_shared<DeviceCheck>(gpu_, *run, here);
    const std::string& unchecked = check->unchecked();
    if (!unchecked.empty() && unchecked != unchecked_) warn((unchecked_ = unchecked) + ": there is no reference to compare with");
  }
  for (size_t i = 0; i < run->plan().steps().size(); ++i)
    pieces->push_back(
        {.what = step_name(run->plan().steps()[i]), .access = run->access(i), .queue = [run, i, info, check](CudaQueue& queue) {
           if (check) check->run_step(i, queue, info);
           else run->queue_step(i, queue, info);
         }});
  add_judge(slot, work, *run, pieces);
}

void DeviceStep::add_judge(Slot& slot, const Work& work, const PlanRun& run, std::vector<DeviceWork>* pieces) {
  const View output = labels_ ? run.output("output") : View{};
  const View loss = run.output("loss");
  const bool counts = labels_ && output.rank == 2 && output.contiguous() && output.dtype == loss.dtype;
  const size_t target = model_.model().spec().inputs.size();
  const std::byte* const labels = work.gather ? gathered_[target].data() : slot.device.data() + layout_of(work).fields[target];
  const CudaJudgeCall call{.loss = loss,
                           .output = counts ? output : View{},
                           .labels = reinterpret_cast<const int64_t*>(labels),
                           .counter = counter(),
                           .stopped = stopped(),
                           .update = work.part == Part::whole && work.of == 0 ? image(slot) : nullptr,
                           .record = record(slot),
                           .shares = work.of > 0 ? reinterpret_cast<double*>(shares_.data()) : nullptr};
  DeviceWork judge{.what = "the sum of the losses"};
  judge.access.read(range_of(loss));
  judge.access.read(range_of(call.output));
  judge.access.read(range_of(labels, static_cast<size_t>(work.examples) * sizeof(int64_t)));
  judge.access.write(range_of(words_.data(), words_.bytes()));
  judge.access.write(range_of(call.update, sizeof(CudaUpdate)));
  judge.access.write(range_of(call.record, sizeof *call.record));
  judge.access.write(range_of(shares_.data(), shares_.bytes()));
  judge.queue = [this, call](CudaQueue& queue) { gpu_.module().steps->judge(call, queue); };
  pieces->push_back(std::move(judge));
}

void DeviceStep::add_commits(PlanRun& run, const int32_t* skip, std::vector<DeviceWork>* pieces) {
  DeviceWork commit{.what = "the commit of states"};
  commit.access.read(range_of(skip, sizeof *skip));
  std::vector<CudaCommit> states;
  run.for_each_commit([&](void* to, const void* from, size_t bytes) {
    commit.access.read(range_of(from, bytes));
    commit.access.write(range_of(to, bytes));
    states.push_back({to, from, static_cast<int64_t>(bytes)});
  });
  if (states.empty()) return;
  commit.queue = [this, states, skip](CudaQueue& queue) { gpu_.module().steps->commit(states.data(), states.size(), skip, queue); };
  pieces->push_back(std::move(commit));
}

std::vector<DeviceWork> DeviceStep::work_of(Slot& slot, const Work& work) {
  std::vector<DeviceWork> pieces;
  if (work.part != Part::update) add_compute(slot, work, &pieces);
  const CudaScaleCall scale = scale_.data() && work.part != Part::update ? scaling(slot, work) : CudaScaleCall{};
  if (scale.scale && work.part == Part::compute) pieces.push_back(update_.end_of_scaling(scale));
  if (work.part != Part::compute) update_.add(image(slot), record(slot), scale.scale ? &scale : nullptr, &pieces);
  if (work.part == Part::whole) add_commits(plans_.at(work.examples), &image(slot)->skip, &pieces);
  return pieces;
}

}  // namespace perigee
