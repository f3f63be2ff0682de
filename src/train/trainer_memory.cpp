// What a trainer takes of a GPU, before it takes it and when there is not enough.
#include <cmath>

#include "src/train/device_team.h"
#include "src/train/trainer_worker.h"

namespace perigee {

DeviceMemory Trainer::plan_device(PlanSet* training, PlanSet* evaluation, int64_t batch, bool resident) const {
  std::vector<int> fields = input_fields_;
  fields.insert(fields.end(), target_fields_.begin(), target_fields_.end());
  const int64_t gpus = gpus_ ? static_cast<int64_t>(gpus_->size()) : 1;
  const int parts = (has_part("validation") ? 1 : 0) + (has_part("test") ? 1 : 0);
  return plan_device_memory({.model = *model_,
                             .training = training,
                             .evaluation = parts > 0 ? evaluation : nullptr,
                             .optimizer = *optimizer_,
                             .slots = slots_.size(),
                             .source = *train_,
                             .fields = fields,
                             .batch = (batch + gpus - 1) / gpus,
                             .evaluated_parts = parts,
                             .gpus = gpus,
                             .resident = resident,
                             .scaled = scale_.has_value()});
}

DeviceMemory Trainer::planned_device_memory() const {
  PlanSet training(*model_, PlanSet::Kind::training, Backend::cuda), evaluation(*model_, PlanSet::Kind::inference_with_loss, Backend::cuda);
  const size_t limit = memory_limit_of(job_);
  const DeviceMemory fixed = plan_device(nullptr, nullptr, batch_, false);
  training.set_recompute(RecomputeOptions::of(job_), limit == 0 ? SIZE_MAX : limit - std::min(limit, fixed.total()));
  const DeviceMemory resident = plan_device(&training, &evaluation, batch_, true);
  const bool fits = device_ ? device_->resident() : limit == 0 || (resident.data_set <= limit / 2 && resident.total() <= limit);
  return resident.data_set > 0 && fits ? resident : plan_device(&training, &evaluation, batch_, false);
}

DeviceMemory Trainer::device_memory() const { return device_ ? device_->memory() : DeviceMemory{}; }
size_t Trainer::bytes_of_others() const { return device_ ? device_->bytes_of_others() : 0; }

// Sets what activations may take, and gives what is left to the data set. All is free but what others have.
size_t Trainer::share_out(PlanSet& evaluation, DeviceMemory* need) {
  size_t free = SIZE_MAX;
  for (size_t i = gpus_->size(); i-- > 0;) {
    Gpu& gpu = (*gpus_)[i];
    gpu.limit(memory_limit_of(job_));
    gpu.forget_kept();
    free = std::min(free, gpu.free_bytes() / 20 * 19);  // kernels that are loaded later take some
  }
  const DeviceMemory fixed = plan_device(nullptr, nullptr, batch_, false);
  plans_->set_recompute(RecomputeOptions::of(job_), free - std::min(free, fixed.total()));
  *need = plan_device(plans_.get(), &evaluation, batch_, false);
  const size_t room = free - std::min(free, need->total());
  // A batch that is gathered takes another buffer.
  const DeviceMemory with_data = plan_device(plans_.get(), &evaluation, batch_, true);
  const size_t more = with_data.total() - with_data.data_set > need->total() ? with_data.total() - with_data.data_set - need->total() : 0;
  return room - std::min(room, more);
}

// What went wrong, with what is largest and a batch that was planned and fits.
Error Trainer::no_room(const Error& error, int64_t examples) const {
  if (error.kind() != ErrorKind::resources || !error.parts().what.starts_with("no memory is left on the GPU")) return error;
  Gpu& gpu = gpus_->first();
  const size_t free = (gpu.free_bytes() + gpu.held()) / 20 * 19;
  PlanSet training(*model_, PlanSet::Kind::training, Backend::cuda, &tuning_);
  const size_t fixed = plan_device(nullptr, nullptr, examples, false).total();
  const RecomputeOptions options = RecomputeOptions::of(job_);
  training.set_recompute(options, free - std::min(free, fixed));
  const auto need = [&](int64_t batch) { return plan_device(&training, nullptr, batch, false); };
  int64_t fits = examples / 2;
  while (fits > 0 && need(fits).total() > free) fits /= 2;
  const DeviceMemory wanted = need(examples);
  Error::Parts parts = error.parts();
  parts.what = "a batch of " + std::to_string(examples) + " needs more memory than the GPU has";
  parts.got += "; " + mebibytes(wanted.total()) + " are needed: activations " + mebibytes(wanted.training) +
               ", parameters, gradients and optimiser " +
               mebibytes(wanted.parameters + wanted.states + wanted.gradients + wanted.optimizer) + ", batches " +
               mebibytes(wanted.batches);
  parts.expected = "the largest are " + largest_tensors(*training.plan(examples), model_->params());
  parts.hint = fits > 0 ? "a batch of " + std::to_string(fits) + " fits: --batch " + std::to_string(fits)
                        : "no batch fits beside the parameters; use a smaller network or another GPU";
  if (options.mode == RecomputeOptions::Mode::none) {
    PlanSet again(*model_, PlanSet::Kind::training, Backend::cuda, &tuning_);
    again.set_recompute({.mode = RecomputeOptions::Mode::automatic}, free - std::min(free, fixed));
    const RecomputeChoice choice = again.choice(examples);
    if (choice.plan->arena_bytes() + fixed <= free && choice.flops > 0)
      parts.hint += "; or recompute = \"auto\": with " + std::to_string(std::lround(100 * choice.added_flops / choice.flops)) +
                    " % more operations this batch fits";
  }
  return Error(ErrorKind::resources, parts);
}

}  // namespace perigee
