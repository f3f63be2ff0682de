#include "cluster/launch/cluster_job.h"

#include <algorithm>

#include "cluster/launch/worker_gpus.h"
#include "cluster/rounds/local/fragments.h"
#include "src/core/warning.h"
#include "src/data/table/examples/table_source.h"
#include "src/data/vector_source.h"
#include "src/job/job_parts.h"
#include "src/model/device/device_tuning.h"
#include "src/model/evaluator.h"
#include "src/train/run_details.h"

namespace perigee {
namespace {

// With a policy of parameters each worker reads some of the streams, those of its shards, from one result to the next, with which what rows
// carry goes to all.
void check_streams(const Job& job, const Policy& policy, const Trainer& probe, const std::string& layer) {
  if (policy.served || policy.partial() || policy.inner.active() || policy.elastic || policy.sync_until > 0)
    throw job.placed(
        Error(ErrorKind::usage, {.where = job.where() + ": averaging",
                                 .what = "has no result that all workers hold at the end of each round, with which what '" + layer +
                                         "' carries from batch to batch could go to all of them",
                                 .got = policy.name,
                                 .expected = "a policy of gradients, or one of all parameters from the first step on, without "
                                             "overlap, groups and servers",
                                 .hint = "averaging = pg.averaging.allreduce {}, or periodic { every = 8 } with data.shards"}));
  const Json* const data = job.json().find("data");
  const Json* const given = data != nullptr ? data->find("shards") : nullptr;
  const int64_t streams = probe.streams(), shards = read_placement(Config(job.json(), job.where()).object("data")).shards;
  if (given != nullptr && streams % shards == 0) return;
  throw job.placed(Error(
      ErrorKind::usage, {.where = job.where() + ": data.shards",
                         .what = "deals out the " + std::to_string(streams) + " streams to the workers of a policy of parameters",
                         .got = given != nullptr ? std::to_string(shards) : "none",
                         .expected = "a number that divides " + std::to_string(streams) + ", at least as large as the number of workers"}));
}

// A network that carries state from batch to batch reads streams. In a round of gradients a step has each of them once, and what rows carry
// goes with the gradient.
void check_carried(const Job& job, const Policy& policy, const Trainer& probe, bool served, bool on_gpus) {
  if (probe.shape().carried().empty()) return;
  const std::string layer = "'" + probe.shape().carried()[0].name + "'";
  if (policy.what == Policy::What::parameters) check_streams(job, policy, probe, probe.shape().carried()[0].name);
  if (on_gpus)
    throw job.placed(
        Error(ErrorKind::usage, {.where = job.where() + ": network",
                                 .what = "carries " + layer + " from batch to batch, which workers exchange between threads of hosts",
                                 .got = "workers on GPUs",
                                 .expected = "device = \"cpu\", or one process on GPUs"}));
  if (served)
    throw job.placed(Error(ErrorKind::usage, {.where = job.where() + ": data.at",
                                              .what = "the network carries " + layer + " along streams, which workers read themselves",
                                              .got = "\"coordinator\"",
                                              .expected = "\"worker\""}));
}

// A step of all workers together has each stream once.
int64_t batch_of_streams(const Job& job, int64_t given, const Trainer& probe) {
  const int64_t streams = probe.shape().carried().empty() ? 0 : probe.streams();
  if (streams == 0 || given == streams) return given;
  if (given != 0)
    throw job.placed(Error(ErrorKind::usage, {.where = job.where() + ": data.global_batch",
                                              .what = "is not the number of streams, each of which is a row of every step",
                                              .got = std::to_string(given),
                                              .expected = std::to_string(streams) + ", or none"}));
  return streams;
}

// Rows of word vectors move as a worker reads its parts of the text.
void check_vectors(const Job& job, const Policy& policy, const DataSource& train, bool at_coordinator) {
  if (!vector_source(train)) return;
  if (policy.synchronous(0))
    throw job.placed(Error(ErrorKind::model, {.where = job.where() + ": averaging",
                                              .what = "adds up gradients, of which word vectors have none",
                                              .got = policy.name,
                                              .expected = "a policy of parameters from the first step on",
                                              .hint = "averaging = pg.averaging.periodic { every = 8 }"}));
  if (at_coordinator)
    throw job.placed(Error(ErrorKind::model, {.where = job.where() + ": data.at",
                                              .what = "sends examples, and word vectors are trained on the text itself",
                                              .got = "\"coordinator\"",
                                              .expected = "\"worker\", with the text on each worker's machine"}));
}

// Partitions are with workers that know each other's, which needs data.at, and data.at needs some.
void check_partitions(const Job& job, const DataPlacement& placement, const ServedData* served) {
  if (!placement.in_partitions || (served && !served->partitions().empty())) return;
  throw job.placed(Error(ErrorKind::usage, {.where = job.where() + ": data.at",
                                            .what = "no source of this job is a partition that a worker holds",
                                            .got = "\"partitions\"",
                                            .expected = "a source as `perigee data partition` prints it",
                                            .hint = "or data.at = \"coordinator\", which sends every source to the workers"}));
}

// The workers of a run train one job together.
void check_one(const Job& job) {
  if (phase_count(job) > 0)
    throw job.placed(Error(ErrorKind::usage, {.where = job.where() + ": phases",
                                              .what = "several workers train the phases of a job one after the other, each as a run",
                                              .hint = "start it as `perigee train SCRIPT --workers N`"}));
}

// The same error as in each worker, before there is one.
void check_fragments(const Job& job, const Policy& policy, Trainer& probe) {
  if (!policy.partial()) return;
  const Params& params = probe.model().params();
  try {
    FragmentPlan(policy, params.windows(), params.block_elements(), job.where() + ": averaging");
  } catch (const Error& error) {
    throw job.placed(error);
  }
}

}  // namespace

Policy policy_of_job(const Job& job) {
  try {
    return read_policy(job.json().find("averaging"), job.where());
  } catch (const Error& error) {
    throw job.placed(error);
  }
}

int64_t data_shards(const Job& job, const Policy& policy, int64_t examples) {
  const int64_t shards = read_placement(Config(job.json(), job.where()).object("data")).shards;
  const std::string where = job.where() + ": data.shards";
  if (shards > 1 && policy.synchronous(0))
    throw job.placed(
        Error(ErrorKind::model,
              {.where = where,
               .what = "works on averages of parameters alone: the gradient of a step does not depend on which worker reads which example",
               .got = policy.name,
               .expected = "a policy of parameters from the first step on",
               .hint = "averaging = pg.averaging.periodic { every = 5 }"}));
  if (shards > examples)
    throw job.placed(Error(ErrorKind::model, {.where = where,
                                              .what = "are more than there are examples",
                                              .got = std::to_string(shards),
                                              .expected = "at most " + std::to_string(examples)}));
  return shards;
}

ClusterJob::ClusterJob(const Job& given, const TrainerOptions& options) : job(given), policy(policy_of_job(given)) {
  check_one(job);
  // A trainer that is never stepped: it opens the data, builds the network and measures kernels, and so finds every mistake in the
  // job before anything is started elsewhere.
  const Config about_data = Config(job.json(), job.where()).object("data");
  const DataPlacement placement = read_placement(about_data);
  TrainerOptions probing = options;
  if (probing.backend == Backend::cuda) probing.backend = Backend::cpu, probing.measure = false;  // GPUs are the workers'
  if (placement.at_coordinator) served = std::make_unique<ServedData>(options.opener);
  if (served) probing.opener = served.get();
  probing.unread = placement.in_partitions;
  Trainer probe(job, probing);
  check_carried(job, policy, probe, placement.at_coordinator, options.backend == Backend::cuda);
  check_vectors(job, policy, probe.train_source(), placement.at_coordinator);
  if (const std::string line = line_of_targets(probe.train_source().traits().remarks); !line.empty()) warn(line);
  check_steps(probe, options.backend == Backend::cuda);
  check_repeats(probe);
  check_fragments(job, policy, probe);
  global_batch = about_data.integer_in("global_batch", 0, int64_t{1} << 24, 0) * accumulate_of(job);
  global_batch = batch_of_streams(job, global_batch, probe);
  job = probe.job();  // with the weights of classes that it has counted
  weighted = probe.weighted();
  facts = run_facts(probe);
  facts.batch *= gpus_of_worker(job.json(), job.where());  // "batch" is one GPU's
  shards = data_shards(job, policy, facts.examples);
  if (!probe.shape().carried().empty() && policy.what == Policy::What::parameters) streams = probe.streams();
  const Json* const strict = job.json().find("deterministic");  // chooses nothing by times
  const bool measured_here = options.backend == Backend::cuda && !(strict && *strict == Json(true));
  tuning = (measured_here ? measured_on_device(options.devices.front(), job.tf32()) : probe.tuning().of_run()).dump();
  check_partitions(job, placement, served.get());
  if (!placement.in_partitions) data_prints = print_data(probe, placement.verify_full && !served);
  // --steps counts batches of all workers together, so that a run does the same work however many there are.
  const int64_t steps = Config(job.json(), job.where()).integer_in("steps", 0, int64_t{1} << 52, 0);
  if (global_batch > 0 && steps > 0) {
    const int64_t epochs = Config(job.json(), job.where()).integer_in("epochs", 0, int64_t{1} << 32, 1);
    facts.planned = steps * global_batch;
    if (epochs > 0 && job.json().find("epochs")) facts.planned = std::min(facts.planned, epochs * facts.examples);
  }
  train_task.classes = probe.shape().spec().classes;
  details = run_details(probe);
  for (const char* part : {"validation", "test"})
    if (const Evaluator* evaluator = probe.evaluator(part))
      parts[part] = {evaluator->source().size(), evaluator->source().traits().description, evaluator->task(), evaluator->in_order()};
}

// Refuses steps, and averages of the weights, that several workers cannot make together.
void ClusterJob::check_steps(const Trainer& probe, bool on_gpus) const {
  const bool in_parts = probe.steps_in_parts() || (on_gpus && accumulate_of(job) > 1);
  if (policy.synchronous(0) && in_parts)
    throw job.placed(Error(ErrorKind::model, {.where = job.where() + ": accumulate",
                                              .what = "takes a step in parts, and averaging sends the gradient of the whole step",
                                              .got = "averaging '" + policy.name + "'" +
                                                     (on_gpus ? ", on GPUs" : ", and layers or losses that look at a batch as a whole"),
                                              .expected = "a policy of parameters",
                                              .hint = "averaging = pg.averaging.periodic { every = 5 }, or no 'accumulate': workers add up "
                                                      "gradients as it does"}));
  if (!policy.served && !policy.partial()) return;
  for (const char* key : {"ema", "swa"})
    if (const Json* given = job.json().find(key); given && !given->is_null())
      throw job.placed(
          Error(ErrorKind::usage, {.where = job.where() + ": " + key,
                                   .what = "averages the results of rounds, which all workers have",
                                   .got = "averaging '" + policy.name + "', where each has its own",
                                   .expected = "a policy whose rounds end with one result for all",
                                   .hint = "averaging = pg.averaging.periodic { every = 5 }, or no '" + std::string(key) + "'"}));
}

// A step that needs several sums (cluster/replica/repeated_sums.h) needs them as they are. Local steps of objectives need none.
void ClusterJob::check_repeats(const Trainer& probe) const {
  const bool lines = probe.optimizer().minimizer() != nullptr, turns = objective_count(job) > 0;
  if (!lines && (!turns || !policy.synchronous(0))) return;
  if (!probe.shape().carried().empty())
    throw job.placed(Error(ErrorKind::usage, {.where = job.where() + ": network",
                                              .what = "carries '" + probe.shape().carried()[0].name +
                                                      "' from batch to batch, and a step of several sums would carry it several times",
                                              .got = "a cluster",
                                              .expected = "one process"}));
  if (policy.what == Policy::What::gradient && policy.synchronous(1) && !policy.served && !policy.coded() && policy.outer.empty()) return;
  const std::string what = lines
                               ? std::string("'") + probe.optimizer().type() + "' searches along lines, and so adds up gradients and losses"
                               : "take turns in a step, and so add up gradients several times";
  throw job.placed(Error(ErrorKind::model, {.where = job.where() + (lines ? ": optimizer" : ": objectives"),
                                            .what = what,
                                            .got = "averaging '" + policy.name + "'",
                                            .expected = "averaging = pg.averaging.allreduce {}, without a codec",
                                            .hint = lines ? "" : "or a policy of parameters from the first step on"}));
}

std::optional<EvaluationTask> ClusterJob::task_of(const std::string& part) const {
  if (part == "train") return train_task;
  const auto found = parts.find(part);
  return found == parts.end() ? std::nullopt : std::optional(found->second.task);
}

}  // namespace perigee
