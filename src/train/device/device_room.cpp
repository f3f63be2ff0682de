#include "src/train/device/device_room.h"

#include <algorithm>
#include <cmath>

#include "src/model/plans/recompute.h"
#include "src/train/gradient_buckets.h"

namespace perigee {

DeviceShare share_of(const GpuGroup& gpus, int64_t batch) {
  const auto count = static_cast<int64_t>(gpus.size());
  return {.examples = (batch + count - 1) / count, .gpus = count, .copied = gpus.copies()};
}

DeviceMemory plan_device(const TrainingSetup& t, PlanSet* plans, PlanSet* evaluation, const DeviceShare& share, bool resident) {
  const std::vector<int> fields = t.fields();
  const int parts = (t.has_part("validation") ? 1 : 0) + (t.has_part("test") ? 1 : 0);
  size_t copied = 0;
  if (share.copied) {
    copied = t.model->params().state_bytes().size();
    for (const Optimizer::Range& bucket : t.buckets.empty() ? cut_block(t.model->params(), kGroupBucket) : t.buckets)
      copied = std::max(copied, t.bytes_of(bucket.end - bucket.begin));
  }
  return plan_device_memory({.model = *t.model,
                             .training = plans,
                             .evaluation = parts > 0 ? evaluation : nullptr,
                             .optimizer = *t.optimizer,
                             .slots = t.slots.size(),
                             .source = *t.source,
                             .fields = fields,
                             .batch = share.examples,
                             .evaluated_parts = parts,
                             .gpus = share.gpus,
                             .copied = copied,
                             .resident = resident,
                             .scaled = t.scale.has_value(),
                             .summed = t.batch != t.at_once,
                             .averaged = t.average != nullptr,
                             .streams = t.model->carried().empty() ? 0 : t.streams});
}

DeviceMemory planned_device_memory(const TrainingSetup& t, const DeviceShare& share, std::optional<bool> resident) {
  PlanSet plans(*t.model, PlanSet::Kind::training, Backend::cuda), evaluation(*t.model, PlanSet::Kind::inference_with_loss, Backend::cuda);
  plans.set_carry(Carry::stated);
  const size_t limit = memory_limit_of(t.job);
  const DeviceMemory fixed = plan_device(t, nullptr, nullptr, share, false);
  plans.set_recompute(RecomputeOptions::of(t.job), limit == 0 ? SIZE_MAX : limit - std::min(limit, fixed.total()));
  const DeviceMemory whole = plan_device(t, &plans, &evaluation, share, true);
  const bool fits = resident.value_or(limit == 0 || (whole.data_set <= limit / 2 && whole.total() <= limit));
  return whole.data_set > 0 && fits ? whole : plan_device(t, &plans, &evaluation, share, false);
}

// The batch is what one GPU takes, unless the job says what all do.
DeviceMemory planned_device_memory(const TrainingSetup& t, int64_t gpus) {
  const Config data = Config(t.job.json(), t.job.where()).object("data");
  const int64_t global = gpus > 1 ? data.integer_in("global_batch", 0, int64_t{1} << 24, 0) : 0;
  const Json* const fixed_order = t.job.json().find("deterministic");
  const DeviceShare share{.examples = global > 0 ? (global + gpus - 1) / gpus : t.at_once,
                          .gpus = gpus,
                          .copied = gpus > 1 && fixed_order && *fixed_order == Json(true)};
  return planned_device_memory(t, share, std::nullopt);
}

DeviceRoom share_out(const TrainingSetup& t, GpuGroup& gpus, PlanSet& plans, PlanSet& evaluation) {
  for (size_t i = 0; i < gpus.size(); ++i) {
    gpus[i].limit(memory_limit_of(t.job));
    gpus[i].forget_kept();
  }
  size_t free = gpus.free_bytes() / 20 * 19;  // kernels that are loaded later take some
  free -= std::min(free, static_cast<size_t>(t.options.blocks_beside) * t.model->params().block_bytes());
  const DeviceShare share = share_of(gpus, t.at_once);
  const DeviceMemory fixed = plan_device(t, nullptr, nullptr, share, false);
  plans.set_recompute(RecomputeOptions::of(t.job), free - std::min(free, fixed.total()));
  const DeviceMemory need = plan_device(t, &plans, &evaluation, share, false);
  const size_t room = free - std::min(free, need.total());
  // A batch that is gathered takes another buffer.
  const DeviceMemory with_data = plan_device(t, &plans, &evaluation, share, true);
  const size_t more = with_data.total() - with_data.data_set > need.total() ? with_data.total() - with_data.data_set - need.total() : 0;
  return {.need = need, .data_set = room - std::min(room, more)};
}

namespace {

// "a batch of 64", "a batch of 256, 64 on each of 4 GPUs,".
std::string batch_text(int64_t batch, int64_t gpus) {
  if (gpus == 1) return "a batch of " + std::to_string(batch);
  return "a batch of " + std::to_string(batch) + ", " + std::to_string((batch + gpus - 1) / gpus) + (batch % gpus > 0 ? " at most" : "") +
         " on each of " + std::to_string(gpus) + " GPUs,";
}

// How a smaller batch is asked for: "batch" is one GPU's, "global_batch" that of all.
std::string smaller_batch(const TrainingSetup& t, int64_t gpus, int64_t share) {
  const Json* const global = gpus > 1 ? t.job.json().find("data")->find("global_batch") : nullptr;
  return global && *global != Json(0) ? "--set data.global_batch=" + std::to_string(share * gpus) : "--batch " + std::to_string(share);
}

// Empty where computing activations again does not make room for the batch either.
std::string recompute_hint(const TrainingSetup& t, int64_t examples, size_t free, size_t fixed) {
  PlanSet plans(*t.model, PlanSet::Kind::training, Backend::cuda, &t.tuning);
  plans.set_carry(Carry::stated);
  plans.set_recompute({.mode = RecomputeOptions::Mode::automatic}, free - std::min(free, fixed));
  const RecomputeChoice choice = plans.choice(examples);
  if (choice.plan->arena_bytes() + fixed > free || choice.flops <= 0) return "";
  return "; or recompute = \"auto\": with " + std::to_string(std::lround(100 * choice.added_flops / choice.flops)) +
         " % more operations this batch fits";
}

}  // namespace

Error no_room(const TrainingSetup& t, GpuGroup* group, const Error& error, int64_t examples) {
  if (!group || error.kind() != ErrorKind::resources || !error.parts().what.starts_with("no memory is left on the GPU")) return error;
  const DeviceShare share = share_of(*group, examples);
  const int64_t gpus = share.gpus;
  const size_t free = group->room() / 20 * 19;
  PlanSet plans(*t.model, PlanSet::Kind::training, Backend::cuda, &t.tuning);
  plans.set_carry(Carry::stated);
  const size_t fixed = plan_device(t, nullptr, nullptr, share, false).total();
  const RecomputeOptions options = RecomputeOptions::of(t.job);
  plans.set_recompute(options, free - std::min(free, fixed));
  const auto need = [&](int64_t batch) {
    return plan_device(t, &plans, nullptr, {.examples = batch, .gpus = gpus, .copied = share.copied}, false);
  };
  int64_t fits = share.examples / 2;
  while (fits > 0 && need(fits).total() > free) fits /= 2;
  const DeviceMemory wanted = need(share.examples);
  Error::Parts parts = error.parts();
  parts.what = batch_text(examples, gpus) + " needs more memory than the GPU has";
  parts.got += "; " + mebibytes(wanted.total()) + " are needed" + (gpus > 1 ? " of each" : "") + ": activations " +
               mebibytes(wanted.training) + ", parameters, gradients and optimiser " +
               mebibytes(wanted.parameters + wanted.states + wanted.gradients + wanted.optimizer) + ", batches " +
               mebibytes(wanted.batches) + (wanted.sums > 0 ? ", sums over the GPUs " + mebibytes(wanted.sums) : "");
  parts.expected = "the largest are " + largest_tensors(*plans.plan(share.examples), t.model->params());
  parts.hint = fits > 0 ? batch_text(fits * gpus, gpus) + " fits: " + smaller_batch(t, gpus, fits)
                        : "no batch fits beside the parameters; use a smaller network or another GPU";
  if (options.mode == RecomputeOptions::Mode::none) parts.hint += recompute_hint(t, share.examples, free, fixed);
  return Error(ErrorKind::resources, parts);
}

}  // namespace perigee
