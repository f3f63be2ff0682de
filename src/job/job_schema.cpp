#include "src/job/job_schema.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/data/sharded_order.h"

namespace perigee {
namespace {

constexpr double kMostBatch = 1 << 24, kMostSteps = 4503599627370496.0, kMostEpochs = 4294967296.0;  // 2^52, 2^32

constexpr Option kData[] = {
    {"train", "source", "none", "what the network learns from"},
    {"test", "source", "none", "what it is judged by"},
    {"validation", "source", "none", "what early stopping goes by, instead of the test part"},
    {"batch", "integer", "32", "examples of a step, on one worker", {1, kMostBatch}},
    {"global_batch", "integer", "0", "examples of a step, on all workers together; 0: as many as their batches", {0, kMostBatch}},
    {"shuffle", "boolean", "true", "another order in every epoch"},
    {"threads", "integer", "as needed", "threads that read; 0: the one that trains", {0, 256}},
    {"at", "name", "worker", "where a cluster's examples come from", {}, {"worker", "coordinator"}},
    {"verify", "name", "sample", "how much of the workers' data is compared at the start", {}, {"sample", "full"}},
    {"shards", "integer", "1", "parts of the training data; each worker keeps to its own", {1, ShardedOrder::kMaxShards}},
};

constexpr Option kCheckpoint[] = {
    {"every_epochs", "integer", "1", "epochs between two; 0: none by epochs", {0}},
    {"every_steps", "integer", "0", "steps between two; 0: none by steps", {0}},
    {"every_seconds", "number", "0", "time between two; 0: none by time", {0, 1e12}, {}, "s"},
    {"keep", "integer", "3", "how many of the latest are kept", {1}},
    {"best", "string", "early stopping's metric", "figure whose best epoch is kept: \"test.accuracy\""},
};

constexpr Option kEarlyStopping[] = {
    {"metric", "string", "test.loss", "the figure that counts: \"test.accuracy\", \"validation.roc.auc\", \"train.loss\""},
    {"lower_is_better", "boolean", "true for errors", "the figure is to become small"},
    {"every_epochs", "integer", "1", "epochs between two evaluations", {1, 1e6}},
    {"patience", "integer", "1000000000", "evaluations without improvement after which it stops", {1, 1e9}},
    {"min_improvement", "number", "0", "less does not count as improvement", {0, 1e300}},
    {"best", "number", "none", "it stops when the figure is as good"},
    {"max_epochs", "integer", "1000000000", "it stops after so many", {1, 1e9}},
    {"max_seconds", "number", "0", "it stops after so long; 0: never", {0, 1e300}, {}, "s"},
    {"max_loss", "number", "none", "it stops when a step's loss is larger", {-1e300, 1e300}},
};

constexpr Option kPretrained[] = {
    {"model", "file", nullptr, "a model or checkpoint"},
    {"freeze", "list of names", "[]", "parameters that stay as they are: \"conv*\""},
    {"skip", "list of names", "[]", "parameters that are not taken over: \"dense2.*\""},
};

// In the order in which a job is written.
constexpr Option kJob[] = {
    {"perigee", "integer", "1", "format of the job", {1, 1}},
    {"name", "string", "the file's", "names the run folder"},
    {"network", "network", nullptr, "pg.sequential or pg.graph"},
    {"inputs", "list of names", "[\"x\"]", "fields of the data that the network takes"},
    {"target", "list of names", "y", "the field that it foretells"},
    {"loss", "loss or {output: loss, ...}", "needed to train",
     "\"cross_entropy\", pg.loss.huber { delta = 1 }; of a graph also { output = loss, ... }, each with target and weight"},
    {"optimizer", "optimizer", "needed to train", "pg.adamw { lr = 1e-3 }"},
    {"regularization", "regularization", "none", "of all weights: l1, l2, weight_decay"},
    {"constraint", "constraint", "none", "on all weights, after each step"},
    {"clip", "clip", "none", "limits the gradient"},
    {"data",
     "table",
     nullptr,
     "{ train =, test =, validation =, batch =, shuffle =, threads =, at =, verify =, shards = }",
     {},
     {},
     nullptr,
     &data_schema},
    {"epochs", "integer", "1", "how often all examples are seen", {0, kMostEpochs}},
    {"steps", "integer", "0", "how many steps at most; 0: as many as the epochs have", {0, kMostSteps}},
    {"seed", "integer", "0", "of initial values, order and random layers"},
    {"threads", "integer", "as many as the machine has", "threads that compute"},
    {"device", "string", "cpu", "\"cpu\", \"cuda\", \"cuda:1\", \"check:cpu,ref\""},
    {"devices", "integer", "1", "how many GPUs train together", {1}},
    {"deterministic", "boolean", "false", "the same bits in every run on a GPU"},
    {"precision",
     "name",
     "float32",
     "\"float32\", \"float64\" (slow); for GPUs \"tf32\": rounded products; \"bf16\", \"fp16\": 16 bits",
     {},
     {"float32", "float64", "tf32", "bf16", "fp16", "fp32", "fp64", "bfloat16", "float16"}},
    {"loss_scale", "number or \"dynamic\"", "dynamic", "of \"fp16\": \"dynamic\" (the default), or a number that stays"},
    {"recompute", "list of names", "none",
     "\"none\", \"auto\", \"all\", or names of layers: activations that backward computes again instead of keeping"},
    {"memory_limit", "number or text", "none", "what a run may take: \"8GiB\"; recompute = \"auto\" goes by it"},
    {"averaging", "policy or {layers: policy, ...}", "allreduce", "pg.averaging.periodic { every = 5 }; a single worker ignores it"},
    {"checkpoint", "boolean or table", "true", "when the run is saved, and what is kept", {}, {}, nullptr, &checkpoint_schema},
    {"early_stopping", "table", "none", "when the run ends before its time", {}, {}, nullptr, &early_stopping_schema},
    {"metrics", "list of evaluations", "by the network's last layer", "what the network is judged by"},
    {"pretrained", "file or table", "none", "parameters to begin with", {}, {}, nullptr, &pretrained_schema},
};

}  // namespace

const Schema data_schema{.options = kData};
const Schema checkpoint_schema{.options = kCheckpoint};
const Schema early_stopping_schema{.options = kEarlyStopping};
const Schema pretrained_schema{.options = kPretrained};
const Schema job_schema{.options = kJob};

bool has_no_effect(std::string_view section, std::string_view key) {
  constexpr std::pair<std::string_view, std::string_view> kKeys[] = {{"", "log"}, {"data", "prefetch"}, {"data", "drop_last"}};
  return std::ranges::find(kKeys, std::pair(section, key)) != std::end(kKeys);
}

}  // namespace perigee
