#include "cluster/launch/describe_job.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "cluster/codec/codec.h"
#include "cluster/codec/cuda_codec.h"
#include "cluster/launch/cluster_job.h"
#include "cluster/launch/worker_gpus.h"
#include "cluster/replica/replica_memory.h"
#include "src/device/cuda_module.h"
#include "src/device/gpu.h"
#include "src/model/device/device_choice.h"
#include "src/nn/describe_network.h"
#include "src/train/device/device_memory_json.h"
#include "src/train/trainer.h"

namespace perigee {
namespace {

Json bytes_of(const RecomputeChoice& choice) {
  const double share = choice.flops > 0 ? 100 * choice.added_flops / choice.flops : 0;
  return Json(
      Json::Object{{"bytes", static_cast<int64_t>(choice.plan->arena_bytes())}, {"more_operations_percent", share}, {"how", choice.how}});
}

// The memory of backward's operands when they are kept, and when they are computed again.
Json describe_activations(Trainer& trainer, Backend backend) {
  const int64_t examples = backend == Backend::cuda ? trainer.share_of(trainer.batch_at_once()) : trainer.sub_batch();
  PlanSet kept(trainer.model(), PlanSet::Kind::training, backend), again(trainer.model(), PlanSet::Kind::training, backend);
  again.set_recompute({.mode = RecomputeOptions::Mode::all}, SIZE_MAX);
  Json told = Json(Json::Object{{"examples", examples},
                                {"bytes", static_cast<int64_t>(kept.plan(examples)->arena_bytes())},
                                {"recompute_all", bytes_of(again.choice(examples))}});
  const bool here = (backend == Backend::cuda) == (trainer.backend() == Backend::cuda);
  if (here && RecomputeOptions::of(trainer.job()).mode != RecomputeOptions::Mode::none)
    told.set("of_job", bytes_of(trainer.plans().choice(examples)));
  return told;
}

// Memory that is taken on each GPU now.
Json describe_taken(const Trainer& trainer) {
  Json list = Json::array();
  for (const DeviceTaken& taken : trainer.device_taken())
    list.push(Json::Object{{"device", taken.device},
                           {"bytes", static_cast<int64_t>(taken.peak)},
                           {"sums_bytes", static_cast<int64_t>(taken.of_sums)},
                           {"others_bytes", static_cast<int64_t>(taken.of_others)}});
  return list;
}

// `missing`: why the job's device is not there.
Json describe_memory(Trainer& trainer, const std::string& device, const std::string& missing, int64_t gpus) {
  const bool on_gpu = trainer.backend() == Backend::cuda;
  Json told = Json::object();
  std::string why;
  const bool asked = on_gpu || device.starts_with("cuda");
  const CudaModule* const module = asked ? cuda_module(&why) : nullptr;
  if (asked && !module) told.set("unknown", why);
  if (module) {
    DeviceMemory memory = trainer.planned_device_memory(gpus);
    memory.replica = replica_device_bytes(trainer, *module);
    told.set("gpus", gpus);
    told.set("planned", to_json(memory));
    if (on_gpu) told.set("taken", describe_taken(trainer));
    else told.set("missing", missing);
  }
  told.set("activations", describe_activations(trainer, module ? Backend::cuda : trainer.backend()));
  return told;
}

// The fast kernels of a CPU are of float32.
Json describe_precision(Trainer& trainer, Backend backend) {
  Json told = Json::object();
  if (trainer.job().tf32()) told.set("tf32", backend == Backend::cuda);
  if (const LossScale* scale = trainer.loss_scale())
    told.set("loss_scale", Json::Object{{"scale", static_cast<double>(scale->scale)}, {"dynamic", scale->dynamic != 0}});
  if (backend == Backend::cuda || (trainer.model().params().dtype() == Dtype::f32 && !trainer.model().spec().half)) return told;
  const std::shared_ptr<const Plan> plan = PlanSet(trainer.model(), PlanSet::Kind::training).plan(1);
  const auto reference =
      std::count_if(plan->steps().begin(), plan->steps().end(), [](const PlanStep& step) { return step.kernel->backend == Backend::ref; });
  told.set("precision", *trainer.job().json().find("precision"));
  told.set("kernels", static_cast<int64_t>(plan->steps().size()));
  told.set("reference_kernels", static_cast<int64_t>(reference));
  return told;
}

// The place where codecs of workers on GPUs work.
Json describe_codec(const Job& job, const Policy& policy, Backend backend, int64_t gpus) {
  Json told = Json::object();
  if (const std::string left_out = only_between_processes(job.json(), job.where()); !left_out.empty()) {
    told.set("between_processes", left_out);
    told.set("gpus", gpus);
  }
  if (backend != Backend::cuda || !policy.coded()) return told;
  std::string why;
  const CudaModule* const module = cuda_module(&why);
  if (gpus > 1) why = "the gradients of several GPUs meet there";
  else if (policy.partial()) why = "fragments are merged there";
  else if (policy.adds_parts()) why = "what it makes is added up there";
  else if (module && make_cuda_codec(*make_codec(&policy.codec, job.where()), *module->codecs, &why)) why.clear();
  told.set("on_gpu", why.empty());
  told.set("why_on_host", why);
  return told;
}

Json describe_placement(const Job& job, const Policy& policy, const DataSource& source) {
  const DataPlacement placement = read_placement(Config(job.json(), job.where()).object("data"));
  double bytes = 0;
  for (const Field& field : source.fields())
    bytes += static_cast<double>(field.shape.elements()) * static_cast<double>(dtype_bytes(field.dtype));
  return Json(Json::Object{{"at_coordinator", placement.at_coordinator},
                           {"example_bytes", bytes},
                           {"verify_full", placement.verify_full},
                           {"shards", data_shards(job, policy, source.size())}});
}

}  // namespace

// Parameters that stay as they are: by a layer's "trainable", or by "pretrained.freeze".
Json describe_frozen(const Trainer& trainer) {
  const Params& params = trainer.shape().params();
  Json names = Json::array();
  int64_t elements = 0;
  for (size_t i = 0; i < params.specs().size(); ++i) {
    const std::string& name = params.specs()[i].name;
    if (params.windows()[i].trainable) continue;
    names.push(name);
    elements += params.specs()[i].shape.elements();
  }
  return Json(Json::Object{{"parameters", std::move(names)}, {"elements", elements}});
}

Json describe_job(const Job& job) {
  // On a device as it would be trained; without a GPU, what a CPU would do.
  TrainerOptions where_to;
  std::string why;
  const std::string device = device_of(job.json());
  const int64_t gpus = gpus_of_worker(job.json(), job.where());  // of one process
  where_to.use(choose_device(device, job.where() + ": device", 0, static_cast<int>(gpus)));
  const bool planned = device.starts_with("cuda") && Gpu::count(&why) == 0;
  if (planned) where_to = {};
  Trainer trainer(job, where_to);
  Json told = Json(Json::Object{{"name", job.name()}, {"data", trainer.train_source().traits().description}});
  const ModelSpec& spec = trainer.model().spec();
  told.set("network", describe_network(Network(spec.network, spec.where), spec.inputs));
  told.set("frozen", describe_frozen(trainer));
  told.set("batch", trainer.batch()), told.set("threads", trainer.threads()), told.set("sub_batch", trainer.sub_batch());
  told.set("memory_bytes", static_cast<int64_t>(trainer.memory_bytes()));
  told.set("device", device);
  told.set("memory", describe_memory(trainer, device, why, gpus));
  const int64_t batch = trainer.batch() * (planned ? gpus : 1);  // "batch" is one GPU's
  told.set("effective_batch", batch);
  told.set("steps_per_epoch", std::ceil(static_cast<double>(trainer.train_source().size()) / static_cast<double>(batch)));
  trainer.optimizer().begin_step({});
  told.set("learning_rate", trainer.optimizer().learning_rate());
  told.set("precision", describe_precision(trainer, where_to.backend));
  const Policy policy = policy_of_job(job);
  told.set("names_averaging", job.json().find("averaging") != nullptr);
  told.set("averaging", describe_averaging(policy, job, trainer));
  told.set("codec", describe_codec(job, policy, where_to.backend, gpus));
  told.set("placement", describe_placement(job, policy, trainer.train_source()));
  return told;
}

}  // namespace perigee
