#include "src/vectors/jobs/vector_job.h"

#include <algorithm>

#include "src/core/error.h"
#include "src/vectors/jobs/touched_rows.h"

namespace perigee {
namespace {

constexpr const char* kOfTheJob[] = {"epochs", "lr", "min_lr", "threads", "seed"};
constexpr int64_t kRoundsAnEpoch = 4;  // averaging rounds: see RESULTS.md for what fewer and more do

Json object(std::initializer_list<std::pair<const char*, Json>> members) {
  Json json = Json::object();
  for (const auto& [key, value] : members) json.set(key, value);
  return json;
}

// Rows begin as those of VectorTraining do: inputs between -1/size and 1/size, outputs with zeros.
Json network(const VectorOptions& options, const VectorRowCounts& rows) {
  const double reach = 1 / static_cast<double>(options.size);
  Json layers = Json::array();
  layers.push(object({{"type", "embedding"},
                      {"size", rows.inputs},
                      {"out", options.size},
                      {"weight_init", object({{"type", "uniform"}, {"low", -reach}, {"high", reach}})}}));
  layers.push(object({{"type", "dense"}, {"out", rows.outputs}, {"bias", false}, {"weight_init", "zeros"}}));
  return object({{"type", "sequential"}, {"layers", std::move(layers)}});
}

}  // namespace

Json vector_job(const Json& given, const VectorOptions& options, const VectorCorpus& corpus, int64_t workers) {
  if (options.model == VectorModel::glove)
    throw Error(ErrorKind::usage, {.where = "word_vectors: model",
                                   .what = "is fitted to counts of the whole text by one process",
                                   .got = "\"glove\"",
                                   .expected = "another model"});
  Json source = object({{"type", "vector_corpus"}});
  for (const auto& [key, value] : given.as_object())
    if (std::find(std::begin(kOfTheJob), std::end(kOfTheJob), key) == std::end(kOfTheJob)) source.set(key, value);
  const int64_t parts = corpus.sequences().parts(), threads = std::max<int64_t>(1, options.threads), all = std::max<int64_t>(1, workers);
  const int64_t batch = std::clamp<int64_t>(parts / (all * kRoundsAnEpoch * 4), 1, threads * 4);
  const int64_t every = std::max<int64_t>(1, parts / (all * kRoundsAnEpoch * batch));
  // The mean of several workers moves a row that one of them has met by that worker's share alone: they move by so much more.
  const double factor = given.find("lr") ? 1 : static_cast<double>(all), rate = options.lr * factor, least = options.min_lr * factor;
  Json averaging = object({{"type", "periodic"}, {"every", every}});
  // Changes of touched rows go to each other worker, while sums of all rows go over twice in parts.
  const double rounds = std::max(1.0, static_cast<double>(parts) / static_cast<double>(every * batch));
  if (all > 1 && touched_share(corpus, options, rounds) <= 1 / static_cast<double>(all)) averaging.set("codec", "nonzero");
  Json job = object({{"perigee", int64_t{1}},
                     {"name", "word_vectors"},
                     {"network", network(options, vector_rows(corpus.elements()->size(), corpus.labels().size(), options))},
                     {"loss", "cross_entropy"},
                     {"optimizer", object({{"type", "sgd"}, {"lr", object({{"type", "linear"}, {"from", rate}, {"to", least}})}})},
                     {"data", object({{"train", std::move(source)}, {"batch", batch}})},
                     {"epochs", options.epochs},
                     {"seed", static_cast<int64_t>(options.seed)},
                     {"averaging", std::move(averaging)}});
  if (given.find("threads")) job.set("threads", options.threads);
  return job;
}

}  // namespace perigee
