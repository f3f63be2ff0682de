// `perigee describe`: a network as a table: layers, shapes, parameters, memory, arithmetic.
#include <CLI/App.hpp>
#include <cstdio>

#include "cluster/launch/describe_job.h"
#include "repl/commands/command.h"
#include "repl/commands/describe/averaging.h"
#include "repl/commands/describe/link.h"
#include "repl/commands/describe/table.h"
#include "repl/commands/load.h"
#include "repl/signals.h"
#include "src/core/error.h"
#include "src/io/file.h"
#include "src/nn/describe_network.h"
#include "src/run/checkpoint.h"
#include "src/train/device/device_memory_json.h"

namespace perigee {
namespace {

struct DescribeOptions {
  std::string what;
  std::vector<std::string> settings;
  std::string device;
  std::string format = "text";
  std::string bandwidth, step_time;
  bool json = false, workers = false;
} describe_options;

void declare_describe(CLI::App& app) {
  app.add_option("what", describe_options.what, "a script, a job, a model file or a run folder")->required();
  app.add_option("--set", describe_options.settings, "set a value of the job first")->allow_extra_args(false);
  app.add_option("--device", describe_options.device, "where it would be trained: cpu, cuda, cuda:N or auto; the default is the job's");
  app.add_option("--format", describe_options.format, "text or json: how the description is printed")
      ->check(CLI::IsMember({"text", "json"}));
  app.add_flag("--workers", describe_options.workers,
               "also what several workers would do: averaging, bytes that they send, where the data come from");
  app.add_option("--bandwidth", describe_options.bandwidth, "of each machine's link: says whether the averaging fits it, as in 2Mbit");
  app.add_option("--step-time", describe_options.step_time,
                 "of one step on one machine, for --bandwidth; without it a step is measured here: 12ms");
  app.add_flag("--json", describe_options.json, "print the job as JSON");
}

const Json& at(const Json& json, const char* name) { return *json.find(name); }
const char* describe_text(const Json& json, const char* name) { return at(json, name).as_string().c_str(); }
double describe_number(const Json& json, const char* name) { return at(json, name).as_number(); }
long long describe_integer(const Json& json, const char* name) { return at(json, name).as_int(); }
bool yes(const Json& json, const char* name) { return at(json, name).as_bool(); }
std::string mebibytes_at(const Json& json, const char* name) { return mebibytes(static_cast<size_t>(at(json, name).as_int())); }

std::string with_operations(const Json& choice) {
  char line[160];
  std::snprintf(line, sizeof line, "%s with %.1f %% more operations (%s)", bytes_text(describe_number(choice, "bytes")).c_str(),
                describe_number(choice, "more_operations_percent"), describe_text(choice, "how"));
  return line;
}

void print_describe_json(const Json& json) { std::printf("%s\n", json.dump(2).c_str()); }

void print_model(const ModelSpec& spec) {
  const Json network = describe_network(Network(spec.network, spec.where), spec.inputs);
  if (describe_options.format == "json") print_describe_json(network);
  else std::fputs(network_table(network).c_str(), stdout);
}

void print_taken(const Json& list) {
  for (const Json& taken : list.as_array()) {
    std::printf("taken of %s: %s", describe_text(taken, "device"), mebibytes_at(taken, "bytes").c_str());
    if (describe_integer(taken, "sums_bytes") > 0) std::printf("; by NCCL: %s", mebibytes_at(taken, "sums_bytes").c_str());
    std::printf(" before the first step; by CUDA's context, libraries and others: %s\n", mebibytes_at(taken, "others_bytes").c_str());
  }
}

void print_memory(const Json& memory, const char* device) {
  if (memory.find("unknown")) std::printf("what it takes on a GPU is not known: %s\n", describe_text(memory, "unknown"));
  if (const Json* planned = memory.find("planned")) {
    const int64_t gpus = describe_integer(memory, "gpus");
    const std::string where = gpus > 1 ? "each of " + std::to_string(gpus) + " GPUs" : "the GPU";
    std::printf("memory on %s, planned (CUDA's context and libraries%s apart):\n%s", where.c_str(), gpus > 1 ? ", NCCL's buffers" : "",
                device_memory_from(*planned).text().c_str());
  }
  if (const Json* taken = memory.find("taken")) print_taken(*taken);
  if (memory.find("missing"))
    std::printf("device %s: %s; the other figures are a CPU's, and what the context and libraries take is not known\n", device,
                describe_text(memory, "missing"));
  const Json& activations = at(memory, "activations");
  std::printf("activations of %lld examples: %s; recompute = \"all\": %s\n", describe_integer(activations, "examples"),
              bytes_text(describe_number(activations, "bytes")).c_str(), with_operations(at(activations, "recompute_all")).c_str());
  if (const Json* of_job = activations.find("of_job")) std::printf("of this job: %s\n", with_operations(*of_job).c_str());
}

void print_precision(const Json& precision) {
  if (precision.find("tf32"))
    std::printf("tf32: %s\n", yes(precision, "tf32") ? "products may round their operands to 10 bits" : "a CPU has none: float32");
  if (const Json* scale = precision.find("loss_scale"))
    std::printf("fp16: the loss is scaled by %g, %s\n", describe_number(*scale, "scale"),
                yes(*scale, "dynamic") ? "to begin with" : "always");
  if (precision.find("kernels"))
    std::printf("%s: %lld of the %lld kernels of a step are the reference's, plain loops that take many times as long\n",
                describe_text(precision, "precision"), describe_integer(precision, "reference_kernels"),
                describe_integer(precision, "kernels"));
}

void print_codec(const Json& codec) {
  if (codec.find("between_processes"))
    std::printf("%s: between processes only; the %lld GPUs of one add up float32 gradients\n", describe_text(codec, "between_processes"),
                describe_integer(codec, "gpus"));
  if (codec.find("on_gpu"))
    std::printf("the codec works on the %s%s\n",
                yes(codec, "on_gpu") ? "GPU: payloads alone cross to the host" : "host: ", describe_text(codec, "why_on_host"));
}

void print_placement(const Json& placement) {
  if (yes(placement, "at_coordinator"))
    std::printf("data on several workers: sent by the coordinator, about %s an example\n",
                bytes_text(describe_number(placement, "example_bytes")).c_str());
  else
    std::printf("data on several workers: read by each; %s compared at the start\n",
                yes(placement, "verify_full") ? "all examples are" : "64 examples of each part are");
  if (describe_integer(placement, "shards") > 1)
    std::printf("shards: %lld; a worker trains on its own and helps others when it has done those\n",
                describe_integer(placement, "shards"));
}

void print_frozen(const Json& frozen) {
  if (describe_integer(frozen, "elements") == 0) return;
  std::string names;
  for (const Json& name : at(frozen, "parameters").as_array()) names += (names.empty() ? "" : ", ") + name.as_string();
  std::printf("frozen: %s; %lld elements stay as they are\n", names.c_str(), describe_integer(frozen, "elements"));
}

void print_job(const Json& job) {
  std::printf("%s: %s\n\n%s", describe_text(job, "name"), describe_text(job, "data"), network_table(at(job, "network")).c_str());
  print_frozen(at(job, "frozen"));
  std::printf("\nbatch %lld on %lld threads, %lld examples at a time; %s of memory while training, data not counted\n",
              describe_integer(job, "batch"), describe_integer(job, "threads"), describe_integer(job, "sub_batch"),
              bytes_text(describe_number(job, "memory_bytes")).c_str());
  print_memory(at(job, "memory"), describe_text(job, "device"));
  std::printf("effective batch %lld; %.0f steps an epoch; learning rate at the start %g\n", describe_integer(job, "effective_batch"),
              describe_number(job, "steps_per_epoch"), describe_number(job, "learning_rate"));
  print_precision(at(job, "precision"));
  const Json* link = job.find("link");
  if (!describe_options.workers && !link) {  // on one machine its policy does nothing
    if (yes(job, "names_averaging")) std::printf("a policy for several workers: `perigee describe --workers` says what they would do\n");
    return;
  }
  print_averaging(at(job, "averaging"));
  print_codec(at(job, "codec"));
  print_placement(at(job, "placement"));
  if (link) print_link(*link);
}

int run_describe() {
  watch_signals("\ninterrupted\n");
  const bool model = is_model(describe_options.what);
  if (model) {
    const LoadedModel loaded = load_model(model_path(describe_options.what));
    if (describe_options.json) print_describe_json(loaded.job);
    else print_model(loaded.model->spec());
    return 0;
  }
  std::vector<std::string> settings = describe_options.settings;
  if (!describe_options.device.empty()) settings.push_back("device=" + describe_options.device);
  const Job job = load_job(describe_options.what, settings);
  if (describe_options.json) {
    print_describe_json(job.canonical());
    return 0;
  }
  Json described = describe_job(job);
  const std::string folder = folder_exists(describe_options.what) ? describe_options.what : "";
  Json link = describe_link(job, at(described, "averaging"), {describe_options.bandwidth, describe_options.step_time, folder});
  if (!link.is_null()) described.set("link", std::move(link));
  if (describe_options.format == "json") print_describe_json(described);
  else print_job(described);
  return 0;
}

}  // namespace

extern const Command command_describe;
const Command command_describe{.name = "describe",
                               .doc = "show a network's layers, shapes, parameters, memory and arithmetic",
                               .declare = declare_describe,
                               .run = run_describe};

}  // namespace perigee
