#include "src/run/vectors/stored_vectors.h"

#include <algorithm>

#include "src/core/error.h"
#include "src/io/confined.h"
#include "src/io/safetensors.h"
#include "src/run/run_folder.h"

namespace perigee {
namespace {

std::string file_in(const std::string& path) {
  if (!folder_exists(path)) return path;
  if (file_exists(path + "/model.safetensors")) return path + "/model.safetensors";
  std::string newest;
  if (folder_exists(path + "/checkpoints"))
    for (const FolderEntry& entry : list_folder(path + "/checkpoints"))
      if (entry.file && entry.name.starts_with("step-")) newest = std::max(newest, path + "/checkpoints/" + entry.name);
  if (newest.empty())
    throw Error(ErrorKind::usage, {.where = path,
                                   .what = "this folder has neither a model nor a checkpoint",
                                   .expected = "the folder of a run, or a file of vectors"});
  return newest;
}

[[noreturn]] void no_vectors(const std::string& file) {
  throw Error(ErrorKind::model,
              {.where = file, .what = "is no model of word vectors", .expected = "what a job of `perigee vectors job` has trained"});
}

Json source_of(const Safetensors& stored, const std::string& file) {
  const auto job = stored.metadata.find("job");
  if (job == stored.metadata.end()) no_vectors(file);
  const Json parsed = Json::parse(job->second, file + ": job");
  const Json* data = parsed.find("data");
  const Json* source = data ? data->find("train") : nullptr;
  const Json* type = source ? source->find("type") : nullptr;
  if (!type || *type != Json("vector_corpus")) no_vectors(file);
  return *source;
}

}  // namespace

bool is_stored_vectors(const std::string& path) { return path.ends_with(".safetensors") || folder_exists(path); }

std::unique_ptr<TrainedVectors> stored_vectors(const std::string& path) {
  const std::string file = file_in(path);
  const Safetensors stored = read_safetensors(file);
  Json given = source_of(stored, file);
  given.erase("type");
  VectorOptions options = vector_options(given, file + ": data: train");
  const std::string folder = data_folder_of(run_of_file(file));
  for (std::string& name : options.files) name = path_in(folder, name);
  const VectorCorpus corpus(options);
  const VectorRowCounts rows = vector_rows(corpus.elements()->size(), corpus.labels().size(), options);
  std::vector<Tensor> tables;
  for (const NamedTensor& one : stored.tensors)
    if (one.tensor.shape().rank() == 2 && one.name.find('/') == std::string::npos) tables.push_back(one.tensor);
  if (tables.size() != 2) no_vectors(file);
  for (size_t i = 0; i < 2; ++i) {
    const Shape wanted{i == 0 ? rows.inputs : rows.outputs, options.size};
    if (tables[i].dtype() != Dtype::f32 || tables[i].shape() != wanted)
      throw Error(ErrorKind::data, {.where = file,
                                    .what = "the text has other words than it had in training",
                                    .got = tables[i].shape().text() + " in the model",
                                    .expected = wanted.text(),
                                    .hint = "keep the text as it was: the model has no words of its own"});
  }
  return std::make_unique<TrainedVectors>(options, corpus, tables[0], tables[1]);
}

}  // namespace perigee
