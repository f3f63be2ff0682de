#include "src/job/job_schema.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "src/data/sharded_order.h"
#include "src/optim/lookahead.h"

namespace perigee {
namespace {

constexpr double kMostBatch = 1 << 24, kMostSteps = 4503599627370496.0, kMostEpochs = 4294967296.0;  // 2^52, 2^32

constexpr Option kData[] = {
    {"train", "source", "none", "what the network learns from"},
    {"test", "source", "none", "what it is judged by"},
    {"validation", "source", "none", "what early stopping goes by, instead of the test part"},
    {"lengths", "{field: field, ...}", "none",
     "of sequences in fields of one size, by the field that holds the length of each: { x = \"n\" }; what lies beyond it counts for "
     "nothing"},
    {"masks", "{field: field, ...}", "none", "the same by a field of zeros and ones, one for each step: { y = \"counts\" }"},
    {"segments", "{field: field, ...}", "none",
     "of sequences that lie one after the other in a row, by a field that says of each step with which step, from 1 on, its sequence "
     "begins: "
     "{ x = \"s\" }"},
    {"weights", "field or {field: field, ...}", "none",
     "how much each example, or each of its steps, counts in losses and figures: \"w\" for all targets, or { y = \"w\" }"},
    {"batch", "integer", "32", "examples of a step, on one worker; with 'accumulate', of each of its batches", {1, kMostBatch}},
    {"global_batch", "integer", "0", "examples of a step, on all workers together; 0: as many as their batches", {0, kMostBatch}},
    {"shuffle", "boolean", "true", "another order in every epoch"},
    {"threads", "integer", "as needed", "threads that read; 0: the one that trains", {0, 256}},
    {"at",
     "name",
     "worker",
     "where a cluster's examples come from: each worker reads them, the coordinator sends them, or workers send each other the partitions "
     "that they hold",
     {},
     {"worker", "coordinator", "partitions"}},
    {"verify", "name", "sample", "how much of the workers' data is compared at the start", {}, {"sample", "full"}},
    {"shards", "integer", "1", "parts of the training data; each worker keeps to its own", {1, ShardedOrder::kMaxShards}},
};

constexpr Option kCheckpoint[] = {
    {"every_epochs", "integer", "1", "epochs between two, or more where epochs are faster than the disk; 0: none by epochs", {0}},
    {"every_steps", "integer", "0", "steps between two; 0: none by steps", {0}},
    {"every_seconds", "number", "0", "time between two; 0: none by time", {0, 1e12}, {}, "s"},
    {"keep", "integer", "3", "how many of the latest are kept", {1}},
    {"best", "string", "early stopping's metric", "figure whose best epoch is kept: \"test.accuracy\""},
};

constexpr Option kEarlyStopping[] = {
    {"metric", "string", "test.loss",
     "the figure that counts: \"test.accuracy\", \"validation.loss\", \"train.loss\"; of several evaluations \"test.roc.auc\""},
    {"lower_is_better", "boolean", "true for errors", "the figure is to become small"},
    {"every_epochs", "integer", "1", "epochs between two evaluations", {1, 1e6}},
    {"patience", "integer", "never", "evaluations without improvement after which it stops", {1, 1e9}},
    {"min_improvement", "number", "0", "less does not count as improvement", {0, 1e300}},
    {"best", "number", "none", "it stops when the figure is as good"},
    {"max_epochs", "integer", "never", "it stops after so many", {1, 1e9}},
    {"max_seconds", "number", "0", "it stops after so long; 0: never", {0, 1e300}, {}, "s"},
    {"max_loss", "number", "none", "it stops when a step's loss is larger", {-1e300, 1e300}},
};

constexpr Option kPlateau[] = {
    {"metric", "string", "test.loss", "the figure that counts: \"test.accuracy\", \"validation.loss\", \"train.loss\""},
    {"lower_is_better", "boolean", "true for errors", "the figure is to become small"},
    {"factor", "number", "0.1", "what the learning rate is multiplied by", {1e-6, 1}},
    {"patience", "integer", "10", "evaluations without improvement with which it falls", {1, 1e9}},
    {"min_improvement", "number", "0.0001", "less does not count as improvement", {0, 1e300}},
    {"cooldown", "integer", "0", "evaluations after a fall that do not count", {0, 1e9}},
    {"min_factor", "number", "0", "all falls together do not multiply it by less", {0, 1}},
};

constexpr Option kEma[] = {
    {"decay", "number", "0.999", "share of the average that an update keeps: average = decay * average + (1 - decay) * weights", {0, 1}},
    {"from_step", "integer", "1", "step after which it begins, with the weights as they are then", {1, kMostSteps}},
    {"every", "integer", "1", "steps between two updates", {1, 1e9}},
};

constexpr Option kSwa[] = {
    {"from_epoch", "integer", "0", "first epoch whose weights count, from 1; 0: the last quarter of the epochs does", {0, kMostEpochs}},
};

constexpr Option kPretrained[] = {
    {"model", "file", nullptr, "a model or checkpoint"},
    {"freeze", "list of names", "[]", "parameters and running statistics that stay as they are: \"conv*\", \"bn*\""},
    {"skip", "list of names", "[]", "parameters that are not taken over: \"dense2.*\""},
    {"partial", "boolean", "false", "parameters that the file does not have begin anew, without being named in skip"},
};

constexpr Option kLog[] = {
    {"tensorboard", "boolean", "true", "event files for TensorBoard are written"},
    {"histograms",
     "number",
     "0.01",
     "share of the run's time that histograms of parameters and gradients may take, where one process trains: 0 for none, 1 for some after "
     "every epoch",
     {0, 1}},
    {"images", "integer", "8", "training examples that are among them where they are pictures; 0: none, nor the confusion matrix", {0, 64}},
};

constexpr Option kObjective[] = {
    {"name", "string", "its number", "what events and checkpoints call it"},
    {"loss", "loss or {output: loss, ...}", nullptr, "what its updates make smaller: as the job's loss"},
    {"updates", "list of names", nullptr, "the parameters that it changes, '*' for any characters: \"discriminator.*\""},
    {"every", "integer", "1", "steps from one of its updates to the next", {1, 1e9}},
    {"target", "list of names", "the job's", "the field that its loss compares with"},
    {"optimizer", "optimizer", "the job's", "how its gradient becomes a step"},
    {"lr_scale", "{name: number, ...}", "the job's", "factors on its learning rates by parameters' names"},
    {"regularization", "regularization", "the job's", "penalties on the size of its weights"},
    {"constraint", "constraint", "the job's", "what its weights are held to after each of its updates"},
    {"clip", "clip", "the job's", "how its gradient is limited before each of its updates"},
    {"lookahead", "table", "the job's", "slow weights of its optimizer", {}, {}, nullptr, &lookahead_schema},
};

// In the order in which a job is written.
constexpr Option kJob[] = {
    {"perigee", "integer", "1", "format of the job", {1, 1}},
    {"name", "string", "the file's", "what the run folder is called"},
    {"network", "network", "that of the last of the phases", "the layers: pg.sequential or pg.graph"},
    {"inputs", "list of names", "[\"x\"]", "fields of the data that the network takes"},
    {"target", "list of names", "y", "the field that it foretells"},
    {"loss", "loss or {output: loss, ...}", "needed to train",
     "how wrong an output is: a name, pg.loss.huber { delta = 1 }, function(outputs, targets) ... end, or for a graph { output = loss, ... "
     "}, each with target and weight"},
    {"optimizer", "optimizer", "needed to train", "how a gradient becomes a step"},
    {"objectives",
     "list",
     "none",
     "losses that take turns in each step, each with the parameters that it updates and an optimizer of its own, instead of one loss for "
     "all",
     {},
     {},
     nullptr,
     &objective_schema},
    {"freeze", "list of names", "[]", "parameters and running statistics that training leaves as they are: \"conv*\", \"bn*\""},
    {"lr_scale", "{name: number, ...}", "1 each",
     "factors on learning rates by parameters' names, '*' for any characters; the longest pattern counts: { [\"conv*\"] = 0.1 }"},
    {"regularization", "regularization", "none", "penalties on the size of all weights"},
    {"constraint", "constraint", "none", "what all weights are held to after each step"},
    {"clip", "clip", "none", "how the gradient is limited before each step"},
    {"lookahead",
     "table",
     "none",
     "slow weights that follow the optimizer's a share of the way every few steps, and from which it goes on",
     {},
     {},
     nullptr,
     &lookahead_schema},
    {"data", "table", nullptr, "what is learned from, and how it is read", {}, {}, nullptr, &data_schema},
    {"epochs", "integer", "1", "how often all examples are seen; 0: until the run is stopped, or as 'steps' says", {0, kMostEpochs}},
    {"accumulate", "integer", "1", "batches whose gradients are added up for one step: as one batch of all their examples", {1, 65536}},
    {"steps", "integer", "0", "how many steps at most; 0: as many as the epochs have", {0, kMostSteps}},
    {"seed", "integer", "0", "seed of initial values, order and random layers"},
    {"threads", "integer", "as many as the machine has", "threads that compute"},
    {"device", "string", "cpu", "where it computes: \"cpu\", \"cuda\", \"cuda:1\", or \"check:cpu,ref\", which compares two"},
    {"devices", "integer", "1", "how many GPUs train together", {1}},
    {"deterministic", "boolean", "false", "the same bits in every run on a GPU"},
    {"precision",
     "name",
     "float32",
     "numbers it computes with; \"float64\" is slow; for GPUs \"tf32\" rounds products, \"bf16\" and \"fp16\" have 16 bits",
     {},
     {"float32", "float64", "tf32", "bf16", "fp16", "fp32", "fp64", "bfloat16", "float16"}},
    {"loss_scale", "number or \"dynamic\"", "dynamic",
     "factor on the loss with \"fp16\": found out while it trains, or a number that stays"},
    {"recompute", "list of names", "none",
     "layers whose activations are computed again instead of kept: \"none\", \"auto\", \"all\", or their names"},
    {"memory_limit", "number or text", "none", "memory that a run may take; recompute = \"auto\" goes by it"},
    {"averaging", "policy or {layers: policy, ...}", "allreduce", "how several workers are kept together; a single one ignores it"},
    {"checkpoint", "boolean or table", "true", "when the run is saved, and what is kept", {}, {}, nullptr, &checkpoint_schema},
    {"early_stopping", "table", "none", "when the run ends before its time", {}, {}, nullptr, &early_stopping_schema},
    {"reduce_on_plateau",
     "table",
     "none",
     "when the learning rate falls because a figure no longer improves",
     {},
     {},
     nullptr,
     &plateau_schema},
    {"log", "table", "none", "what TensorBoard shows of the run beside its figures", {}, {}, nullptr, &log_schema},
    {"report", "boolean", "true", "report.html is written when the run ends; `perigee report RUN` writes it later too"},
    {"ema",
     "table",
     "none",
     "an exponential moving average of the weights after each step, in a cluster after each round: what is judged, used and stored as the "
     "model",
     {},
     {},
     nullptr,
     &ema_schema},
    {"swa",
     "table",
     "none",
     "the mean of the weights after the last epochs, likewise; where one process trains, batch norm gets statistics for it when the run "
     "ends",
     {},
     {},
     nullptr,
     &swa_schema},
    {"metrics", "list of evaluations", "by the network's last layer",
     "what the network is judged by: { \"classification\", near = function(outputs, targets) ... end }"},
    {"pretrained", "file or table", "none", "parameters to begin with", {}, {}, nullptr, &pretrained_schema},
    {"phases",
     "list",
     "none",
     "parts of the run that follow each other; each has keys of the job that hold in it, and its parameters begin as the phases before "
     "left "
     "those of the same names",
     {},
     {},
     nullptr,
     &phase_schema},
};

// The job's key as a phase has it.
constexpr Option in_phase(std::string_view name, const char* doc = nullptr) {
  for (Option option : kJob) {
    if (name != option.name) continue;
    option.fallback = "the job's";
    if (doc) option.doc = doc;
    return option;
  }
  throw std::logic_error("no such key of a job");
}

constexpr Option kPhase[] = {
    in_phase("name", "what events and the run's page call it"),
    in_phase("network"),
    in_phase("inputs"),
    in_phase("target"),
    in_phase("loss"),
    in_phase("optimizer"),
    in_phase("objectives"),
    in_phase("freeze"),
    in_phase("lr_scale"),
    in_phase("regularization"),
    in_phase("constraint"),
    in_phase("clip"),
    in_phase("lookahead"),
    in_phase("data", "keys of the job's data that are others in this phase: { batch = 256 }"),
    in_phase("epochs", "how often all examples are seen in this phase"),
    in_phase("accumulate"),
    in_phase("steps", "how many steps this phase has at most; 0: as many as its epochs have"),
    in_phase("averaging"),
    in_phase("early_stopping", "when the phase ends before its time; the next one begins with its best epoch"),
    in_phase("reduce_on_plateau"),
    in_phase("ema"),
    in_phase("swa"),
    in_phase("metrics"),
};

struct Example {
  std::string_view section, key;
  const char* value;
};

// tests/lua/reference_test.lua writes a job with each.
constexpr Example kExamples[] = {
    {"", "perigee", "1"},
    {"", "name", "\"lenet\""},
    {"", "network", "pg.sequential { pg.dense { 64, activation = \"relu\" }, pg.dense { 10 } }"},
    {"", "inputs", "{ \"left\", \"right\" }"},
    {"", "target", "\"x\""},
    {"", "loss", "pg.loss.cross_entropy { label_smoothing = 0.1 }"},
    {"", "optimizer", "pg.adamw { lr = pg.cosine { from = 1e-3 } }"},
    {"", "objectives",
     "{ { loss = pg.loss.binary_cross_entropy {}, updates = \"judge.*\" }, { loss = \"l2\", updates = \"maker.*\", every = 2 } }"},
    {"", "freeze", "{ \"conv*\" }"},
    {"", "lr_scale", "{ [\"dense*\"] = 0.1 }"},
    {"", "regularization", "{ l2 = 5e-4 }"},
    {"", "constraint", "{ type = \"max_norm\", max = 3 }"},
    {"", "clip", "{ type = \"norm\", threshold = 1 }"},
    {"", "lookahead", "{ every = 5, share = 0.5 }"},
    {"lookahead", "every", "10"},
    {"lookahead", "share", "0.8"},
    {"", "data", "{ train = mnist.train, test = mnist.test, batch = 64 }"},
    {"", "epochs", "10"},
    {"", "accumulate", "4"},
    {"", "steps", "5000"},
    {"", "seed", "7"},
    {"", "threads", "4"},
    {"", "device", "\"cuda\""},
    {"", "devices", "2"},
    {"", "deterministic", "true"},
    {"", "precision", "\"bf16\""},
    {"", "loss_scale", "1024"},
    {"", "recompute", "\"auto\""},
    {"", "memory_limit", "\"8GiB\""},
    {"", "averaging", "pg.averaging.periodic { every = 5 }"},
    {"", "checkpoint", "{ every_epochs = 5, keep = 2 }"},
    {"", "early_stopping", "{ metric = \"validation.loss\", patience = 3 }"},
    {"", "reduce_on_plateau", "{ metric = \"validation.loss\", patience = 5 }"},
    {"", "log", "{ histograms = 0.05 }"},
    {"", "report", "false"},
    {"", "ema", "{ decay = 0.999 }"},
    {"", "swa", "{ from_epoch = 8 }"},
    {"", "metrics", "{ \"classification\", \"roc\" }"},
    {"", "pretrained", "{ model = \"runs/base/model.safetensors\", freeze = { \"conv*\" }, skip = { \"head.*\" } }"},
    {"data", "train", "mnist.train"},
    {"data", "test", "mnist.test"},
    {"data", "validation", "mnist.test:take(1000)"},
    {"data", "lengths", "{ x = \"n\" }"},
    {"data", "masks", "{ y = \"counts\" }"},
    {"data", "segments", "{ x = \"s\" }"},
    {"data", "weights", "\"w\""},
    {"data", "batch", "64"},
    {"data", "global_batch", "256"},
    {"data", "shuffle", "false"},
    {"data", "threads", "2"},
    {"data", "at", "\"coordinator\""},
    {"data", "verify", "\"full\""},
    {"data", "shards", "16"},
    {"checkpoint", "every_epochs", "5"},
    {"checkpoint", "every_steps", "1000"},
    {"checkpoint", "every_seconds", "600"},
    {"checkpoint", "keep", "1"},
    {"checkpoint", "best", "\"test.accuracy\""},
    {"early_stopping", "metric", "\"validation.accuracy\""},
    {"early_stopping", "lower_is_better", "false"},
    {"early_stopping", "every_epochs", "2"},
    {"early_stopping", "patience", "5"},
    {"early_stopping", "min_improvement", "1e-3"},
    {"early_stopping", "best", "0.99"},
    {"early_stopping", "max_epochs", "50"},
    {"early_stopping", "max_seconds", "3600"},
    {"early_stopping", "max_loss", "100"},
    {"reduce_on_plateau", "metric", "\"validation.accuracy\""},
    {"reduce_on_plateau", "lower_is_better", "false"},
    {"reduce_on_plateau", "factor", "0.5"},
    {"reduce_on_plateau", "patience", "3"},
    {"reduce_on_plateau", "min_improvement", "1e-3"},
    {"reduce_on_plateau", "cooldown", "2"},
    {"reduce_on_plateau", "min_factor", "0.01"},
    {"ema", "decay", "0.9999"},
    {"ema", "from_step", "100"},
    {"ema", "every", "10"},
    {"swa", "from_epoch", "16"},
    {"log", "tensorboard", "false"},
    {"log", "histograms", "1"},
    {"log", "images", "16"},
    {"pretrained", "model", "\"runs/base/model.safetensors\""},
    {"pretrained", "freeze", "{ \"conv*\" }"},
    {"pretrained", "skip", "{ \"head.*\" }"},
    {"pretrained", "partial", "true"},
    {"objectives", "updates", "{ \"judge.*\" }"},
    {"objectives", "every", "5"},
    {"", "phases", "{ { epochs = 5, freeze = { \"conv*\" } }, { epochs = 20, optimizer = pg.adam { lr = 1e-4 } } }"},
};

}  // namespace

const Schema data_schema{.options = kData};
const Schema checkpoint_schema{.options = kCheckpoint};
const Schema early_stopping_schema{.options = kEarlyStopping};
const Schema plateau_schema{.options = kPlateau};
const Schema ema_schema{.options = kEma};
const Schema swa_schema{.options = kSwa};
const Schema pretrained_schema{.options = kPretrained};
const Schema log_schema{.options = kLog};
const Schema phase_schema{.options = kPhase};
const Schema objective_schema{.options = kObjective};
const Schema job_schema{.options = kJob};

const char* job_example(std::string_view section, std::string_view key) {
  if (section == "phases") section = "";
  if (section == "objectives" && job_schema.find(key)) section = "";
  const auto* found = std::ranges::find_if(kExamples, [&](const Example& each) { return each.section == section && each.key == key; });
  return found == std::end(kExamples) ? nullptr : found->value;
}

Error with_example(const Error& error, std::string_view section) {
  Error::Parts parts = error.parts();
  const size_t end = parts.what.find("' has the wrong type");
  if (end == std::string::npos || !parts.hint.empty()) return error;
  const std::string key = parts.what.substr(1, end - 1);
  if (const char* example = job_example(section, key)) parts.hint = "for example " + key + " = " + example;
  return Error(error.kind(), std::move(parts));
}

bool has_no_effect(std::string_view section, std::string_view key) {
  constexpr std::pair<std::string_view, std::string_view> kKeys[] = {{"data", "prefetch"}, {"data", "drop_last"}};
  return std::ranges::find(kKeys, std::pair(section, key)) != std::end(kKeys);
}

std::string setting_meant_by(std::string_view name) {
  const bool rate = name == "lr" || name == "learning-rate" || name == "learning_rate";
  if (name == "batch" || name == "batch_size") return "data.batch";
  return rate ? "optimizer.lr" : "";
}

}  // namespace perigee
