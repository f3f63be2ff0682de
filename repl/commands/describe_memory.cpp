#include "repl/commands/describe_memory.h"

#include <cstdio>

#include "cluster/replica/replica_memory.h"
#include "src/device/cuda_module.h"
#include "src/train/device/device_memory.h"
#include "src/train/trainer.h"

namespace perigee {
namespace {

std::string with_operations(const RecomputeChoice& choice) {
  char text[160];
  const double share = choice.flops > 0 ? 100 * choice.added_flops / choice.flops : 0;
  std::snprintf(text, sizeof text, "%s with %.1f %% more operations (%s)", mebibytes(choice.plan->arena_bytes()).c_str(), share,
                choice.how.c_str());
  return text;
}

// What backward's operands take if they are kept, and what else could be done.
void describe_recompute(Trainer& trainer, Backend backend) {
  const int64_t examples = backend == Backend::cuda ? trainer.share_of(trainer.batch()) : trainer.sub_batch();
  PlanSet kept(trainer.model(), PlanSet::Kind::training, backend), again(trainer.model(), PlanSet::Kind::training, backend);
  again.set_recompute({.mode = RecomputeOptions::Mode::all}, SIZE_MAX);
  std::printf("activations of %lld examples: %s; recompute = \"all\": %s\n", static_cast<long long>(examples),
              mebibytes(kept.plan(examples)->arena_bytes()).c_str(), with_operations(again.choice(examples)).c_str());
  if (RecomputeOptions::of(trainer.job()).mode == RecomputeOptions::Mode::none) return;
  const bool here = (backend == Backend::cuda) == (trainer.backend() == Backend::cuda);
  if (here) std::printf("of this job: %s\n", with_operations(trainer.plans().choice(examples)).c_str());
}

// What there is on each GPU now.
void print_taken(const Trainer& trainer) {
  for (const DeviceTaken& taken : trainer.device_taken()) {
    std::printf("taken of %s: %s", taken.device.c_str(), mebibytes(taken.peak).c_str());
    if (taken.of_sums > 0) std::printf("; by NCCL: %s", mebibytes(taken.of_sums).c_str());
    std::printf(" before the first step; by CUDA's context, libraries and others: %s\n", mebibytes(taken.of_others).c_str());
  }
}

}  // namespace

void describe_memory(Trainer& trainer, const std::string& device, const std::string& why, int64_t gpus) {
  const bool on_gpu = trainer.backend() == Backend::cuda;
  std::string missing;
  if (!on_gpu && !device.starts_with("cuda")) return describe_recompute(trainer, trainer.backend());
  const CudaModule* const module = cuda_module(&missing);
  if (!module) {
    std::printf("what it takes on a GPU is not known: %s\n", missing.c_str());
    return describe_recompute(trainer, trainer.backend());
  }
  const std::string where = gpus > 1 ? "each of " + std::to_string(gpus) + " GPUs" : "the GPU";
  DeviceMemory memory = trainer.planned_device_memory(gpus);
  memory.replica = replica_device_bytes(trainer, *module);
  std::printf("memory on %s, planned (CUDA's context and libraries%s apart):\n%s", where.c_str(), gpus > 1 ? ", NCCL's buffers" : "",
              memory.text().c_str());
  if (on_gpu) print_taken(trainer);
  else
    std::printf("device %s: %s; the other figures are a CPU's, and what the context and libraries take is not known\n", device.c_str(),
                why.c_str());
  describe_recompute(trainer, Backend::cuda);
}

}  // namespace perigee
