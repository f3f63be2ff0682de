// What a trainer takes of a GPU, before it takes it and when there is not enough.
#include <cmath>

#include "src/train/device/device_team.h"
#include "src/train/trainer_worker.h"

namespace perigee {

struct Trainer::DeviceShare {
  int64_t examples = 0, gpus = 1;
  bool copied = false;  // sums over the GPUs are copies between them
};

int64_t Trainer::share_of(int64_t batch) const {
  const int64_t gpus = gpus_ ? static_cast<int64_t>(gpus_->size()) : 1;
  return (batch + gpus - 1) / gpus;
}

Trainer::DeviceShare Trainer::share_here(int64_t examples) const {
  return {.examples = examples, .gpus = static_cast<int64_t>(gpus_->size()), .copied = gpus_->copies()};
}

DeviceMemory Trainer::plan_device(PlanSet* training, PlanSet* evaluation, const DeviceShare& share, bool resident) const {
  std::vector<int> fields = input_fields_;
  fields.insert(fields.end(), target_fields_.begin(), target_fields_.end());
  const int parts = (has_part("validation") ? 1 : 0) + (has_part("test") ? 1 : 0);
  size_t copied = 0;
  if (share.copied) {
    copied = model_->params().state_bytes().size();
    for (const Optimizer::Range& bucket : buckets_.empty() ? cut_block(model_->params(), kGroupBucket) : buckets_)
      copied = std::max(copied, bytes_of(bucket.end - bucket.begin));
  }
  return plan_device_memory({.model = *model_,
                             .training = training,
                             .evaluation = parts > 0 ? evaluation : nullptr,
                             .optimizer = *optimizer_,
                             .slots = slots_.size(),
                             .source = *train_,
                             .fields = fields,
                             .batch = share.examples,
                             .evaluated_parts = parts,
                             .gpus = share.gpus,
                             .copied = copied,
                             .resident = resident,
                             .scaled = scale_.has_value()});
}

DeviceMemory Trainer::planned_device_memory(int64_t gpus) const {
  PlanSet training(*model_, PlanSet::Kind::training, Backend::cuda), evaluation(*model_, PlanSet::Kind::inference_with_loss, Backend::cuda);
  DeviceShare share;
  if (gpus_) {
    share = share_here(share_of(batch_));
  } else {  // batch_ is what one GPU takes, unless the job says what all do
    const Config data = Config(job_.json(), job_.where()).object("data");
    const int64_t global = gpus > 1 ? data.integer_in("global_batch", 0, int64_t{1} << 24, 0) : 0;
    const Json* const fixed_order = job_.json().find("deterministic");
    share = {.examples = global > 0 ? (global + gpus - 1) / gpus : batch_,
             .gpus = gpus,
             .copied = gpus > 1 && fixed_order && *fixed_order == Json(true)};
  }
  const size_t limit = memory_limit_of(job_);
  const DeviceMemory fixed = plan_device(nullptr, nullptr, share, false);
  training.set_recompute(RecomputeOptions::of(job_), limit == 0 ? SIZE_MAX : limit - std::min(limit, fixed.total()));
  const DeviceMemory resident = plan_device(&training, &evaluation, share, true);
  const bool fits = device_ ? device_->resident() : limit == 0 || (resident.data_set <= limit / 2 && resident.total() <= limit);
  return resident.data_set > 0 && fits ? resident : plan_device(&training, &evaluation, share, false);
}

DeviceMemory Trainer::device_memory() const { return device_ ? device_->memory() : DeviceMemory{}; }
std::vector<DeviceTaken> Trainer::device_taken() const { return device_ ? device_->taken() : std::vector<DeviceTaken>{}; }

// Sets what activations may take, and gives what is left to the data set. All is free but what others have, on the GPU that has least.
size_t Trainer::share_out(PlanSet& evaluation, DeviceMemory* need) {
  for (size_t i = 0; i < gpus_->size(); ++i) {
    (*gpus_)[i].limit(memory_limit_of(job_));
    (*gpus_)[i].forget_kept();
  }
  size_t free = gpus_->free_bytes() / 20 * 19;  // kernels that are loaded later take some
  free -= std::min(free, static_cast<size_t>(options_.blocks_beside) * model_->params().block_bytes());
  const DeviceShare share = share_here(share_of(batch_));
  const DeviceMemory fixed = plan_device(nullptr, nullptr, share, false);
  plans_->set_recompute(RecomputeOptions::of(job_), free - std::min(free, fixed.total()));
  *need = plan_device(plans_.get(), &evaluation, share, false);
  const size_t room = free - std::min(free, need->total());
  // A batch that is gathered takes another buffer.
  const DeviceMemory with_data = plan_device(plans_.get(), &evaluation, share, true);
  const size_t more = with_data.total() - with_data.data_set > need->total() ? with_data.total() - with_data.data_set - need->total() : 0;
  return room - std::min(room, more);
}

namespace {

// "a batch of 64", "a batch of 256, 64 on each of 4 GPUs,".
std::string batch_text(int64_t batch, int64_t gpus) {
  if (gpus == 1) return "a batch of " + std::to_string(batch);
  return "a batch of " + std::to_string(batch) + ", " + std::to_string((batch + gpus - 1) / gpus) + (batch % gpus > 0 ? " at most" : "") +
         " on each of " + std::to_string(gpus) + " GPUs,";
}

}  // namespace

// How a smaller batch is asked for: "batch" is one GPU's, "global_batch" that of all.
std::string Trainer::smaller_batch(int64_t share) const {
  const auto gpus = static_cast<int64_t>(gpus_->size());
  const Json* const global = gpus > 1 ? job_.json().find("data")->find("global_batch") : nullptr;
  return global && *global != Json(0) ? "--set data.global_batch=" + std::to_string(share * gpus) : "--batch " + std::to_string(share);
}

// What went wrong, with what is largest and a batch that was planned and fits, on the GPU that has least.
Error Trainer::no_room(const Error& error, int64_t examples) const {
  if (error.kind() != ErrorKind::resources || !error.parts().what.starts_with("no memory is left on the GPU")) return error;
  const auto gpus = static_cast<int64_t>(gpus_->size());
  const int64_t share = share_of(examples);
  const size_t free = gpus_->room() / 20 * 19;
  PlanSet training(*model_, PlanSet::Kind::training, Backend::cuda, &tuning_);
  const size_t fixed = plan_device(nullptr, nullptr, share_here(share), false).total();
  const RecomputeOptions options = RecomputeOptions::of(job_);
  training.set_recompute(options, free - std::min(free, fixed));
  const auto need = [&](int64_t batch) { return plan_device(&training, nullptr, share_here(batch), false); };
  int64_t fits = share / 2;
  while (fits > 0 && need(fits).total() > free) fits /= 2;
  const DeviceMemory wanted = need(share);
  Error::Parts parts = error.parts();
  parts.what = batch_text(examples, gpus) + " needs more memory than the GPU has";
  parts.got += "; " + mebibytes(wanted.total()) + " are needed" + (gpus > 1 ? " of each" : "") + ": activations " +
               mebibytes(wanted.training) + ", parameters, gradients and optimiser " +
               mebibytes(wanted.parameters + wanted.states + wanted.gradients + wanted.optimizer) + ", batches " +
               mebibytes(wanted.batches) + (wanted.sums > 0 ? ", sums over the GPUs " + mebibytes(wanted.sums) : "");
  parts.expected = "the largest are " + largest_tensors(*training.plan(share), model_->params());
  parts.hint = fits > 0 ? batch_text(fits * gpus, gpus) + " fits: " + smaller_batch(fits)
                        : "no batch fits beside the parameters; use a smaller network or another GPU";
  if (options.mode == RecomputeOptions::Mode::none) {
    PlanSet again(*model_, PlanSet::Kind::training, Backend::cuda, &tuning_);
    again.set_recompute({.mode = RecomputeOptions::Mode::automatic}, free - std::min(free, fixed));
    const RecomputeChoice choice = again.choice(share);
    if (choice.plan->arena_bytes() + fixed <= free && choice.flops > 0)
      parts.hint += "; or recompute = \"auto\": with " + std::to_string(std::lround(100 * choice.added_flops / choice.flops)) +
                    " % more operations this batch fits";
  }
  return Error(ErrorKind::resources, parts);
}

}  // namespace perigee
