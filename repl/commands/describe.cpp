// `perigee describe`: a network as a table: layers, shapes, parameters, memory, arithmetic.
#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>

#include "cluster/codec/codec.h"
#include "cluster/codec/cuda_codec.h"
#include "cluster/codec/delta_codec.h"
#include "cluster/codec/gradient_codec.h"
#include "cluster/codec/parts_codec.h"
#include "cluster/exchange/collective.h"
#include "cluster/launch/cluster_session.h"
#include "cluster/launch/worker_gpus.h"
#include "cluster/policy/policy.h"
#include "repl/commands/command.h"
#include "repl/commands/describe_fragments.h"
#include "repl/commands/describe_inner.h"
#include "repl/commands/describe_memory.h"
#include "repl/commands/describe_table.h"
#include "repl/commands/load.h"
#include "repl/display/display.h"
#include "repl/signals.h"
#include "src/core/error.h"
#include "src/device/cuda_module.h"
#include "src/device/gpu.h"
#include "src/graph/op.h"
#include "src/model/device/device_choice.h"
#include "src/run/checkpoint.h"
#include "src/train/trainer.h"

namespace perigee {
namespace {

struct Options {
  std::string what;
  std::vector<std::string> settings;
  std::string device;
  bool json = false;
} options;

void declare(CLI::App& app) {
  app.add_option("what", options.what, "a script, a job, a model file or a run folder")->required();
  app.add_option("--set", options.settings, "set a value of the job first")->allow_extra_args(false);
  app.add_option("--device", options.device, "where it would be trained: cpu, cuda, cuda:N or auto; the default is the job's");
  app.add_flag("--json", options.json, "print the job as JSON");
}

void print_table(const Model& model) {
  const Network network(model.spec().network, model.spec().where);
  std::fputs(network_table(network, model.spec().inputs).c_str(), stdout);
}

// What one worker sends through a codec, in bytes: as a payload without its header, or as parts of sums.
struct CodedSize {
  int64_t elements = 0;
  double payload = 0, sums = 0;
};

// The whole block, tensor by tensor; `tensors` holds what it points to.
CodecSegment block_of(const Params& params, std::vector<CodecSegment>* tensors) {
  *tensors = codec_tensors(params.windows());
  return {.count = params.block_elements(), .tensors = tensors->data(), .tensor_count = tensors->size()};
}

CodedSize coded_size(const Policy& policy, const Job& job, const Params& params) {
  CodedSize size;
  if (!policy.coded()) return size;
  std::unique_ptr<Codec> codec = make_codec(&policy.codec, job.where());
  size.elements = policy.coded_steps() ? trainable_elements(params.windows()) : params.block_elements();
  if (policy.adds_parts()) {
    const PartsCodec parts(std::move(codec), params.windows(), params.block_elements(), 0);
    for (const int64_t pass : parts.passes()) size.sums += static_cast<double>(pass) * sizeof(float);
  } else {
    std::vector<CodecSegment> tensors;
    const CodecSegment block = policy.coded_steps() ? CodecSegment{.count = size.elements} : block_of(params, &tensors);
    size.payload = static_cast<double>(size.elements) * codec->bits_per_element(block) / 8;
  }
  return size;
}

// Each worker with the server by itself: what one exchange sends, each way.
void describe_served(const Policy& policy, const std::string& when, const std::string& what, const std::string& outer, double gain,
                     double up, Trainer& trainer) {
  const Params& params = trainer.model().params();
  const double block = static_cast<double>(params.block_bytes()), states = static_cast<double>(params.state_bytes().size());
  const std::string merged = policy.merge_every > 1 ? "of " + std::to_string(policy.merge_every) + " contributions" : "of one contribution";
  std::printf("averaging on several workers: %s: %s, %s, rounds %s%s, merge %s, with a server, staleness at most %lld; gain %.3g\n",
              policy.name.c_str(), when.c_str(), what.c_str(), merged.c_str(), outer.c_str(), policy.elastic ? "elastic" : "reset",
              static_cast<long long>(policy.max_staleness), gain);
  std::printf("bytes between a worker and the server in one exchange: up %s, down %s; accounting exact\n", bytes_text(up).c_str(),
              bytes_text(policy.elastic ? block : block + states).c_str());
}

// The policy as a point of the product space, and what its busiest worker sends in one exchange between four workers on four hosts.
void describe_averaging(const Job& job, Trainer& trainer) {
  const Policy policy = read_policy(job.json().find("averaging"), job.where());
  const bool parameters = policy.what == Policy::What::parameters;
  std::string when = "each step";
  if (policy.every_ms > 0) when = "every " + std::to_string(static_cast<int64_t>(policy.every_ms)) + " ms";
  else if (policy.pace.automatic)
    when = "every " + std::to_string(policy.pace.least) + " to " + std::to_string(policy.pace.most) + " steps, so that " +
           std::to_string(std::lround(100 * policy.pace.utilisation)) + " % of the time goes into training";
  else if (parameters) when = "every " + std::to_string(policy.every) + (policy.every == 1 ? " step" : " steps");
  if (policy.pace.by_speed) when += " of the fastest worker, fewer of slower ones in proportion";
  if (policy.sync_until > 0)
    when = "gradients each step until " + std::to_string(static_cast<int>(100 * policy.sync_until)) + " %, then " + when;
  std::string what = parameters ? "parameters" : policy.what == Policy::What::update ? "updates of each worker's optimiser" : "gradients";
  const CodedSize coded = coded_size(policy, job, trainer.model().params());
  if (policy.coded() && !policy.partial()) {
    const double bits = 8 * (coded.payload + coded.sums) / static_cast<double>(std::max<int64_t>(1, coded.elements));
    char text[64];
    std::snprintf(text, sizeof text, " as %s (%.3g bits each)", policy.codec.find("type")->as_string().c_str(), bits);
    what += text;
  }
  if (policy.average_optimizer) what += " and optimiser state";
  std::string synchrony = "barrier";
  if (policy.quorum < 1)
    synchrony = "quorum " + std::to_string(static_cast<int>(100 * policy.quorum)) + " %, grace " +
                std::to_string(static_cast<int64_t>(policy.grace_ms)) + " ms";
  synchrony += overlap_text(policy);
  const std::vector<std::string> hosts = {"a", "b", "c", "d"};
  const double gain = policy.gain(static_cast<double>(hosts.size()));
  std::string outer, note;
  if (!policy.outer.empty()) {
    outer = ", outer step";
    for (const OuterState& state : policy.outer.states())
      outer += (&state == &policy.outer.states()[0] ? " with state " : ", ") + state.name;
    note = " with 4 workers";
    if (gain > kSafeGain * static_cast<double>(hosts.size())) note += ", more than they are: a run may diverge";
  }
  if (policy.served)
    return describe_served(policy, when, what, outer, gain, static_cast<double>(kPayloadHeader) + coded.payload + coded.sums, trainer);
  std::printf("averaging on several workers: %s: %s, %s, %s%s, topology %s, %s; gain %.3g%s\n", policy.name.c_str(), when.c_str(),
              what.c_str(), policy.sums ? "added up" : "merged by examples", outer.c_str(), policy.topology.c_str(), synchrony.c_str(),
              gain, note.c_str());
  if (parameters && policy.guard.outlier > 0)
    std::printf("guards: a contribution of %g times the median change is left out%s\n", policy.guard.outlier,
                policy.guard.divergence ? "; a run that diverges is stopped" : "");
  if (policy.partial()) return describe_fragments(policy, trainer, job.where() + ": averaging");

  Params& params = trainer.model().params();
  const double block = static_cast<double>(params.block_bytes());
  const double payload = coded.payload > 0 ? static_cast<double>(kPayloadHeader) + coded.payload : 0;
  double bytes = (policy.coded() ? coded.sums : block) + static_cast<double>(params.state_bytes().size());
  if (policy.average_optimizer) bytes += block * static_cast<double>(trainer.optimizer_slots());
  std::printf("bytes that the busiest of 4 workers sends in one exchange:");
  for (const TopologyDef* topology : all_topologies()) {
    double most = 0;
    for (int rank = 0; rank < 4; ++rank)
      most = std::max(most, topology->bytes_sent(rank, hosts, bytes) + topology->gather_bytes_sent(rank, hosts, payload));
    std::printf(" %s %s%s", topology->name, bytes_text(most).c_str(), topology == all_topologies().back() ? "\n" : ",");
  }
  std::vector<CodecSegment> tensors;
  describe_inner(policy, block, bytes - (policy.coded() ? coded.sums : block), block_of(params, &tensors));
}

// The fast kernels of a CPU are of float32.
void describe_precision(Trainer& trainer, Backend backend) {
  if (trainer.job().tf32())
    std::printf("tf32: %s\n", backend == Backend::cuda ? "products may round their operands to 10 bits" : "a CPU has none: float32");
  if (const LossScale* scale = trainer.loss_scale())
    std::printf("fp16: the loss is scaled by %g, %s\n", static_cast<double>(scale->scale), scale->dynamic ? "to begin with" : "always");
  if (backend == Backend::cuda || (trainer.model().params().dtype() == Dtype::f32 && !trainer.model().spec().half)) return;
  const std::shared_ptr<const Plan> plan = PlanSet(trainer.model(), PlanSet::Kind::training).plan(1);
  const auto reference =
      std::count_if(plan->steps().begin(), plan->steps().end(), [](const PlanStep& step) { return step.kernel->backend == Backend::ref; });
  std::printf("%s: %lld of the %zu kernels of a step are the reference's, plain loops that take many times as long\n",
              trainer.job().json().find("precision")->as_string().c_str(), static_cast<long long>(reference), plan->steps().size());
}

// Of workers on GPUs: where their codecs work.
void describe_codec(const Job& job, Backend backend, int64_t gpus) {
  if (const std::string left_out = only_between_processes(job.json(), job.where()); !left_out.empty())
    std::printf("%s: between processes only; the %lld GPUs of one add up float32 gradients\n", left_out.c_str(),
                static_cast<long long>(gpus));
  const Policy policy = read_policy(job.json().find("averaging"), job.where());
  if (backend != Backend::cuda || !policy.coded()) return;
  std::string why;
  const CudaModule* const module = cuda_module(&why);
  if (gpus > 1) why = "the gradients of several GPUs meet there";
  else if (policy.partial()) why = "fragments are merged there";
  else if (policy.adds_parts()) why = "what it makes is added up there";
  else if (module && make_cuda_codec(*make_codec(&policy.codec, job.where()), *module->codecs, &why)) why.clear();
  std::printf("the codec works on the %s%s\n", why.empty() ? "GPU: payloads alone cross to the host" : "host: ", why.c_str());
}

void describe_placement(const Job& job, const DataSource& source) {
  const DataPlacement placement = read_placement(Config(job.json(), job.where()).object("data"));
  double bytes = 0;
  for (const Field& field : source.fields())
    bytes += static_cast<double>(field.shape.elements()) * static_cast<double>(dtype_bytes(field.dtype));
  if (placement.at_coordinator)
    std::printf("data on several workers: sent by the coordinator, about %s an example\n", bytes_text(bytes).c_str());
  else
    std::printf("data on several workers: read by each; %s compared at the start\n",
                placement.verify_full ? "all examples are" : "64 examples of each part are");
  const int64_t shards = data_shards(job, read_policy(job.json().find("averaging"), job.where()), source.size());
  if (shards > 1)
    std::printf("shards: %lld; a worker trains on its own and helps others when it has done those\n", static_cast<long long>(shards));
}

void describe_job(const Job& job) {
  // On a device as it would be trained; without a GPU, what a CPU would do.
  TrainerOptions where_to;
  std::string why;
  const std::string device = device_of(job.json());
  const int64_t gpus = gpus_of_worker(job.json(), job.where());  // of one process
  where_to.use(choose_device(device, job.where() + ": device", 0, static_cast<int>(gpus)));
  const bool planned = device.starts_with("cuda") && Gpu::count(&why) == 0;
  if (planned) where_to = {};
  Trainer trainer(job, where_to);
  std::printf("%s: %s\n\n", job.name().c_str(), trainer.train_source().traits().description.c_str());
  print_table(trainer.model());
  std::printf("\nbatch %lld on %d threads, %lld examples at a time; %s of memory while training, data not counted\n",
              static_cast<long long>(trainer.batch()), trainer.threads(), static_cast<long long>(trainer.sub_batch()),
              bytes_text(static_cast<double>(trainer.memory_bytes())).c_str());
  describe_memory(trainer, device, why, gpus);
  const double examples = static_cast<double>(trainer.train_source().size());
  const int64_t batch = trainer.batch() * (planned ? gpus : 1);  // "batch" is one GPU's
  std::printf("effective batch %lld; %.0f steps an epoch; learning rate at the start %g\n", static_cast<long long>(batch),
              std::ceil(examples / static_cast<double>(batch)), [&] {
                trainer.optimizer().begin_step({});
                return trainer.optimizer().learning_rate();
              }());
  describe_precision(trainer, where_to.backend);
  describe_averaging(job, trainer);
  describe_codec(job, where_to.backend, gpus);
  describe_placement(job, trainer.train_source());
}

int run() {
  watch_signals("\ninterrupted\n");
  const bool model = is_model(options.what);
  if (model) {
    const LoadedModel loaded = load_model(model_path(options.what));
    if (options.json) std::printf("%s\n", loaded.job.dump(2).c_str());
    else print_table(*loaded.model);
    return 0;
  }
  std::vector<std::string> settings = options.settings;
  if (!options.device.empty()) settings.push_back("device=" + options.device);
  const Job job = load_job(options.what, settings);
  if (options.json) std::printf("%s\n", job.canonical().dump(2).c_str());
  else describe_job(job);
  return 0;
}

}  // namespace

extern const Command command_describe;
const Command command_describe{
    .name = "describe", .doc = "show a network's layers, shapes, parameters, memory and arithmetic", .declare = declare, .run = run};

}  // namespace perigee
